package quota

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// fdBatch is how many descriptors of a process are looked at at a time.
const fdBatch = 256

// CountDeleted measures the files that processes have open and that have no name any more. They are in
// no tree, and take space until they are closed. It skips files in memory, and those that were below the
// processes' own directory.
func (m *Meter) CountDeleted(ctx context.Context, pids []int, own string) (Use, error) {
	w := walk{meter: m}
	for _, pid := range pids {
		if err := w.deletedOf(ctx, pid, own); err != nil {
			return w.use, err
		}
	}
	return w.use, nil
}

func (w *walk) deletedOf(ctx context.Context, pid int, own string) error {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		w.unread(err)
		return nil
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(fdBatch)
		for _, n := range names {
			if err := w.keepPace(ctx); err != nil {
				return err
			}
			w.deleted(dir.Name()+"/"+n, own)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, unix.ESRCH) {
				w.unread(err)
			}
			return nil
		}
	}
}

// deleted counts the file of a descriptor, if it has no name. It does not open the file. It
// uses the name from the link only to skip files in memory and below own.
func (w *walk) deleted(fd, own string) {
	var st unix.Stat_t
	if unix.Stat(fd, &st) != nil || st.Nlink != 0 || st.Mode&unix.S_IFMT != unix.S_IFREG || w.meter.seenBefore(identify(&st)) {
		return
	}
	name, err := os.Readlink(fd)
	if err != nil || strings.HasPrefix(name, "/memfd:") || strings.HasPrefix(name, own+"/") {
		return
	}
	w.meter.files++
	w.use = w.use.Plus(Use{Bytes: st.Blocks * blockSize, Files: 1})
}
