package quota

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// Bounds of a walk: the sandbox decides how deep a tree is.
const (
	maxOpen   = 64      // directories open at a time, the innermost ones
	batchSize = 8 << 10 // bytes of a directory that are read at a time
	paceEvery = 128     // names between two checks of the clock
)

// walk goes through one tree.
type walk struct {
	meter  *Meter
	use    Use
	levels []level // from the top of the tree down
	paced  int
}

// level is a directory that is being read. If more than maxOpen are open, the outer ones
// are closed, and each keeps its position. On the way back they are opened again as the
// parent of the inner one.
type level struct {
	id   fileID
	fd   int    // -1: closed
	from int64  // position of the next name, as getdents counts
	buf  []byte // data read; nil while it is closed
	rest []byte // the part not used yet
}

// visitName counts a name, and enters it if it is a directory.
func (w *walk) visitName(ctx context.Context, dir int, name string) error {
	if err := w.keepPace(ctx); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		w.unread(err)
		return nil
	}
	w.use = w.use.Plus(Use{Bytes: w.meter.weighFile(&st), Files: 1})
	if w.meter.files++; w.meter.Most > 0 && w.meter.files > w.meter.Most {
		return ErrMany
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR && !w.meter.leaves(&st) {
		w.enterDir(dir, name)
	}
	return nil
}

// unread notes a file that could not be read. A missing one counts as nothing.
func (w *walk) unread(err error) {
	if !errors.Is(err, unix.ENOENT) {
		w.meter.Unread++
	}
}

const openDir = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK

// enterDir opens a directory as the innermost one.
func (w *walk) enterDir(dir int, name string) {
	fd, err := unix.Openat(dir, name, openDir, 0)
	if err != nil {
		if !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) { // it is not a directory any more
			w.unread(err)
		}
		return
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		w.unread(err)
		return
	}
	if outer := len(w.levels) - maxOpen; outer >= 0 {
		w.levels[outer].closeDir()
	}
	w.levels = append(w.levels, level{id: identify(&st), fd: fd})
}

// visitNext visits one more name of the innermost directory, or leaves it.
func (w *walk) visitNext(ctx context.Context) error {
	l := &w.levels[len(w.levels)-1]
	if len(l.rest) == 0 {
		more, err := l.readNames()
		if err != nil {
			w.unread(err)
		}
		if !more {
			w.leaveDir()
			return w.keepPace(ctx)
		}
	}
	name, ok := l.takeName()
	if !ok {
		w.meter.Unread++
		l.rest = nil
		return nil
	}
	if name == "." || name == ".." {
		return nil
	}
	return w.visitName(ctx, l.fd, name)
}

// readNames reads more of a directory; more is false at its end.
func (l *level) readNames() (more bool, err error) {
	if l.buf == nil {
		l.buf = make([]byte, batchSize)
	}
	n, err := unix.Getdents(l.fd, l.buf)
	if err != nil || n <= 0 {
		return false, err
	}
	l.rest = l.buf[:n]
	return true, nil
}

// takeName takes the next name from the data: a struct linux_dirent64, see getdents(2).
func (l *level) takeName() (name string, ok bool) {
	const head = 8 + 8 + 2 + 1 // inode, position of the next name, length, type
	if len(l.rest) < head {
		return "", false
	}
	length := int(binary.NativeEndian.Uint16(l.rest[16:]))
	if length < head || length > len(l.rest) {
		return "", false
	}
	l.from = int64(binary.NativeEndian.Uint64(l.rest[8:]))
	text, _, _ := bytes.Cut(l.rest[head:length], []byte{0})
	l.rest = l.rest[length:]
	return string(text), true
}

// closeDir closes an outer directory.
func (l *level) closeDir() {
	if l.fd >= 0 {
		unix.Close(l.fd)
	}
	l.fd, l.buf, l.rest = -1, nil, nil
}

// leaveDir returns to the directory around the innermost one. If the innermost one was moved meanwhile, its
// old parent cannot be found from it, and the walk ends.
func (w *walk) leaveDir() {
	inner := &w.levels[len(w.levels)-1]
	w.levels = w.levels[:len(w.levels)-1]
	defer inner.closeDir()
	if len(w.levels) == 0 {
		return
	}
	outer := &w.levels[len(w.levels)-1]
	if outer.fd >= 0 {
		return
	}
	if err := outer.reopen(inner.fd); err != nil {
		w.meter.Unread += len(w.levels)
		w.levels = nil // all of them are closed
	}
}

var errMoved = errors.New("a directory was moved while it was counted")

// reopen opens a directory again, from one inside it.
func (l *level) reopen(inner int) error {
	fd, err := unix.Openat(inner, "..", openDir, 0)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && identify(&st) != l.id {
		err = errMoved
	}
	if err == nil {
		_, err = unix.Seek(fd, l.from, unix.SEEK_SET)
	}
	if err != nil {
		unix.Close(fd)
		return err
	}
	l.fd = fd
	return nil
}

// keepPace calls Pace now and then.
func (w *walk) keepPace(ctx context.Context) error {
	if w.paced++; w.paced%paceEvery != 0 {
		return nil
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if w.meter.Pace != nil {
		return w.meter.Pace(ctx)
	}
	return nil
}

// closeAll closes all open directories.
func (w *walk) closeAll() {
	for i := range w.levels {
		w.levels[i].closeDir()
	}
}
