package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
	"github.com/bothy-dev/bothy/internal/store"
)

// remove removes a name of an open directory, with everything below it except spared paths. It
// reports whether something is left.
func (p *putter) remove(d *os.File, name, at string, depth int) (kept bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(d.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return false, nil
		}
		return true, err
	}
	switch {
	case p.spared[at]:
		return true, nil
	case st.Mode&unix.S_IFMT != unix.S_IFDIR && !p.mayRemove(at, &st), depth > maxDepth:
		p.skipped = append(p.skipped, path.Join(p.src.Dir, at))
		return true, nil
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return false, p.unlinking(d, name, &st, func() error { return unix.Unlinkat(int(d.Fd()), name, 0) })
	case !p.src.Shared && !p.leads[at]:
		// No program works there, and it may be deeper than our limit of file descriptors.
		return false, store.RemoveTree(fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), name))
	}
	return p.removeDir(d, name, at, depth)
}

// removeDir does not leave the file system or enter a mount: the earlier checkpoint does not have
// its contents.
func (p *putter) removeDir(d *os.File, name, at string, depth int) (kept bool, err error) {
	fd, err := unix.Openat2(int(d.Fd()), name, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
	if errors.Is(err, unix.EXDEV) {
		return true, nil
	}
	if err != nil {
		return true, err
	}
	pin := os.NewFile(uintptr(fd), name)
	defer pin.Close()
	f, err := openIn(pin, ".", asDirectory)
	if errors.Is(err, unix.EACCES) {
		f, err = openPinned(fd, asDirectory)
	}
	if err != nil {
		return true, err
	}
	defer f.Close()
	if err := p.makeEnterable(f); err != nil {
		return true, err
	}
	names, err := f.Readdirnames(-1)
	if err != nil {
		return true, err
	}
	for _, n := range names {
		left, err := p.remove(f, n, path.Join(at, n), depth+1)
		if err := p.noteFailure(path.Join(at, n), err); err != nil {
			return true, err
		}
		kept = kept || left || err != nil
	}
	if kept {
		return true, nil
	}
	return false, unix.Unlinkat(int(d.Fd()), name, unix.AT_REMOVEDIR)
}

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
