// Package stall gives up on a body of which nothing more comes, or next to nothing.
package stall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Least is what has to come of a body while it is waited for, in bytes a second. The slowest
// line is faster.
const Least = 1 << 10

// ErrSlow says that too little came. To ask once more has no better prospect.
var ErrSlow = errors.New("it comes too slowly")

// Body is one that is given up when nothing comes for so long, or less than [Least] on the
// average of that time. What the reader does meanwhile does not count. The context is that
// of its request, which cancel ends; both are its own from here on.
func Body(ctx context.Context, cancel context.CancelCauseFunc, body io.ReadCloser, patience time.Duration) io.ReadCloser {
	return &watched{ReadCloser: body, ctx: ctx, cancel: cancel, patience: patience}
}

type watched struct {
	io.ReadCloser
	ctx      context.Context // done with the reason
	cancel   context.CancelCauseFunc
	patience time.Duration

	waited time.Duration // for what has come since it was last judged
	came   int64
}

func (w *watched) Read(p []byte) (int, error) {
	timer := time.AfterFunc(w.patience, func() {
		w.cancel(fmt.Errorf("nothing came for %s", w.patience))
	})
	begun := time.Now()
	n, err := w.ReadCloser.Read(p)
	timer.Stop()
	w.judge(int64(n), time.Since(begun))
	if err != nil && w.ctx.Err() != nil {
		// An end as well: the server may have ended what we gave up.
		err = context.Cause(w.ctx)
	}
	return n, err
}

// judge gives it up if too little came while it was waited for.
func (w *watched) judge(n int64, waited time.Duration) {
	w.came, w.waited = w.came+n, w.waited+waited
	if w.waited < w.patience {
		return
	}
	if float64(w.came) < Least*w.waited.Seconds() {
		w.cancel(fmt.Errorf("%w: %d bytes in %s", ErrSlow, w.came, w.waited.Round(time.Second)))
	}
	w.came, w.waited = 0, 0
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
