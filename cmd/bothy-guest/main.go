// Command bothy-guest runs inside a sandbox as init, sudo and other programs of Bothy's own. Outside it
// prepares the short-lived processes of the wall that gVisor starts.
package main

import (
	"fmt"
	"os"

	"github.com/bothy-dev/bothy/internal/driver/gvisor/starter"
	"github.com/bothy-dev/bothy/internal/guest"
)

func main() {
	if len(os.Args) == 0 {
		os.Exit(127)
	}
	if code, ok := starter.Main(os.Args); ok {
		os.Exit(code)
	}
	if code, ok := guest.Main(os.Args); ok {
		os.Exit(code)
	}
	fmt.Fprintln(os.Stderr, "bothy-guest: bothy starts this inside sandboxes; to run one: bothy run")
	os.Exit(2)
}
