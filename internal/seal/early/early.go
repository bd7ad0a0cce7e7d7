// Package early plays the role of package seal before gVisor's packages are
// initialised, as internal/front does with the command line. It imports what
// the command line must not.
//
// Nothing can be tested in here.
package early

import (
	"os"

	"github.com/bothy-dev/bothy/internal/seal"
	"github.com/bothy-dev/bothy/internal/vault"
)

func init() {
	if len(os.Args) == 1 && os.Args[0] == vault.Argv0 {
		go func() { os.Exit(seal.Main(os.Stdin, os.Stdout)) }()
		select {}
	}
}
