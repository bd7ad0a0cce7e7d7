package keeperclient

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/keeper"
	"github.com/bothy-dev/bothy/internal/store"
)

// killKeeper kills the keeper of a sandbox, if it runs. It finds the keeper by its command line,
// since a recorded process id may belong to another process by now.
func killKeeper(d store.Sandbox) (killed bool, err error) {
	all, err := os.ReadDir("/proc")
	for _, entry := range all {
		pid, none := strconv.Atoi(entry.Name())
		if none != nil || !isKeeper(pid, d) {
			continue
		}
		if killed, err = killKeeperAt(pid, d); killed {
			return true, nil
		}
	}
	return false, err
}

// isKeeper reports whether a process is the caller's, and has the name and arguments of a sandbox's
// keeper.
func isKeeper(pid int, d store.Sandbox) bool {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	words, err := os.ReadFile(filepath.Join(proc, "cmdline"))
	if err != nil || string(words) != keeper.Argv0+"\x00"+d.Dir+"\x00" {
		return false
	}
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if uids, ok := strings.CutPrefix(line, "Uid:"); ok {
			ids := strings.Fields(uids)
			return len(ids) > 0 && ids[0] == strconv.Itoa(os.Geteuid())
		}
	}
	return false
}

// killKeeperAt kills a process if it is still the keeper. It checks that once more after it holds a
// file descriptor of the process, so that it does not hit another process with the same id.
func killKeeperAt(pid int, d store.Sandbox) (killed bool, err error) {
	kill := func() error { return unix.Kill(pid, unix.SIGKILL) }
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case err == nil:
		defer unix.Close(fd)
		kill = func() error { return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) }
	case errors.Is(err, unix.ESRCH):
		return true, nil
	case !errors.Is(err, unix.ENOSYS): // Linux before 5.3 does not have it
		return false, fmt.Errorf("its keeper, process %d, does not answer: kill it: %w", pid, err)
	}
	if !isKeeper(pid, d) {
		return false, nil
	}
	if err := kill(); err != nil && !errors.Is(err, unix.ESRCH) {
		return false, fmt.Errorf("its keeper, process %d, does not answer: kill it: %w", pid, err)
	}
	return true, nil
}
