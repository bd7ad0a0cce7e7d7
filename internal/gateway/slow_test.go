package gateway

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestB10SlowRequest checks that a client that begins to send, however much, and does not go on is
// cut off, and that this is recorded.
func TestB10SlowRequest(t *testing.T) {
	t.Parallel()
	w := start(t, document(t, 1, "allow: [{host: api.example.com, methods: [GET]}]\n"), apiHosts)
	const head = "GET / HTTP/1.1\r\nHost: api.example.com\r\nX-Slow: "
	var wg sync.WaitGroup
	port := uint16(1000)
	for what, say := range map[string]string{
		"nothing": "", "a word": "GET", "half a head": head, "a long head": head + strings.Repeat("x", 60<<10),
		"a byte of TLS": "\x16", "half a greeting": "\x16\x03\x01\x3f\x00\x01\x00\x3e\xfc\x03\x03" + strings.Repeat("x", 8<<10),
	} {
		port += 2
		plain, secure := port, port+1
		wg.Go(func() {
			c, err := w.in.DialName(t.Context(), "api.example.com", plain)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_, _ = io.WriteString(c, say)
			if err := ends(c); !isReset(err) {
				t.Errorf("%s: it ends with %v", what, err)
			}
			w.refusesForeign(t, plain, "does not speak HTTP")
		})
		wg.Go(func() {
			if !strings.HasPrefix(head, say) && !strings.HasPrefix(say, head) {
				return // it is not for a connection after a greeting
			}
			raw, err := w.in.DialName(t.Context(), "api.example.com", secure)
			if err != nil {
				t.Error(err)
				return
			}
			c := tls.Client(raw, w.trusts("api.example.com"))
			defer c.Close()
			_, _ = io.WriteString(c, say)
			if err := c.Handshake(); err != nil {
				t.Error(err)
			}
			if err := ends(c); !isReset(err) {
				t.Errorf("%s, in TLS: it ends with %v", what, err)
			}
			w.refusesForeign(t, secure, "no head of a request has come whole")
		})
	}
	wg.Wait()
}

// ends returns how a connection has ended after four times its limit.
func ends(c net.Conn) error {
	_ = c.SetReadDeadline(time.Now().Add(4 * 30 * time.Second))
	_, err := io.Copy(io.Discard, c)
	return err
}
