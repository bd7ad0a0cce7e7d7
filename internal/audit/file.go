package audit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// file is a file that grows until it is full and is then renamed to the old one. It assumes that it is
// the only writer.
type file struct {
	path   string
	max    int64
	f      *os.File // nil if the last attempt to open it failed
	size   int64
	last   byte // the last byte, if size > 0
	closed bool
}

// oldPath returns the name that the file gets when it is full.
func oldPath(path string) string { return path + ".1" }

func openFile(path string, limit int64) (*file, error) {
	if limit <= 0 {
		limit = DefaultMaxBytes
	}
	f := &file{path: path, max: limit}
	if err := f.open(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *file) open() error {
	opened, err := os.OpenFile(f.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	if err := f.adoptEnd(opened); err != nil {
		opened.Close()
		return fmt.Errorf("adopt %s: %w", f.path, err)
	}
	return nil
}

// adoptEnd continues where the last writer stopped.
func (f *file) adoptEnd(opened *os.File) error {
	info, err := opened.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	if info.Mode().Perm() != 0o600 {
		if err := opened.Chmod(0o600); err != nil {
			return err
		}
	}
	last := []byte{0}
	if info.Size() > 0 {
		if _, err := opened.ReadAt(last, info.Size()-1); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	f.f, f.size, f.last = opened, info.Size(), last[0]
	return nil
}

// isTorn reports whether the file ends inside a line.
func (f *file) isTorn() bool { return f.size > 0 && f.last != '\n' }

// makeRoom makes sure that n bytes can be written, by starting a new file if this one would become too
// large.
func (f *file) makeRoom(n int) error {
	if f.f == nil {
		if err := f.open(); err != nil {
			return err
		}
	}
	if f.size == 0 || f.size+int64(n) <= f.max {
		return nil
	}
	return f.rotate()
}

// rotate can be interrupted anywhere: after the rename the log is complete, and the next open creates
// the new file. If the file was removed, rotate only starts a new one.
func (f *file) rotate() error {
	err := os.Rename(f.path, oldPath(f.path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f.f.Close()
	f.f = nil
	return f.open()
}

func (f *file) write(p []byte) (int, error) {
	n, err := f.f.Write(p)
	if n > 0 {
		f.size += int64(n)
		f.last = p[n-1]
	}
	return n, err
}

func (f *file) close() error {
	f.closed = true
	if f.f == nil {
		return nil
	}
	return f.f.Close()
}
