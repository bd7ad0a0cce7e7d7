package gvisor

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// beginTime is how often breakOff checks whether a save has reached the pages.
const beginTime = 5 * time.Millisecond

// breakOff makes a save of the memory fail soon after ctx ends. The caller calls done when the save has
// ended; until then everything inside is paused.
//
// The sentry has no request to cancel a save, and accepts hardly any request meanwhile. But a sentry
// that cannot write fails the save, and the sandbox is unharmed. So breakOff limits the size of its
// files to the size that the pages already have (RLIMIT_FSIZE). Data that programs wrote to files of the
// host reaches the host before the first page is written. After that programs write nothing until they
// resume. The signal of the limit (SIGXFSZ) is passed on to init.
func (w *wall) breakOff(ctx context.Context, pages *os.File) (done func()) {
	over, lifted := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(lifted)
		select {
		case <-ctx.Done():
		case <-over:
			return
		}
		size, begun := waitUntilGrown(pages, over)
		if !begun {
			return
		}
		if lift, err := w.limitFiles(size); err == nil { // otherwise the save runs to its end
			<-over
			lift()
		}
	}()
	return func() { close(over); <-lifted }
}

// waitUntilGrown waits until a file is not empty, and returns its size.
func waitUntilGrown(f *os.File, over <-chan struct{}) (size uint64, begun bool) {
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

// limitFiles forbids the sentry to write to a file beyond size, until lift is called.
func (w *wall) limitFiles(size uint64) (lift func(), err error) {
	var before unix.Rlimit
	if err := w.limitSentry(nil, &before); err != nil {
		return nil, fmt.Errorf("read the sentry's limit of files: %w", err)
	}
	now := unix.Rlimit{Cur: min(size, before.Cur), Max: before.Max}
	if err := w.limitSentry(&now, nil); err != nil {
		return nil, fmt.Errorf("limit the sentry's files: %w", err)
	}
	return func() { _ = w.limitSentry(&before, nil) }, nil // the sentry may have ended
}

// limitSentry sets and reads the limit of the sentry, unless the sentry has ended: its pid may then belong to
// another process.
func (w *wall) limitSentry(now, before *unix.Rlimit) error {
	select {
	case <-w.done:
		return errEnded
	default:
		return unix.Prlimit(w.sandbox.Getpid(), unix.RLIMIT_FSIZE, now, before)
	}
}
