package fetch

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestUpload checks that an upload is cancelled if the server stops reading it, but not if it reads
// slowly.
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
				body := newUpload(cancel, io.NopCloser(io.LimitReader(zeros{}, 1<<20)), patience)
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

// takes is a server that pauses before it reads each piece of an upload.
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

// paced is a body that arrives in repeated pieces.
type paced struct {
	n     int           // bytes
	every time.Duration // 0 is at once
	left  int           // times
	ctx   context.Context
}

func (p *paced) Read(b []byte) (int, error) {
	if p.left--; p.left < 0 {
		return 0, io.EOF
	}
	select {
	case <-time.After(p.every):
		return min(p.n, len(b)), nil
	case <-p.ctx.Done():
		return 0, p.ctx.Err()
	}
}

func (p *paced) Close() error { return nil }

// TestBody checks that a body that arrives too slowly is cancelled, however steadily, and that a
// slow reader does not cancel it.
func TestBody(t *testing.T) {
	for name, c := range map[string]struct {
		body  paced
		read  time.Duration // time that the reader spends on each part
		slow  bool
		never bool
	}{
		"at once":        {body: paced{n: 1 << 10, left: 1000}},
		"steadily":       {body: paced{n: 2 << 10, every: time.Second, left: 1000}},
		"in lumps":       {body: paced{n: 100 << 10, every: 50 * time.Second, left: 100}},
		"a small one":    {body: paced{n: 1, every: time.Second, left: 50}},
		"a slow reader":  {body: paced{n: 1, left: 1000}, read: time.Minute},
		"a trickle":      {body: paced{n: 1, every: time.Second, left: 1 << 20}, slow: true},
		"a slow trickle": {body: paced{n: 10, every: 59 * time.Second, left: 1 << 20}, slow: true},
		"nothing":        {body: paced{n: 1, every: time.Hour, left: 1}, never: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				c.body.ctx = ctx
				r := &download{ReadCloser: &c.body, ctx: ctx, cancel: cancel, patience: time.Minute}
				var err error
				for buf := make([]byte, 1<<20); err == nil; time.Sleep(c.read) {
					_, err = r.Read(buf)
				}
				if errors.Is(err, ErrSlow) != c.slow || (err == io.EOF) == (c.slow || c.never) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}
