package upstream

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/gateway/uploadlimit"
)

// TestHeadSentAgain checks that a head that an HTTP/2 server makes net/http send again counts
// again. Bytes beyond the budget do not leave: the connection is closed.
func TestHeadSentAgain(t *testing.T) {
	r, err := http.NewRequest(http.MethodGet, "https://example.com/path", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Data", strings.Repeat("x", 1000))
	l := uploadlimit.New(nil, nil)
	x := &Trip{Outflow: l.Meter("example.com", 2500)}
	head, err := x.countHead(r)
	if err != nil || head.size < 1000 || head.size > 1100 {
		t.Fatalf("%+v, %v", head, err)
	}
	over := func() (closed bool) {
		c, other := net.Pipe()
		defer other.Close()
		head.sentOver(c)
		go func() { defer c.Close(); _, _ = c.Write([]byte("x")) }()
		_, err := other.Read(make([]byte, 1))
		return errors.Is(err, io.EOF)
	}
	for n, want := range []bool{false, false, true} {
		if got := over(); got != want {
			t.Errorf("attempt %d: closed is %t", n+1, got)
		}
	}
	if left := l.Left("example.com", 2500); left != 0 || x.Outflow.Err() == nil {
		t.Errorf("%d bytes are left, %v", left, x.Outflow.Err())
	}
	if head, err := (&Trip{}).countHead(r); head != nil || err != nil {
		t.Errorf("without a budget: %v, %v", head, err)
	}
}
