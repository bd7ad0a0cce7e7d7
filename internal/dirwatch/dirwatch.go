// Package dirwatch reports changes in directories of the host, using inotify. It watches a bounded
// number of directories, each through a descriptor that its owner opened. It follows no path.
package dirwatch

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Change is an event in a watched directory.
type Change struct {
	Dir    string // the directory's name in Add
	Name   string // of the file in it
	Mask   uint32
	Cookie uint32
}

const (
	nameEvents = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO
	fileEvents = unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_CLOSE_WRITE
)

// Bounds of the collected changes. Further changes within one pause are dropped.
const (
	pause      = 50 * time.Millisecond // time to collect events
	maxChanges = 1 << 14
)

// Watcher watches directories.
type Watcher struct {
	f   *os.File
	max int

	mu   sync.Mutex
	dirs map[int32]string // by watch descriptor
}

// New returns a Watcher for at most this many directories.
func New(most int) (*Watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("open inotify: %w", err)
	}
	return &Watcher{f: os.NewFile(uintptr(fd), "inotify"), max: most, dirs: map[int32]string{}}, nil
}

// Close ends Run.
func (w *Watcher) Close() error { return w.f.Close() }

// Add watches the directory that fd refers to, under a name.
func (w *Watcher) Add(fd int, name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.dirs) >= w.max {
		return fmt.Errorf("watch %s: more than %d directories are watched", name, w.max)
	}
	raw, err := w.f.SyscallConn()
	if err != nil {
		return err
	}
	var wd int
	var failed error
	if err := raw.Control(func(at uintptr) {
		wd, failed = unix.InotifyAddWatch(int(at), fmt.Sprintf("/proc/self/fd/%d", fd), nameEvents|fileEvents|unix.IN_ONLYDIR|unix.IN_EXCL_UNLINK)
	}); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("watch %s: %w", name, failed)
	}
	w.dirs[int32(wd)] = name
	return nil
}

// Run passes on the changes, in order and in batches, until Close or the end of ctx.
func (w *Watcher) Run(ctx context.Context, take func([]Change)) {
	buf := make([]byte, 64<<10)
	for ctx.Err() == nil {
		var b batch
		_ = w.f.SetReadDeadline(time.Time{})
		n, err := w.f.Read(buf)
		if err != nil {
			return
		}
		_ = w.f.SetReadDeadline(time.Now().Add(pause))
		for err == nil {
			w.parseEvents(buf[:n], &b)
			n, err = w.f.Read(buf)
		}
		if !os.IsTimeout(err) {
			return
		}
		if len(b.list) > 0 {
			take(b.list)
		}
	}
}

func (w *Watcher) parseEvents(events []byte, b *batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(events) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(events))
		mask := binary.NativeEndian.Uint32(events[4:])
		cookie := binary.NativeEndian.Uint32(events[8:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[12:]))
		name, _, _ := bytes.Cut(events[unix.SizeofInotifyEvent:end], []byte{0})
		events = events[end:]
		dir, ok := w.dirs[wd]
		if mask&unix.IN_IGNORED != 0 {
			delete(w.dirs, wd)
		} else if ok && len(name) > 0 {
			b.addChange(Change{dir, string(name), mask & (nameEvents | fileEvents | unix.IN_ISDIR), cookie})
		}
	}
}

// batch collects changes, without mere repetitions.
type batch struct {
	list []Change
	seen map[string]uint32 // events of a file since something happened to its name
}

func (b *batch) addChange(c Change) {
	path := c.Dir + "/" + c.Name
	if b.seen == nil {
		b.seen = map[string]uint32{}
	}
	switch {
	case len(b.list) >= maxChanges || c.Mask&(nameEvents|fileEvents) == 0:
		return
	case c.Mask&nameEvents != 0:
		delete(b.seen, path)
	case b.seen[path]&c.Mask&fileEvents != 0:
		return
	default:
		b.seen[path] |= c.Mask
	}
	b.list = append(b.list, c)
}
