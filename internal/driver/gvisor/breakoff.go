package gvisor

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// beginTime is how often it is looked whether a save has come to the pages.
const beginTime = 5 * time.Millisecond

// breakOff has a save of the memory fail soon after ctx ends. Everything inside stands still
// until done is called, when the save has ended.
//
// A sentry has no request to end a save, and can be asked for hardly anything meanwhile. But one that
// cannot write fails, and the sandbox is as it was. So it may not: its files can become no
// larger than the pages already are (RLIMIT_FSIZE). What programs have written to files of
// the host is with it before the first page is written, and nothing is until they go on. The
// signal that comes with it (SIGXFSZ) is passed on to init.
func (w *wall) breakOff(ctx context.Context, pages *os.File) (done func()) {
	over, lifted := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(lifted)
		select {
		case <-ctx.Done():
		case <-over:
			return
		}
		size, begun := grown(pages, over)
		if !begun {
			return
		}
		if lift, err := w.limitFiles(size); err == nil { // else it writes to its end
			<-over
			lift()
		}
	}()
	return func() { close(over); <-lifted }
}

// grown waits until there is something in a file, and tells how much.
func grown(f *os.File, over <-chan struct{}) (size uint64, begun bool) {
	for {
		if info, err := f.Stat(); err != nil {
			return 0, false
		} else if info.Size() > 0 {
			return uint64(info.Size()), true
		}
		select {
		case <-over:
			return 0, false
		case <-time.After(beginTime):
		}
	}
}

// limitFiles forbids the sentry to write to a file beyond size, until that is lifted.
func (w *wall) limitFiles(size uint64) (lift func(), err error) {
	var before unix.Rlimit
	if err := w.limit(nil, &before); err != nil {
		return nil, fmt.Errorf("read the sentry's limit of files: %w", err)
	}
	now := unix.Rlimit{Cur: min(size, before.Cur), Max: before.Max}
	if err := w.limit(&now, nil); err != nil {
		return nil, fmt.Errorf("limit the sentry's files: %w", err)
	}
	return func() { _ = w.limit(&before, nil) }, nil // it may have ended
}

// limit sets and reads the limit of a sentry that has not ended: its number may be another
// process's then.
func (w *wall) limit(now, before *unix.Rlimit) error {
	select {
	case <-w.done:
		return errEnded
	default:
		return unix.Prlimit(w.sandbox.Getpid(), unix.RLIMIT_FSIZE, now, before)
	}
}
