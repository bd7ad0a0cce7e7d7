package gvisor

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// scanRoom is how much of a file system in memory a sentry takes for a moment, beside what
// it writes, when it saves the root layer.
const scanRoom = 4 << 20

// RoomToSave refuses to have the root layer saved on a full file system in memory. The sentry
// looks for pages that are not zero, and there reading a page that was never written takes
// room like writing it. If there is none, the kernel ends the sentry (SIGBUS). Other file
// systems take no room for what is read, and a save that does not fit fails by itself.
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

// overlayUse is how much the data of the root layer takes: files without a name that the
// sentry has open beside the saves.
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
