package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/internal/review/record"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Settle removes from a layer the changes that were applied while it was mounted, so that the
// sandbox sees the host's files again. The caller makes sure that it is not mounted.
func Settle(w review.Workspace) error {
	err := withJob(w, (*job).settle)
	if errors.Is(err, spec.ErrNotFound) {
		return nil // the directory is gone; mounting it reports the error
	}
	return err
}

// AppliedPaths returns the paths of the layer, relative to its upper directory, at which the host has
// the same by now: files and marks of deletions. They stay in the layer while it is mounted, and
// leave it before the next mount.
func AppliedPaths(w review.Workspace) ([]string, error) {
	v, err := w.OpenView()
	if errors.Is(err, spec.ErrNotFound) {
		return nil, nil // the host's directory is gone: it has nothing
	}
	if err != nil {
		return nil, err
	}
	defer v.Close()
	if v.Upper == nil {
		return nil, nil
	}
	l := &job{v}
	var list []string
	for _, k := range l.Record.Paths {
		if k.IsDropped() || !k.Gone && !k.Copying && k.Layer == (beneath.Mark{}) {
			continue
		}
		p, err := quote.Parse(k.Path)
		if err != nil {
			return nil, err
		}
		if !l.isApplied(p, k) {
			continue
		}
		if cover, err := l.findCover(p); err != nil {
			return nil, err
		} else if cover == "" { // the contents of a directory that hides the host's stay with it
			list = append(list, p)
		}
	}
	return list, nil
}

// settle takes the files out of the layer that the host has, too, according to the record. A file
// that the sandbox has changed again since stays.
func (l *job) settle() error {
	var paths []string
	for _, k := range l.Record.Paths {
		if k.IsDropped() {
			continue
		}
		p, err := quote.Parse(k.Path)
		if err != nil {
			return err
		}
		if l.isApplied(p, k) {
			paths = append(paths, p)
		}
	}
	return l.pruneLayer(paths)
}

// isApplied reports whether the host has the same at a path as the layer: its file, or nothing
// for a deletion.
func (l *job) isApplied(p string, k record.State) bool {
	in, name, err := l.Upper.OpenParent(p)
	if err != nil {
		return k.Gone && errors.Is(err, fs.ErrNotExist)
	}
	defer in.Close()
	st, there, err := in.Stat(name)
	switch {
	case err != nil:
		return false
	case !there:
		return k.Gone
	case k.Gone:
		return in.IsWhiteout(name, &st)
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return true // if nothing is left in it; that is looked at then
	}
	return k.IsIn(beneath.MarkOf(&st))
}

// pruneLayer removes files of the layer at some paths. The host has the same, so that nothing changes
// in the sandbox. If the sandbox made a directory that hides the host's, everything in it stays
// until all of it is applied.
func (l *job) pruneLayer(paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	covers := map[string][]string{}
	for _, p := range paths {
		cover, err := l.findCover(p)
		switch {
		case err != nil:
			return err
		case cover != "":
			covers[cover] = append(covers[cover], p)
		default:
			if err := l.removeFromLayer(p); err != nil {
				return fmt.Errorf("remove the applied %s from the layer: %w", quote.Path(p), err)
			}
			l.Record.LeaveLayer(p)
		}
	}
	for cover, within := range covers {
		if err := l.uncover(cover, within); err != nil {
			return fmt.Errorf("remove the applied %s from the layer: %w", quote.Path(cover), err)
		}
	}
	return l.Layer.Write(l.Record)
}

// findCover finds the outermost directory above a path, or at it, that hides the
// host's.
func (l *job) findCover(p string) (string, error) {
	names := strings.Split(p, "/")
	for i := range names {
		at := strings.Join(names[:i+1], "/")
		d, err := l.Upper.OpenDir(at)
		if beneath.IsMissing(err) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		opaque := d.IsOpaque()
		d.Close()
		if opaque {
			return at, nil
		}
	}
	return "", nil
}

// removeFromLayer removes a file or a mark of a deletion from the layer, and the directories that are then
// empty and have no meaning of their own.
func (l *job) removeFromLayer(p string) error {
	in, name, err := l.Upper.OpenParent(p)
	if beneath.IsMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	if st, there, err := in.Stat(name); err != nil || !there {
		return err
	} else if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return l.removeEmptyDirs(p)
	}
	if err := unix.Unlinkat(in.FD(), name, 0); err != nil {
		return err
	}
	return l.removeEmptyDirs(path.Dir(p))
}

// removeEmptyDirs removes empty directories of the layer, from the inner ones outwards, if the host has
// the same.
func (l *job) removeEmptyDirs(p string) error {
	for ; p != "."; p = path.Dir(p) {
		if slices.Contains(l.Over, p) {
			return nil
		}
		in, name, err := l.Upper.OpenParent(p)
		if err != nil {
			return err
		}
		now, err := in.Entry(name)
		if err == nil {
			err = l.removeEmptyDir(in, name, p, now)
		}
		in.Close()
		if err != nil {
			if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
				return nil
			}
			return err
		}
	}
	return nil
}

func (l *job) removeEmptyDir(in *beneath.Dir, name, p string, now beneath.Entry) error {
	there, base, err := l.Host.OpenParent(p)
	if err != nil {
		return unix.ENOTEMPTY // the host has none: it stays
	}
	defer there.Close()
	was, err := there.Entry(base)
	if err != nil {
		return err
	}
	if inside, _ := l.ModeChanges(there, base, review.Change{Path: p, Old: was, New: now}); was.Form != beneath.Directory || inside {
		return unix.ENOTEMPTY
	}
	d, err := in.OpenDir(name)
	if err != nil {
		return unix.ENOTEMPTY
	}
	opaque := d.IsOpaque()
	d.Close()
	if opaque {
		return unix.ENOTEMPTY // it says that all the host has in it is deleted
	}
	if err := unix.Unlinkat(in.FD(), name, unix.AT_REMOVEDIR); err != nil {
		return err
	}
	l.Record.ForgetMode(p)
	return nil
}

// uncover removes a directory that hides the host's, if nothing in it differs from
// the host's any more. within are the paths in it that the record knows.
func (l *job) uncover(cover string, within []string) error {
	in, _, err := l.Upper.OpenParent(cover)
	if err != nil {
		return err
	}
	host, _, err := l.Host.OpenParent(cover)
	if err != nil {
		host = nil
	}
	defer host.Close()
	same, err := l.IsSame(in, host, cover)
	in.Close()
	if err != nil || !same {
		return err
	}
	if err := l.moveAway(cover); err != nil {
		return err
	}
	for _, p := range within {
		l.Record.ForgetMode(p)
	}
	return l.removeEmptyDirs(path.Dir(cover))
}

// moveAway removes a path from the layer. It first renames it out of the layer in one step, and
// deletes it then. Otherwise a half-deleted directory that hides the host's would look as if the
// sandbox had deleted files.
func (l *job) moveAway(p string) error {
	if err := store.RemoveTree(l.Layer.GoneDir()); err != nil { // of one that was killed
		return err
	}
	in, name, err := l.Upper.OpenParent(p)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := in.Chmod(name, 0o700); err != nil {
		return err
	}
	if err := unix.Renameat(in.FD(), name, unix.AT_FDCWD, l.Layer.GoneDir()); err != nil {
		return fmt.Errorf("move %s out of the layer: %w", quote.Path(p), err)
	}
	return store.RemoveTree(l.Layer.GoneDir())
}
