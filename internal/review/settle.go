package review

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Settle takes out of a layer what was applied while it was mounted, so that the
// inside sees the host's files again. The caller sees to it that it is not mounted.
func (w Workspace) Settle() error {
	err := w.change((*look).settle)
	if errors.Is(err, spec.ErrNotFound) {
		return nil // the directory is gone; whoever mounts it says so
	}
	return err
}

// Applied are the paths of the layer, relative to its upper directory, at which it has
// what the host has by now, too: files and marks of deletions that leave it when it is
// mounted next. It is in the layer still while that is mounted.
func (w Workspace) Applied() ([]string, error) {
	l, err := w.open()
	if errors.Is(err, spec.ErrNotFound) {
		return nil, nil // the host's directory is gone: it has nothing
	}
	if err != nil {
		return nil, err
	}
	defer l.close()
	if l.upper == nil {
		return nil, nil
	}
	var list []string
	for _, k := range l.record.Paths {
		if k.dropped() || !k.Gone && !k.Copying && k.Layer == (Mark{}) {
			continue
		}
		p, err := Unquote(k.Path)
		if err != nil {
			return nil, err
		}
		if !l.isApplied(p, k) {
			continue
		}
		if cover, err := l.cover(p); err != nil {
			return nil, err
		} else if cover == "" { // what lies in a directory that hides the host's stays with it
			list = append(list, p)
		}
	}
	return list, nil
}

// settle takes out of the layer what the record says the host has, too. What the
// inside has changed again since stays.
func (l *look) settle() error {
	var paths []string
	for _, k := range l.record.Paths {
		if k.dropped() {
			continue
		}
		p, err := Unquote(k.Path)
		if err != nil {
			return err
		}
		if l.isApplied(p, k) {
			paths = append(paths, p)
		}
	}
	return l.prune(paths)
}

// isApplied reports whether the host has at a path what the layer has there, or hides.
func (l *look) isApplied(p string, k known) bool {
	in, name, err := l.upper.parent(p)
	if err != nil {
		return k.Gone && errors.Is(err, fs.ErrNotExist)
	}
	defer in.close()
	st, there, err := in.stat(name)
	switch {
	case err != nil:
		return false
	case !there:
		return k.Gone
	case k.Gone:
		return in.isWhiteout(name, &st)
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return true // if nothing is left in it; that is looked at then
	}
	return k.isIn(markOf(&st))
}

// hidden tells an error of opening below a file, a link or nothing.
func hidden(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// prune removes what the layer has at some paths. The host has the same, so that
// nothing changes inside. In a directory that hides the host's, because the inside
// made it, everything stays until all of it is applied.
func (l *look) prune(paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	covers := map[string][]string{}
	for _, p := range paths {
		cover, err := l.cover(p)
		switch {
		case err != nil:
			return err
		case cover != "":
			covers[cover] = append(covers[cover], p)
		default:
			if err := l.take(p); err != nil {
				return fmt.Errorf("remove the applied %s from the layer: %w", Quote(p), err)
			}
			l.record.taken(p)
		}
	}
	for cover, within := range covers {
		if err := l.uncover(cover, within); err != nil {
			return fmt.Errorf("remove the applied %s from the layer: %w", Quote(cover), err)
		}
	}
	return l.Layer.write(l.record)
}

// cover finds the outermost directory above a path, or at it, that hides the
// host's.
func (l *look) cover(p string) (string, error) {
	names := strings.Split(p, "/")
	for i := range names {
		at := strings.Join(names[:i+1], "/")
		d, err := l.upper.sub(at)
		if hidden(err) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		opaque := d.isOpaque()
		d.close()
		if opaque {
			return at, nil
		}
	}
	return "", nil
}

// take removes a file or a mark of a deletion from the layer, and the directories
// that are empty then and say nothing themselves.
func (l *look) take(p string) error {
	in, name, err := l.upper.parent(p)
	if hidden(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.close()
	if st, there, err := in.stat(name); err != nil || !there {
		return err
	} else if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return l.hollow(p)
	}
	if err := unix.Unlinkat(in.fd(), name, 0); err != nil {
		return err
	}
	return l.hollow(path.Dir(p))
}

// hollow removes directories of the layer that hold nothing, from the inner ones
// outwards, where the host has the same.
func (l *look) hollow(p string) error {
	for ; p != "."; p = path.Dir(p) {
		if slices.Contains(l.Over, p) {
			return nil
		}
		in, name, err := l.upper.parent(p)
		if err != nil {
			return err
		}
		now, err := in.entry(name)
		if err == nil {
			err = l.hollowAt(in, name, p, now)
		}
		in.close()
		if err != nil {
			if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
				return nil
			}
			return err
		}
	}
	return nil
}

func (l *look) hollowAt(in *dir, name, p string, now Entry) error {
	there, base, err := l.host.parent(p)
	if err != nil {
		return unix.ENOTEMPTY // the host has none: it stays
	}
	defer there.close()
	was, err := there.entry(base)
	if err != nil {
		return err
	}
	if inside, _ := l.chmods(there, base, Change{Path: p, Old: was, New: now}); was.Form != Directory || inside {
		return unix.ENOTEMPTY
	}
	d, err := in.sub(name)
	if err != nil {
		return unix.ENOTEMPTY
	}
	opaque := d.isOpaque()
	d.close()
	if opaque {
		return unix.ENOTEMPTY // it says that all the host has in it is deleted
	}
	if err := unix.Unlinkat(in.fd(), name, unix.AT_REMOVEDIR); err != nil {
		return err
	}
	l.record.left(p)
	return nil
}

// uncover removes a directory that hides the host's, if nothing in it differs from
// the host's any more. within are the paths in it that the record knows.
func (l *look) uncover(cover string, within []string) error {
	in, name, err := l.upper.parent(cover)
	if err != nil {
		return err
	}
	host, _, err := l.host.parent(cover)
	if err != nil {
		host = nil
	}
	defer host.close()
	l.list = nil
	err = l.compare(place{path: trimDot(path.Dir(cover)), upper: in, host: host}, name, cover)
	in.close()
	if err != nil || len(l.list) > 0 {
		return err
	}
	if err := l.away(cover); err != nil {
		return err
	}
	for _, p := range within {
		l.record.left(p)
	}
	return l.hollow(path.Dir(cover))
}

// away removes what the layer has at a path. It leaves the layer in one step and is
// deleted then: of a directory that hides the host's, each file that is missing says
// that the inside has deleted the host's.
func (l *look) away(p string) error {
	if err := store.RemoveTree(l.Layer.gone()); err != nil { // of one that was killed
		return err
	}
	in, name, err := l.upper.parent(p)
	if err != nil {
		return err
	}
	defer in.close()
	if err := in.chmod(name, 0o700); err != nil {
		return err
	}
	if err := unix.Renameat(in.fd(), name, unix.AT_FDCWD, l.Layer.gone()); err != nil {
		return fmt.Errorf("move %s out of the layer: %w", Quote(p), err)
	}
	return store.RemoveTree(l.Layer.gone())
}

func trimDot(p string) string {
	if p == "." {
		return ""
	}
	return p
}
