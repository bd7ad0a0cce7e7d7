package upstream

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/gateway/dial"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/hostproxy"
)

// TestForwarded checks the request to a proxy that refuses CONNECT, and that none of its answers shows
// its password.
func TestForwarded(t *testing.T) {
	const key = "bWU6cEBzcy8/d29yZA==" // me:p@ss/?word
	for _, tt := range []struct {
		answer string // of the proxy
		method string
		status int    // of the answer, if there is one
		err    string // else
	}{
		{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "GET", 200, ""},
		{"HTTP/1.1 404 x\r\nContent-Length: 2\r\n\r\nno", "GET", 404, ""},
		{"HTTP/1.1 503 x\r\nConnection: close\r\n\r\nsorry", "GET", 503, ""},
		{"HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=corp\r\nContent-Length: 2\r\n\r\nno", "GET", 0, "(407)"},
		{"HTTP/1.1 503 x\r\nConnection: close\r\n\r\n<a href=mailto:x?body=Basic%20" + strings.NewReplacer("/", "%2F", "=", "%3D").Replace(key) + ">", "GET", 0, ": 503"},
		{"HTTP/1.1 503 x\r\nX-Sent: " + key + "\r\nContent-Length: 0\r\n\r\n", "GET", 0, ": 503"},
		{"HTTP/1.1 503 x\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nno", "GET", 0, ": 503"},
		{"HTTP/1.1 503 x\r\nConnection: close\r\n\r\n" + strings.Repeat("x", maxPage+1), "GET", 0, ": 503"},
		{"garbage\r\n\r\n", "GET", 0, "malformed"},
		{"", "GET", 0, "EOF"},
		{"", "TRACE", 0, "TRACE"},
	} {
		sent := make(chan *http.Request, 1)
		at := forwardingProxy(t, tt.answer, sent)
		d := &dial.Dialer{Proxies: hostproxy.Read([]string{"HTTP_PROXY=http://me:p%40ss%2F%3Fword@" + at})}
		to := netip.MustParseAddrPort("192.0.2.1:80")
		u := New(Config{Still: func(Host, netip.Addr) bool { return true }, Dial: func(ctx context.Context, h Host) (relay.Conn, error) {
			return d.AddrForHTTP(ctx, netip.AddrPortFrom(h.Addr, h.Port), func(netip.AddrPort) error { return nil })
		}})
		r, err := http.NewRequestWithContext(t.Context(), tt.method, "http://192.0.2.1/a?b=c", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Max-Forwards", "0")
		resp, err := u.RoundTrip(t.Context(), Host{Addr: to.Addr(), Port: 80}, r, &Trip{})
		switch {
		case err == nil:
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode != tt.status {
				t.Errorf("%.60q: %d", tt.answer, resp.StatusCode)
			}
		case tt.err == "" || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), key):
			t.Errorf("%.60q: %v", tt.answer, err)
		}
		select {
		case q := <-sent:
			if q.RequestURI != "http://192.0.2.1/a?b=c" || q.Host != "192.0.2.1" || q.Header.Get("Proxy-Authorization") != "Basic "+key || q.Header.Get("Max-Forwards") != "" {
				t.Errorf("the proxy was sent %s for %s: %v", q.RequestURI, q.Host, q.Header)
			}
		default:
			if tt.method != "TRACE" {
				t.Errorf("%.60q: the proxy was sent nothing", tt.answer)
			}
		}
		u.Close()
	}
}

// forwardingProxy refuses CONNECT, and gives one answer to every other request.
func forwardingProxy(t *testing.T, answer string, sent chan<- *http.Request) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			q, err := http.ReadRequest(bufio.NewReader(c))
			if err == nil && q.Method == http.MethodConnect {
				fmt.Fprint(c, "HTTP/1.1 403 x\r\n\r\n")
			} else if err == nil {
				sent <- q
				_, _ = io.WriteString(c, answer)
			}
			c.Close()
		}
	}()
	return l.Addr().String()
}
