//go:build linux

// Command bothy is the command line. It also runs the helpers that need parts of the command line: the
// processes that seal secrets, install agents, fetch images and keep tasks. They are this program under
// another name.
package main

import (
	"os"
	"path/filepath"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/agent/install"
	"github.com/bothy-dev/bothy/internal/cli"
	"github.com/bothy-dev/bothy/internal/doctor"
	"github.com/bothy-dev/bothy/internal/hostpath/look"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/pull"
	"github.com/bothy-dev/bothy/internal/snapshot"
	"github.com/bothy-dev/bothy/internal/task/book"
	"github.com/bothy-dev/bothy/internal/task/database"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/vault/sealer"
	"github.com/bothy-dev/bothy/spec"
)

func main() {
	if len(os.Args) == 0 {
		os.Exit(spec.ExitUsage)
	}
	os.Exit(run(os.Args))
}

// run plays the role that the first argument names, and returns its exit code.
func run(args []string) int {
	switch args[0] {
	case look.Argv0:
		return look.Main(args)
	case vault.Argv0:
		return sealer.Main(os.Stdin, os.Stdout)
	case agent.Argv0:
		return install.Main(os.Stdin, os.Stdout)
	case image.Argv0:
		return pull.Main(os.Stdin, os.Stdout)
	case book.Argv0:
		if len(args) != 2 {
			return spec.ExitUsage
		}
		return database.Main(args[1], os.Stdin, os.Stdout)
	case doctor.ProbeArgv0:
		if len(args) > 1 {
			return spec.ExitOK // the inner probe only checks that it starts
		}
		return doctor.Probe()
	case snapshot.AttendArgv0:
		if snapshot.Attend(args[1:]) != nil {
			return spec.ExitError
		}
		return spec.ExitOK
	}
	return cli.Main(append([]string{filepath.Base(args[0])}, args[1:]...))
}
