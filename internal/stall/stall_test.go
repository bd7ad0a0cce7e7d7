package stall

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// What somebody does not take is given up, what they take slowly is not.
func TestUpload(t *testing.T) {
	over := make(chan struct{})
	for name, c := range map[string]struct {
		serve func(r *http.Request)
		ok    bool
	}{
		"slow": {func(r *http.Request) {
			for b := make([]byte, 64<<10); ; time.Sleep(10 * time.Millisecond) {
				if _, err := io.ReadFull(r.Body, b); err != nil {
					return
				}
			}
		}, true},
		"never": {func(*http.Request) { <-over }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { c.serve(r) }))
			s.Listener = small{s.Listener}
			s.Start()
			defer s.Close()
			if !c.ok {
				defer close(over)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			body := Upload(cancel, io.NopCloser(io.LimitReader(zeros{}, 32<<20)), 2*time.Second)
			r, err := http.NewRequestWithContext(ctx, http.MethodPut, s.URL, body)
			if err != nil {
				t.Fatal(err)
			}
			r.ContentLength = 32 << 20
			resp, err := http.DefaultClient.Do(r)
			if err == nil {
				_ = resp.Body.Close()
			}
			if c.ok != (err == nil) || !c.ok && !strings.Contains(context.Cause(ctx).Error(), "nothing was taken") {
				t.Errorf("%v, %v", err, context.Cause(ctx))
			}
		})
	}
}

// small takes little before somebody reads.
type small struct{ net.Listener }

func (l small) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(64 << 10)
	}
	return c, err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
