// Package leaktest tells tests that leave goroutines behind: a flow that outlives its
// gateway is one that nobody judges any more.
package leaktest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// looks is how often goleak looks, each time for some 400 ms: on a busy machine what ends
// may take its time, and a server of HTTP/2 keeps a connection that broke the protocol for
// a second.
const looks = 100

// Main is a TestMain. It does not return.
func Main(m *testing.M) {
	code := m.Run()
	stays := goleak.IgnoreTopFunction("github.com/bothy-dev/bothy/internal/nsproc.obey")
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
