// Package leaktest fails tests that leave goroutines behind: no policy judges a flow that outlives its
// gateway.
package leaktest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// looks is how often goleak checks, each time for some 400 ms. On a busy machine goroutines may end
// late, and an HTTP/2 server keeps a connection that broke the protocol for a second.
const looks = 100

// Main runs the tests of a TestMain. It does not return.
func Main(m *testing.M) {
	code := m.Run()
	stays := goleak.IgnoreTopFunction("github.com/bothy-dev/bothy/internal/nsproc.runOrders")
	err := goleak.Find(stays)
	for n := 1; err != nil && n < looks; n++ {
		err = goleak.Find(stays)
	}
	if err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
