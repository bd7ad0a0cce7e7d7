package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// pollEvery is how often a waiting reader checks again. It sees renames and appends by any process this
// way, on any file system.
const pollEvery = 200 * time.Millisecond

// walk reads the files of a log in the order they were written, while a writer appends to them and
// renames them.
type walk struct {
	path    string
	follow  bool
	data    func([]byte) error // the next bytes; they are overwritten afterwards
	fileEnd func() error       // called when the file is complete

	file *os.File // the one being read. Its inode cannot be reused while it is open.
	buf  [32 << 10]byte
}

func (w *walk) run(ctx context.Context) error {
	defer func() { w.file.Close() }() // Close of nil is fine
	for {
		if err := w.drainFile(ctx); err != nil {
			return err
		}
		next, err := w.successor()
		if errors.Is(err, fs.ErrNotExist) && w.follow {
			err = nil
		}
		switch {
		case err != nil:
			return err
		case next != nil:
			if err := w.advance(ctx, next); err != nil {
				return err
			}
			continue
		case !w.follow:
			return w.fileEnd()
		}
		if err := w.waitForMore(ctx); err != nil {
			return err
		}
	}
}

// drainFile passes on the rest of the file.
func (w *walk) drainFile(ctx context.Context) error {
	for w.file != nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := w.file.Read(w.buf[:])
		if n > 0 {
			if err := w.data(w.buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// advance moves to the next file. The writer has left this one, but may have added to it since we saw
// its end.
func (w *walk) advance(ctx context.Context, next *os.File) error {
	if w.file != nil {
		if err := w.drainFile(ctx); err != nil {
			next.Close()
			return err
		}
		if err := w.fileEnd(); err != nil {
			next.Close()
			return err
		}
		w.file.Close()
	}
	w.file = next
	return nil
}

// successor opens the file that was written after the one being read. It returns nil if that is still
// the newest, and fs.ErrNotExist if the log does not exist.
func (w *walk) successor() (*os.File, error) {
	for {
		old, current, err := w.openBoth()
		if err != nil {
			return nil, err
		}
		if old != nil && current != nil && sameFile(old, current) {
			closeAll(old, current) // renamed between the two opens
			continue
		}
		next := w.choose(old, current)
		for _, f := range []*os.File{old, current} {
			if f != nil && f != next {
				f.Close()
			}
		}
		if next == nil && w.file == nil {
			return nil, fmt.Errorf("open %s: %w", w.path, fs.ErrNotExist)
		}
		return next, nil
	}
}

// openBoth opens the current file before the old one. The other way round, a
// rename between the two could hide a file from us.
func (w *walk) openBoth() (old, current *os.File, err error) {
	current, err = openIfThere(w.path)
	if err != nil {
		return nil, nil, err
	}
	old, err = openIfThere(oldPath(w.path))
	if err != nil {
		closeAll(current)
		return nil, nil, err
	}
	return old, current, nil
}

func (w *walk) choose(old, current *os.File) *os.File {
	switch {
	case w.file != nil && current != nil && sameFile(current, w.file):
		return nil
	case w.file != nil && old != nil && sameFile(old, w.file):
		return current
	case old != nil: // the first file, or two renames since the last look
		return old
	}
	return current
}

func (w *walk) waitForMore(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pollEvery):
		return nil
	}
}

// openIfThere returns nil for a missing file.
func openIfThere(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return f, err
}

func sameFile(a, b *os.File) bool {
	ai, errA := a.Stat()
	bi, errB := b.Stat()
	return errA == nil && errB == nil && os.SameFile(ai, bi)
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		f.Close()
	}
}
