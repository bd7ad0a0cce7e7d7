// Package slowread cancels a body that transfers no data, or next to none.
package slowread

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Least is the minimum rate of a body while its reader waits, in bytes a second. The slowest line
// is faster.
const Least = 1 << 10

// ErrSlow says that too little data arrived. A retry has no better prospect.
var ErrSlow = errors.New("it comes too slowly")

// Body cancels a body that transfers nothing for so long, or less than [Least] on the average of
// that time. The time that the reader spends between reads does not count. The context is that of
// its request, which cancel ends. Both belong to the body from here on.
func Body(ctx context.Context, cancel context.CancelCauseFunc, body io.ReadCloser, patience time.Duration) io.ReadCloser {
	return &watched{ReadCloser: body, ctx: ctx, cancel: cancel, patience: patience}
}

type watched struct {
	io.ReadCloser
	ctx      context.Context // done with the reason
	cancel   context.CancelCauseFunc
	patience time.Duration

	waited time.Duration // for the bytes since the last check
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
		// Even if the read returned EOF: the server may have ended the body because we cancelled it.
		err = context.Cause(w.ctx)
	}
	return n, err
}

// judge cancels the body if too little arrived in the time the reader waited.
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

// Upload is the body of a request that is cancelled when the server reads none of it for so long,
// by the cancel function of its context.
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
