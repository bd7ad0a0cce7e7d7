package stall

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// What somebody does not take is given up, what they take slowly is not.
func TestUpload(t *testing.T) {
	const patience = time.Minute
	for name, c := range map[string]struct {
		pause time.Duration
		ok    bool
	}{
		"slow":  {patience - time.Second, true},
		"never": {patience + time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				body := Upload(cancel, io.NopCloser(io.LimitReader(zeros{}, 1<<20)), patience)
				r, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://example.com", body)
				if err != nil {
					t.Fatal(err)
				}
				r.ContentLength = 1 << 20
				var server sync.WaitGroup
				defer server.Wait()
				client := http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
					near, far := net.Pipe()
					server.Go(func() { takes(far, c.pause) })
					return near, nil
				}}
				resp, err := client.RoundTrip(r)
				if err == nil {
					_ = resp.Body.Close()
				}
				if c.ok != (err == nil) || !c.ok && !strings.Contains(context.Cause(ctx).Error(), "nothing was taken") {
					t.Errorf("%v, %v", err, context.Cause(ctx))
				}
			})
		})
	}
}

// takes is a server that waits before it takes each piece of what is uploaded.
func takes(c net.Conn, pause time.Duration) {
	defer c.Close()
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	for b := make([]byte, 64<<10); err == nil; _, err = io.ReadFull(r.Body, b) {
		time.Sleep(pause)
	}
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
