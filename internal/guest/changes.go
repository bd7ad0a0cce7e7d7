package guest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
)

// watching tracks the directories that programs inside watch and that the host changes, too. Init
// watches the same directories itself. A change that init sees was made inside, so init does
// not report it again when the host's report arrives.
type watching struct {
	once sync.Once
	ear  int // inotify; -1 without it

	mu    sync.Mutex
	dirs  []string      // in the order in which they were watched; only appended to
	more  chan struct{} // closed when dirs grows
	byWD  map[int32]string
	heard map[string]*heard // by path
}

// heard records the changes made to a file inside.
type heard struct {
	at     time.Time      // of the last event
	counts map[uint32]int // of events about a name
	own    map[uint32]int // events that init itself has raised
}

// Bounds.
const (
	maxWatchedDirs = 2048
	maxHeard       = 1 << 14
	heardFor       = 10 * time.Second
)

// Events about a name in a directory, and events about a file.
const (
	nameEvents = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO
	fileEvents = unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_CLOSE_WRITE
)

// watched returns the directories after the first since, and waits for at least one.
func (w *watching) watched(since int) [][]byte {
	w.once.Do(func() {
		w.byWD, w.heard, w.more, w.ear = map[int32]string{}, map[string]*heard{}, make(chan struct{}), -1
		go w.collect()
	})
	for {
		w.mu.Lock()
		if since >= 0 && since < len(w.dirs) {
			var out [][]byte
			for _, d := range w.dirs[since:min(since+wire.MaxWatched, len(w.dirs))] {
				out = append(out, []byte(d))
			}
			w.mu.Unlock()
			return out
		}
		more := w.more
		w.mu.Unlock()
		<-more
	}
}

// collect learns of watched directories, one after the other.
func (w *watching) collect() {
	buf := make([]byte, wire.MaxPath)
	for {
		n, err := unix.Readlinkat(wire.NextWatched, "next", buf)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return
		default:
			w.watchDir(string(buf[:n]))
		}
	}
}

func (w *watching) watchDir(dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.dirs) >= maxWatchedDirs {
		return
	}
	if w.ear < 0 {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err != nil {
			return
		}
		w.ear = fd
		go w.listen(fd)
	}
	wd, err := unix.InotifyAddWatch(w.ear, dir, nameEvents|fileEvents|unix.IN_ONLYDIR|unix.IN_DONT_FOLLOW)
	if err != nil || w.byWD[int32(wd)] == dir {
		return
	}
	w.byWD[int32(wd)] = dir // a different number if the directory was made anew
	w.dirs = append(w.dirs, dir)
	close(w.more)
	w.more = make(chan struct{})
}

func (w *watching) listen(ear int) {
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(ear, buf)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || n <= 0:
			return
		default:
			w.readEvents(buf[:n], time.Now())
		}
	}
}

func (w *watching) readEvents(events []byte, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(events) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(events))
		mask := binary.NativeEndian.Uint32(events[4:])
		size := int(binary.NativeEndian.Uint32(events[12:]))
		name, _, _ := bytes.Cut(events[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+size], []byte{0})
		events = events[unix.SizeofInotifyEvent+size:]
		dir, ok := w.byWD[wd]
		if mask&unix.IN_IGNORED != 0 { // the directory was removed
			delete(w.byWD, wd)
			continue
		}
		if ok && len(name) > 0 {
			w.remember(filepath.Join(dir, string(name)), mask&(nameEvents|fileEvents), now)
		}
	}
}

func (w *watching) remember(path string, event uint32, now time.Time) {
	h := w.recent(path, now)
	switch {
	case h.own[event] > 0:
		h.own[event]--
	case event&nameEvents != 0:
		h.counts[event]++
		h.at = now
	default:
		h.at = now
	}
}

// recent returns the record of a path for the last seconds.
func (w *watching) recent(path string, now time.Time) *heard {
	if len(w.heard) >= maxHeard {
		for p, h := range w.heard {
			if now.Sub(h.at) > heardFor {
				delete(w.heard, p)
			}
		}
		if len(w.heard) >= maxHeard {
			clear(w.heard)
		}
	}
	h := w.heard[path]
	if h == nil || now.Sub(h.at) > heardFor && !h.at.IsZero() {
		h = &heard{counts: map[uint32]int{}, own: map[uint32]int{}}
		w.heard[path] = h
	}
	return h
}

// changed tells watchers inside about changes of the host. It skips changes made inside.
func (w *watching) changed(changes []wire.Change) {
	for _, c := range changes {
		path := string(c.Path)
		event := c.Mask & (nameEvents | fileEvents)
		if !w.doneInside(path, event, time.Now()) {
			_, _ = unix.InotifyAddWatch(wire.RaiseEvent, strconv.FormatUint(uint64(c.Cookie), 10)+":"+path, event|c.Mask&unix.IN_ISDIR)
		}
	}
}

// doneInside reports whether an event on the host stems from a change made inside.
func (w *watching) doneInside(path string, event uint32, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.recent(path, now)
	if event&nameEvents != 0 {
		if h.counts[event] > 0 {
			h.counts[event]--
			return true
		}
	} else {
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return true // another event reports that it is gone
		}
		if !h.at.IsZero() && !time.Unix(st.Ctim.Unix()).After(h.at) {
			return true
		}
	}
	h.own[event]++
	return false
}
