package gvisor

import (
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/log"

	"github.com/bothy-dev/bothy/internal/role"
)

// giveLargePages has the sentry keep what programs have in the file at role.MemoryFD
// instead of a memfd. gVisor has no option for it and makes its memory file in the midst
// of a function; but it says so to its log between making the file and using it first. There
// the file that was made is replaced, under its number.
//
// If one day it says it in other words, memory is in small pages, as it was; a test would
// tell.
//
// The kernel that goes on from an image keeps its memfd. Its pages are written to the file,
// and of a large page the host first clears what is not written yet: twenty forks took half
// as long again.
var giveLargePages = sync.OnceFunc(func() {
	memfds, err := memfdDevice()
	if _, absent := unix.FcntlInt(role.MemoryFD, unix.F_GETFD, 0); absent != nil || err != nil {
		return
	}
	replace := sync.OnceFunc(func() { replaceMemory(memfds) })
	log.SetTarget(&listener{Emitter: log.Log().Emitter, memory: replace})
	log.SetLevel(log.Info)
})

// memfdDevice is where all memfds of a host lie.
func memfdDevice() (uint64, error) {
	fd, err := unix.MemfdCreate("device", unix.MFD_CLOEXEC)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	return st.Dev, err
}

// aboutMemory begins what gVisor says when it has made a memory file and is about to use it.
const aboutMemory = "Enabling application huge pages"

// listener is where gVisor's log goes, of which warnings are passed on.
type listener struct {
	log.Emitter
	memory func() // called when a file for memory was made
}

// Emit implements log.Emitter.
func (l *listener) Emit(depth int, level log.Level, at time.Time, format string, v ...any) {
	if level == log.Warning {
		l.Emitter.Emit(depth+1, level, at, format, v...)
	}
	if strings.HasPrefix(format, aboutMemory) {
		l.memory()
	}
}

// replaceMemory puts our file where the new one is. From then on it is gVisor's.
func replaceMemory(memfds uint64) {
	if fresh := freshMemory(memfds); fresh >= 0 {
		_ = unix.Dup3(role.MemoryFD, fresh, unix.O_CLOEXEC)
	}
	_ = unix.Close(role.MemoryFD)
}

// fdLimit is more than the descriptors of any sentry.
const fdLimit = 1024

// freshMemory finds the only memfd that nobody has given a size yet, -1 if there is none or
// more than one.
func freshMemory(memfds uint64) int {
	fresh := -1
	for fd := range fdLimit {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil || st.Dev != memfds || st.Size != 0 {
			continue
		}
		if fresh >= 0 {
			return -1
		}
		fresh = fd
	}
	return fresh
}
