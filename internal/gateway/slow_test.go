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

// TestB10SlowRequest: a client that begins to say something, however much, and
// does not go on is cut off.
func TestB10SlowRequest(t *testing.T) {
	t.Parallel()
	w := start(t, document(t, 1, "allow: [{host: api.example.com, methods: [GET]}]\n"), apiHosts)
	const head = "GET / HTTP/1.1\r\nHost: api.example.com\r\nX-Slow: "
	var wg sync.WaitGroup
	for what, say := range map[string]string{
		"nothing": "", "a word": "GET", "half a head": head, "a long head": head + strings.Repeat("x", 60<<10),
		"a byte of TLS": "\x16", "half a greeting": "\x16\x03\x01\x3f\x00\x01\x00\x3e\xfc\x03\x03" + strings.Repeat("x", 8<<10),
	} {
		wg.Go(func() {
			c, err := w.in.DialName(t.Context(), "api.example.com", 80)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_, _ = io.WriteString(c, say)
			if stays(c) {
				t.Errorf("%s: it is still connected", what)
			}
		})
		wg.Go(func() {
			if !strings.HasPrefix(head, say) && !strings.HasPrefix(say, head) {
				return // it is not for behind a greeting
			}
			raw, err := w.in.DialName(t.Context(), "api.example.com", 443)
			if err != nil {
				t.Error(err)
				return
			}
			conf := w.trust()
			conf.ServerName = "api.example.com"
			c := tls.Client(raw, conf)
			defer c.Close()
			_, _ = io.WriteString(c, say)
			if err := c.Handshake(); err != nil {
				t.Error(err)
			}
			if stays(c) {
				t.Errorf("%s, in TLS: it is still connected", what)
			}
		})
	}
	wg.Wait()
}

// stays tells whether a connection is still there after four times as long as it
// may be.
func stays(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(4 * 30 * time.Second))
	_, err := io.Copy(io.Discard, c)
	return isTimeout(err)
}
