// Command bothy-keeper owns one running sandbox: it is the keeper, which bothy starts, and the
// sentry and the gofer, which the keeper starts.
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/bothy-dev/bothy/internal/driver/gvisor"
	"github.com/bothy-dev/bothy/internal/driver/gvisor/starter"
	"github.com/bothy-dev/bothy/internal/hostpath/look"
	"github.com/bothy-dev/bothy/internal/keeper"
	"github.com/bothy-dev/bothy/internal/program"
	"github.com/bothy-dev/bothy/spec"
)

func init() {
	// Bothy does not use the allocation profile. For it Go would record the allocating stack every half
	// megabyte, which takes a hundredth of a start.
	runtime.MemProfileRate = 0
	if isKeeper(os.Args) {
		// The wall's processes die with the thread that made them: a keeper makes them from its
		// main thread, which lives as long as it does.
		runtime.LockOSThread()
	}
}

func isKeeper(args []string) bool { return len(args) == 2 && args[0] == keeper.Argv0 }

func main() {
	switch {
	case starter.IsChild(os.Args):
		gvisor.RunChild(os.Args)
	case isKeeper(os.Args):
		os.Exit(keeper.Begin(os.Args[1]).Main(gvisor.Driver{}, plugged))
	case len(os.Args) > 0 && os.Args[0] == look.Argv0:
		os.Exit(look.Main(os.Args))
	}
	fmt.Fprintln(os.Stderr, program.Keeper+": bothy starts this; to run a sandbox: bothy run")
	os.Exit(spec.ExitUsage)
}
