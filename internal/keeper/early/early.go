// Package early lets a keeper begin while gVisor's packages are initialised,
// which takes milliseconds of every start and which most of the keeper's own
// preparations need not wait for.
//
// Go initialises packages in the order of their import paths as soon as what
// they import is ready, so this package's init function runs before those of
// gVisor's larger ones.
package early

import (
	"os"
	"runtime"

	"github.com/bothy-dev/bothy/internal/keeper"
)

// Keeper is what this process, if it is a keeper, has begun; nil if it is not.
var Keeper *keeper.Boot

func init() {
	if len(os.Args) == 2 && os.Args[0] == keeper.Argv0 {
		// The wall's processes die with the thread that made them: a keeper
		// makes them from its main thread, which lives as long as it does.
		runtime.LockOSThread()
		Keeper = keeper.Begin(os.Args[1])
	}
}
