package checkpoint

import (
	"os"

	"golang.org/x/sys/unix"
)

// relinked are files that lost one of their names to us, and so were changed, as the
// kernel dates them, without anybody having written them: by their inode, how they were
// seen before that, and when that was.
type relinked map[fileID]relink

type relink struct {
	before seen
	last   int64
}

// found is as what a file was seen before we took names of it away, if all that was done
// to it since is that.
func (r relinked) found(st *unix.Stat_t) seen {
	if l, ok := r[idOf(st)]; ok && l.last == st.Ctim.Nano() {
		return l.before
	}
	return seenOf(st)
}

// noteLinks notes that a file lost a name between two looks at it, unless more was done.
func (now *placed) noteLinks(was, is *unix.Stat_t) {
	if was.Mtim != is.Mtim || was.Size != is.Size || was.Mode != is.Mode {
		return
	}
	if now.relinked == nil {
		now.relinked = relinked{}
	}
	now.relinked[idOf(was)] = relink{before: now.relinked.found(was), last: is.Ctim.Nano()}
}

// unlinking does what takes a name of an open directory away from what lies there. If
// that has other names, they are still what they were.
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
