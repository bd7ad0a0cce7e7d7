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

// Settle removes from a layer the changes that were applied while it was mounted, so that the
// sandbox sees the host's files again. The caller makes sure that it is not mounted.
func (w Workspace) Settle() error {
	err := w.change((*look).settle)
	if errors.Is(err, spec.ErrNotFound) {
		return nil // the directory is gone; mounting it reports the error
	}
	return err
}

// Applied returns the paths of the layer, relative to its upper directory, at which the host has
// the same by now: files and marks of deletions. They stay in the layer while it is mounted, and
// leave it before the next mount.
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
		} else if cover == "" { // the contents of a directory that hides the host's stay with it
			list = append(list, p)
		}
	}
	return list, nil
}

// settle takes the files out of the layer that the host has, too, according to the record. A file
// that the sandbox has changed again since stays.
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

// isApplied reports whether the host has the same at a path as the layer: its file, or nothing
// for a deletion.
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

// hidden reports whether an error comes from opening a path below a file, a link or a missing
// name.
func hidden(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// prune removes files of the layer at some paths. The host has the same, so that nothing changes
// in the sandbox. If the sandbox made a directory that hides the host's, everything in it stays
// until all of it is applied.
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

// take removes a file or a mark of a deletion from the layer, and the directories that are then
// empty and have no meaning of their own.
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

// hollow removes empty directories of the layer, from the inner ones outwards, if the host has
// the same.
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

// away removes a path from the layer. It first renames it out of the layer in one step, and
// deletes it then. Otherwise a half-deleted directory that hides the host's would look as if the
// sandbox had deleted files.
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
