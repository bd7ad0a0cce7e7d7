package hostpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Place is the target of a path.
type Place struct {
	// Top is the outermost directory on the way that a sandbox writes to, or "".
	Top string
	// Rest is the rest of the path below Top, without following links. Without Top it is the whole path,
	// and has no link in it.
	Rest string
	// opened is set if Rest is a link to a file that a process has open, such as /dev/fd/3. It may have
	// no path of its own.
	opened bool
	// within is set if it is in a directory that the guard knows.
	within bool
	// written is set if a sandbox writes to the file or directory.
	written bool
	top     Identity
}

// MaxLinks is how many links the kernel follows in a path.
const MaxLinks = 40

// Find walks along a path name by name, and stops at the first directory that a sandbox writes to: any
// name in it may become a link the next moment. The rest of the path need not exist.
func (g *Guard) Find(path string) (Place, error) {
	w := walk{guard: g, named: path}
	at, rest, err := startOf(path)
	if err == nil {
		err = w.walkTo(at, rest)
	}
	if err != nil {
		return Place{}, speakOf(err, path)
	}
	return w.place, nil
}

// startOf returns a path from the root of the disk, as names. A relative path starts at the kernel's
// working directory, which $PWD may not name. The directories above it decide where ".." leads: a
// sandbox that writes only to the working directory cannot change that.
func startOf(path string) (at string, rest []string, err error) {
	rest = strings.Split(path, "/")
	if filepath.IsAbs(path) {
		return "/", rest, nil
	}
	here, err := os.Readlink("/proc/self/cwd")
	if err != nil {
		return "", nil, err
	}
	if !filepath.IsAbs(here) { // the kernel's answer for a directory that is out of reach
		return "", nil, &fs.PathError{Op: "open", Path: here, Err: fs.ErrNotExist}
	}
	for len(rest) > 0 && (rest[0] == "" || rest[0] == "." || rest[0] == "..") {
		if rest[0] == ".." {
			here = filepath.Dir(here)
		}
		rest = rest[1:]
	}
	return "/", append(strings.Split(here, "/"), rest...), nil
}

// walk is one walk along a path.
type walk struct {
	guard  *Guard
	named  string
	at     string // without links
	here   seen   // the file at it
	within bool   // at is in a directory that a sandbox writes to
	todo   []string
	links  int
	place  Place
}

func (w *walk) walkTo(at string, todo []string) error {
	w.todo = todo
	if err := w.enterRoot(at); err != nil {
		return err
	}
	for len(w.todo) > 0 && !w.stopsHere() {
		name := w.todo[0]
		w.todo = w.todo[1:]
		var err error
		switch name {
		case "", ".":
			if !w.here.isKind(unix.S_IFDIR) {
				err = unix.ENOTDIR
			}
		case "..":
			err = w.followTarget(filepath.Dir(w.at))
		default:
			err = w.stepInto(name)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case w.place.opened:
	case w.place.Top == "":
		w.place.Rest = w.at
	default:
		w.place.Rest = strings.Join(w.todo, "/")
		if w.place.Rest == "" {
			w.place.Rest = "."
		}
	}
	return nil
}

// stopsHere reports whether the walk ends here. It is false for a directory above one that a sandbox writes
// to.
func (w *walk) stopsHere() bool {
	if w.place.Top == "" {
		return false
	}
	switch w.todo[0] {
	case "", ".":
		return false
	case "..":
		w.place.Top, w.place.top = "", Identity{}
		return false
	}
	return true
}

// enterRoot moves to the root of the disk.
func (w *walk) enterRoot(root string) error {
	s, err := lookAt(root)
	if err != nil {
		return err
	}
	w.within = false
	return w.arrive(root, s, false)
}

// arrive moves to a path without links. It does not stop at a directory in which the caller may change
// nothing: a sandbox has no more rights than its caller.
func (w *walk) arrive(at string, s seen, crossed bool) error {
	if !w.within {
		written, err := w.guard.isWritten(at, s, crossed)
		if err != nil {
			return err
		}
		w.within = written
	}
	w.at, w.here, w.place.within = at, s, w.within
	w.place.written = w.within && s.changeable(at)
	if w.place.written && s.isKind(unix.S_IFDIR) {
		w.place.Top, w.place.top = at, s.id
	}
	return nil
}

// stepInto moves to a name in the directory.
func (w *walk) stepInto(name string) error {
	if !w.here.isKind(unix.S_IFDIR) {
		return unix.ENOTDIR
	}
	next := filepath.Join(w.at, name)
	if err := w.guard.answers(next); err != nil {
		return err
	}
	s, err := lookAt(next)
	if err != nil {
		return err
	}
	if !s.isKind(unix.S_IFLNK) {
		return w.arrive(next, s, s.mount != w.here.mount)
	}
	if w.links++; w.links > MaxLinks {
		return unix.ELOOP
	}
	target, err := os.Readlink(next)
	if err != nil {
		return err
	}
	if hasMagicLinks(w.at) {
		return w.followMagic(next, target)
	}
	return w.followTarget(target)
}

// followTarget continues with the target of a link.
func (w *walk) followTarget(target string) error {
	w.todo = append(strings.Split(target, "/"), w.todo...)
	if !filepath.IsAbs(target) {
		return nil
	}
	return w.enterRoot("/")
}

// hasMagicLinks reports whether links in a directory are the kernel's own. Their text may differ from their
// target. /proc itself has ordinary links.
func hasMagicLinks(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Type == unix.PROC_SUPER_MAGIC && dir != "/proc" && filepath.Base(dir) != "proc"
}

// followMagic follows a link of the kernel. It opens anything but a directory through the link: the caller, or
// another process, already has it open.
func (w *walk) followMagic(link, target string) error {
	to, err := lookBelow(unix.AT_FDCWD, link, 0)
	if err != nil {
		return err
	}
	if !to.isKind(unix.S_IFDIR) {
		if len(w.todo) > 0 {
			return unix.ENOTDIR
		}
		w.at, w.here = link, to
		w.place.Rest, w.place.opened = link, true
		return nil
	}
	by, err := lookAt(target)
	if err != nil || by.id != to.id || !filepath.IsAbs(target) { // in another mount namespace, or deleted
		return &fs.PathError{Op: "open", Path: link, Err: unix.EXDEV}
	}
	return w.followTarget(target)
}

// speakOf makes an error name the path that the user asked for.
func speakOf(err error, path string) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: "open", Path: path, Err: e.Err}
	}
	if e, ok := errors.AsType[unix.Errno](err); ok {
		return &fs.PathError{Op: "open", Path: path, Err: e}
	}
	return err
}
