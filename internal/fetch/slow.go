package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// least is the minimum rate of a body while its reader waits, in bytes per second. The slowest line is
// faster.
const least = 1 << 10

// ErrSlow reports that too little data arrived. A retry would fail, too.
var ErrSlow = errors.New("it comes too slowly")

// download is a body that is cancelled when it transfers nothing for a given time, or on average less
// than least in that time. The time that the reader spends between reads does not count.
type download struct {
	io.ReadCloser
	ctx      context.Context // done with the reason
	cancel   context.CancelCauseFunc
	patience time.Duration

	waited time.Duration // for the bytes since the last check
	came   int64
}

func (d *download) Read(p []byte) (int, error) {
	timer := time.AfterFunc(d.patience, func() {
		d.cancel(fmt.Errorf("nothing came for %s", d.patience))
	})
	begun := time.Now()
	n, err := d.ReadCloser.Read(p)
	timer.Stop()
	d.judgeRate(int64(n), time.Since(begun))
	if err != nil && d.ctx.Err() != nil {
		// Even if the read returned EOF: the server may have ended the body because we cancelled it.
		err = context.Cause(d.ctx)
	}
	return n, err
}

// judgeRate cancels the body if too little arrived while the reader waited.
func (d *download) judgeRate(n int64, waited time.Duration) {
	d.came, d.waited = d.came+n, d.waited+waited
	if d.waited < d.patience {
		return
	}
	if float64(d.came) < least*d.waited.Seconds() {
		d.cancel(fmt.Errorf("%w: %d bytes in %s", ErrSlow, d.came, d.waited.Round(time.Second)))
	}
	d.came, d.waited = 0, 0
}

func (d *download) Close() error {
	d.cancel(nil)
	return d.ReadCloser.Close()
}

// newUpload returns the body of a request that is cancelled, through the cancel function of its context,
// when the server reads nothing for a given time.
func newUpload(cancel context.CancelCauseFunc, body io.ReadCloser, patience time.Duration) io.ReadCloser {
	return &upload{body, patience, time.AfterFunc(patience, func() {
		cancel(fmt.Errorf("nothing was taken for %s", patience))
	})}
}

type upload struct {
	io.ReadCloser
	patience time.Duration
	timer    *time.Timer
}

func (u *upload) Read(p []byte) (int, error) {
	u.timer.Stop()
	n, err := u.ReadCloser.Read(p)
	if err == nil {
		u.timer.Reset(u.patience)
	}
	return n, err
}

func (u *upload) Close() error {
	u.timer.Stop()
	return u.ReadCloser.Close()
}
