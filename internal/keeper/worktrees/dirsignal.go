package worktrees

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// Events of dnotify about the entries of a directory, from linux/fcntl.h.
const (
	dnModify = 0x2              // an entry was written
	dnNames  = 0x4 | 0x8 | 0x10 // an entry was created, deleted or renamed
	dnAgain  = 0x80000000       // every time, not only once
)

// signalledDirs are directories for which the kernel sends a signal when one of their entries
// changes. They use dnotify rather than inotify: at the end of a process the kernel takes some
// 15 ms to free its inotify watches, and each stop and rm waits for the keeper to end.
type signalledDirs struct {
	most int // the maximum number of directories; each takes a descriptor
	open map[dirID]*os.File
	seen map[dirID]bool // directories added since keepSeen
}

type dirID struct{ dev, ino uint64 }

// notifyChanges returns a channel with the signals of all directories. It returns nil on a kernel
// without dnotify.
func notifyChanges() chan os.Signal {
	fd, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, unix.SIGIO)
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_NOTIFY, dnNames); err != nil {
		signal.Stop(changes)
		return nil
	}
	return changes
}

// watchDir watches the directory that fd has open, for the given events. It ignores directories beyond
// the limit.
func (s *signalledDirs) watchDir(fd, events int) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return
	}
	id := dirID{st.Dev, st.Ino}
	if s.open == nil {
		s.open, s.seen = map[dirID]*os.File{}, map[dirID]bool{}
	}
	if s.open[id] == nil {
		if len(s.open) >= s.most {
			return
		}
		// Opened anew: the kernel forgets it when any descriptor of the same open file is closed.
		own, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return
		}
		if _, err := unix.FcntlInt(uintptr(own), unix.F_NOTIFY, events|dnAgain); err != nil {
			unix.Close(own)
			return
		}
		s.open[id] = os.NewFile(uintptr(own), "signalled directory")
	}
	s.seen[id] = true
}

// keepSeen closes the directories that were not added again since its last call.
func (s *signalledDirs) keepSeen() {
	for id, f := range s.open {
		if !s.seen[id] {
			_ = f.Close()
			delete(s.open, id)
		}
	}
	clear(s.seen)
}
