// Package early plays the role of package pull before gVisor's packages are
// initialised, as internal/front does with the command line. It imports what the
// command line must not.
//
// Nothing can be tested in here.
package early

import (
	"os"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/pull"
)

func init() {
	if len(os.Args) == 1 && os.Args[0] == image.Argv0 {
		go func() { os.Exit(pull.Main(os.Stdin, os.Stdout)) }()
		select {}
	}
}
