// Command bothy runs programs in isolated sandboxes. The one binary plays every
// role: the command line, the keeper of a running sandbox, gVisor's own
// processes behind it, and the helpers inside. Which one is told by the name
// it was started under, before anything else happens.
package main

import (
	"os"
	"path/filepath"
	"runtime"

	"github.com/bothy-dev/bothy/internal/cli"
	"github.com/bothy-dev/bothy/internal/doctor"
	"github.com/bothy-dev/bothy/internal/driver/gvisor"
	"github.com/bothy-dev/bothy/internal/keeper"
	_ "github.com/bothy-dev/bothy/internal/role" // the light roles, before anything heavy
)

func init() {
	// The wall's processes die with the thread that made them: a keeper makes
	// them from its main thread, which lives as long as it does.
	if os.Args[0] == keeper.Argv0 {
		runtime.LockOSThread()
	}
}

func main() {
	if gvisor.IsChild(os.Args) {
		gvisor.RunChild(os.Args)
	}
	if os.Args[0] == keeper.Argv0 && len(os.Args) == 2 {
		os.Exit(keeper.Main(os.Args[1], gvisor.Driver{}))
	}
	if os.Args[0] == doctor.ProbeArgv0 {
		if len(os.Args) > 1 {
			os.Exit(0) // the inner probe: being started was all
		}
		os.Exit(doctor.Probe())
	}
	os.Exit(cli.Main(append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...)))
}
