// Package front runs the command line before most of gVisor's packages are
// initialised. That takes milliseconds in every process, and the command line
// uses none of them.
//
// Go initialises packages in the order of their import paths as soon as what
// they import is ready. This one imports nothing that waits for gVisor, and its
// path sorts before gVisor's, so its init function runs before those of gVisor's
// larger packages. It never returns: main is for the wall and the keeper. A test
// watches over the order.
//
// Nothing can be tested in here: a test that links this package is a command
// line.
package front

import (
	"os"
	"path/filepath"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/cli"
	"github.com/bothy-dev/bothy/internal/doctor"
	"github.com/bothy-dev/bothy/internal/engine"
	_ "github.com/bothy-dev/bothy/internal/guest/early" // the guest's roles never come here
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/keeper/early"
	"github.com/bothy-dev/bothy/internal/role" // nor do the light ones
	"github.com/bothy-dev/bothy/internal/task/book"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

func init() {
	if role.OfWall(os.Args) || early.Keeper != nil || os.Args[0] == vault.Argv0 || os.Args[0] == agent.Argv0 || os.Args[0] == image.Argv0 || os.Args[0] == book.Argv0 {
		return
	}
	// In a goroutine of its own: while packages are initialised this one is tied
	// to the main thread, and whenever it waited threads would be switched.
	go func() { os.Exit(run(os.Args)) }()
	select {}
}

// run plays a role that needs no gVisor and gives the exit code.
func run(args []string) int {
	if args[0] == doctor.ProbeArgv0 {
		if len(args) > 1 {
			return 0 // the inner probe: being started was all
		}
		return doctor.Probe()
	}
	if args[0] == engine.AttendArgv0 {
		if engine.Attend(args[1:]) != nil {
			return spec.ExitError
		}
		return spec.ExitOK
	}
	return cli.Main(append([]string{filepath.Base(args[0])}, args[1:]...))
}
