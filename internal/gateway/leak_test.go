package gateway

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// What a test began must end with it: a flow that outlives its gateway is one that
// nobody judges any more. A server of HTTP/2 keeps a connection that broke the protocol
// for a second, longer than goleak looks at a time.
func TestMain(m *testing.M) {
	code := m.Run()
	err := goleak.Find()
	for range 9 {
		if err != nil {
			err = goleak.Find()
		}
	}
	if err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
