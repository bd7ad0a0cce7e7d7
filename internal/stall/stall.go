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
