// Package stall gives up on a body of which nothing more comes.
package stall

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Body is one that is given up when nothing comes for so long. The context is that
// of its request, which cancel ends; both are its own from here on.
func Body(ctx context.Context, cancel context.CancelCauseFunc, body io.ReadCloser, patience time.Duration) io.ReadCloser {
	return &watched{body, ctx, cancel, patience}
}

type watched struct {
	io.ReadCloser
	ctx      context.Context // done with the reason
	cancel   context.CancelCauseFunc
	patience time.Duration
}

func (w *watched) Read(p []byte) (int, error) {
	timer := time.AfterFunc(w.patience, func() {
		w.cancel(fmt.Errorf("nothing came for %s", w.patience))
	})
	n, err := w.ReadCloser.Read(p)
	timer.Stop()
	if err != nil && w.ctx.Err() != nil {
		// An end as well: the server may have ended what we gave up.
		err = context.Cause(w.ctx)
	}
	return n, err
}

func (w *watched) Close() error {
	w.cancel(nil)
	return w.ReadCloser.Close()
}

// Upload is the body of a request that is given up when nothing of it is taken for so
// long, by the cancel function of its context.
func Upload(cancel context.CancelCauseFunc, body io.ReadCloser, patience time.Duration) io.ReadCloser {
	return &taken{body, patience, time.AfterFunc(patience, func() {
		cancel(fmt.Errorf("nothing was taken for %s", patience))
	})}
}

type taken struct {
	io.ReadCloser
	patience time.Duration
	timer    *time.Timer
}

func (t *taken) Read(p []byte) (int, error) {
	t.timer.Stop()
	n, err := t.ReadCloser.Read(p)
	if err == nil {
		t.timer.Reset(t.patience)
	}
	return n, err
}

func (t *taken) Close() error {
	t.timer.Stop()
	return t.ReadCloser.Close()
}
