package gvisor

import (
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/log"

	"github.com/bothy-dev/bothy/internal/role"
)

// giveLargePages has the sentry keep what programs have in the files of role.MemoryFDs
// instead of a memfd. gVisor has no option for it and makes its memory file in the midst
// of a function; but it says so to its log between making the file and using it first. There
// the file that was made is replaced, under its number.
//
// If one day it says it in other words, memory is in small pages, as it was; a test would
// tell.
var giveLargePages = sync.OnceFunc(func() {
	spare := spareMemory()
	memfds, err := memfdDevice()
	if len(spare) == 0 || err != nil {
		return
	}
	log.SetTarget(&memoryFiles{Emitter: log.Log().Emitter, memfds: memfds, spare: spare})
	log.SetLevel(log.Info)
})

// spareMemory are the files that are there.
func spareMemory() []int {
	var fds []int
	for _, fd := range role.MemoryFDs {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			fds = append(fds, fd)
		}
	}
	return fds
}

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

// memoryFiles is where gVisor's log goes, of which warnings are passed on.
type memoryFiles struct {
	log.Emitter
	memfds uint64 // their device
	mu     sync.Mutex
	spare  []int
}

// Emit implements log.Emitter.
func (m *memoryFiles) Emit(depth int, level log.Level, at time.Time, format string, v ...any) {
	if level == log.Warning {
		m.Emitter.Emit(depth+1, level, at, format, v...)
	}
	if strings.HasPrefix(format, aboutMemory) {
		m.replace()
	}
}

// replace puts a file that is spare where the new one is. From then on it is gVisor's.
func (m *memoryFiles) replace() {
	m.mu.Lock()
	defer m.mu.Unlock()
	fresh := m.fresh()
	if fresh < 0 || len(m.spare) == 0 {
		return
	}
	if unix.Dup3(m.spare[0], fresh, unix.O_CLOEXEC) == nil { // no other flag passes the sentry's filter
		_ = unix.Close(m.spare[0])
		m.spare = m.spare[1:]
	}
}

// fdLimit is more than the descriptors of any sentry.
const fdLimit = 1024

// fresh finds the only memfd that nobody has given a size yet, -1 if there is none or
// more than one.
func (m *memoryFiles) fresh() int {
	fresh := -1
	for fd := range fdLimit {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil || st.Dev != m.memfds || st.Size != 0 {
			continue
		}
		if fresh >= 0 {
			return -1
		}
		fresh = fd
	}
	return fresh
}
