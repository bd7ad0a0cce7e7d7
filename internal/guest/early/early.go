// Package early plays the guest's roles before most of gVisor's packages are
// initialised: init would carry for as long as it lives what they allocate, and
// pay for it inside, where touching a page costs several times what it costs on
// the host.
//
// Go initialises packages in the order of their import paths as soon as what
// they import is ready. What the guest needs is ready before gVisor's larger
// packages are, and this path sorts before theirs. A test watches over the
// order.
package early

import (
	"os"

	"github.com/bothy-dev/bothy/internal/guest"
	_ "github.com/bothy-dev/bothy/internal/role" // lighter still, and never comes here
)

func init() {
	if code, ok := guest.Main(os.Args); ok {
		os.Exit(code)
	}
}
