package checkpoint

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
)

// relinked holds files of which Bothy removed a name. For the kernel, that changed them, though no
// program wrote to them. It maps the inode to the state before, and to the time of that change.
type relinked map[manifest.FileID]relink

type relink struct {
	before manifest.Seen
	last   int64
}

// stateBefore returns the state in which a file was seen before we removed names of it, if that is the
// only change since.
func (r relinked) stateBefore(st *unix.Stat_t) manifest.Seen {
	if l, ok := r[manifest.IDOf(st)]; ok && l.last == st.Ctim.Nano() {
		return l.before
	}
	return manifest.SeenOf(st)
}

// noteLinks notes that a file lost a name between two looks at it, unless it changed otherwise.
func (now *placed) noteLinks(was, is *unix.Stat_t) {
	if was.Mtim != is.Mtim || was.Size != is.Size || was.Mode != is.Mode {
		return
	}
	if now.relinked == nil {
		now.relinked = relinked{}
	}
	now.relinked[manifest.IDOf(was)] = relink{before: now.relinked.stateBefore(was), last: is.Ctim.Nano()}
}

// unlinking runs do, which removes a name of an open directory. If the file has other names, they
// still count as unchanged.
func (p *putter) unlinking(d *os.File, name string, st *unix.Stat_t, do func() error) error {
	if !p.guarded() || st.Nlink < 2 {
		return do()
	}
	pin, err := openIn(d, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	defer pin.Close()
	var was, is unix.Stat_t
	if err := unix.Fstat(int(pin.Fd()), &was); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	if err := unix.Fstat(int(pin.Fd()), &is); err != nil {
		return err
	}
	p.placed.noteLinks(&was, &is)
	return nil
}
