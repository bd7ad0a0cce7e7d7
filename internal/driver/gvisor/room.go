package gvisor

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// scanRoom is how much of a file system in memory a sentry takes temporarily, besides its output,
// when it saves the root layer.
const scanRoom = 4 << 20

// RoomToSave refuses a save of the root layer on a full file system in memory. The sentry looks for
// pages that are not zero. On such a file system, reading a page that was never written takes
// room like writing it. Without room, the kernel kills the sentry (SIGBUS). On other file systems
// reads take no room, and a save that does not fit simply fails.
func (w *wall) RoomToSave() error {
	var fs unix.Statfs_t
	if err := unix.Statfs(w.overlay, &fs); err != nil {
		return fmt.Errorf("look for room to save: %w", err)
	}
	if fs.Type != unix.TMPFS_MAGIC {
		return nil
	}
	need := w.overlayUse() + scanRoom
	if free := int64(fs.Bavail) * fs.Bsize; free < need {
		return fmt.Errorf("%w: saving takes up to %d MiB, and %d MiB are free", unix.ENOSPC, need>>20, free>>20)
	}
	return nil
}

// overlayUse returns the size of the root layer's data: nameless files that the sentry has open on the
// file system of the overlay directory.
func (w *wall) overlayUse() (bytes int64) {
	var dir unix.Stat_t
	if unix.Stat(w.overlay, &dir) != nil {
		return 0
	}
	fds := fmt.Sprintf("/proc/%d/fd", w.sandbox.Getpid())
	names, _ := os.ReadDir(fds)
	for _, n := range names {
		var st unix.Stat_t
		if unix.Stat(fds+"/"+n.Name(), &st) == nil && st.Dev == dir.Dev && st.Nlink == 0 && st.Mode&unix.S_IFMT == unix.S_IFREG {
			bytes += st.Blocks * 512
		}
	}
	return bytes
}
