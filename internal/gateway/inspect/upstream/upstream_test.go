package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/relay"
)

// TestB10SlowHead checks that a server that sends the head of its answer without end, byte by byte,
// is given up.
func TestB10SlowHead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for _, err = io.WriteString(c, "HTTP/1.1 200 OK\r\nX: "); err == nil; _, err = io.WriteString(c, "y") {
			time.Sleep(10 * time.Millisecond)
		}
	}()
	u := New(Config{Still: func(Host, netip.Addr) bool { return true }, Dial: func(context.Context, Host) (relay.Conn, error) {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return nil, err
		}
		return relay.TCP{TCPConn: c.(*net.TCPConn)}, nil
	}})
	defer u.Close()
	if u.head <= 0 || u.lanes.wide.ResponseHeaderTimeout <= 0 || u.lanes.narrow.ResponseHeaderTimeout <= 0 {
		t.Error("there is no limit")
	}
	u.head = 100 * time.Millisecond
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.example.com/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := u.RoundTrip(t.Context(), Host{Name: "api.example.com", Port: 80}, r, &Trip{})
	if err == nil {
		resp.Body.Close()
	}
	if !errors.Is(err, errLate) {
		t.Errorf("it is answered, or why not: %v", err)
	}
	<-gone // the connection was cut, too
}
