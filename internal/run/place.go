package run

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// This file has runs whose files lie in a directory of somebody's own, who looks at them there,
// and removes them with whatever removes directories. What a run is, its events, its lock and
// what was said to it stay in the state directory: whoever removes the files has ended the run,
// and it is still known which sandboxes it has.
//
// A link in the state directory leads to the files. It is there before they are, and goes after
// them, so that they are found whenever something is killed.

// atPrefix begins the name of the link to the files of a run.
const atPrefix = ".at-"

// hiddenPrefix marks the files of a run that is being made.
const hiddenPrefix = ".bothy" + newPrefix

// CreateFlowIn is CreateFlow for a run whose files are in a directory of the name of the run, in
// the directory into, which is there, by its real path. If something is called so there, that is
// ErrConflict.
func CreateFlowIn(root, into, id string, what any, fill func(dir string) error) (*Run, error) {
	return create(root, into, &plan{Version: Version, ID: id, Kind: Flows, Plan: what}, fill)
}

// Gone tells whether somebody has removed the files of a run that are not in the state directory.
// Files that are [Run.Away] nobody has removed.
func (r *Run) Gone() bool { return r.Lacks() && r.Away() == nil }

// Lacks tells whether the files of a run are not where they were made, for either reason.
func (r *Run) Lacks() bool {
	if r.files == r.dir {
		return false
	}
	_, err := os.Lstat(r.files)
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

// Away says that files are not there because their disk is not, as far as anybody can tell: where
// they were made is another file system by now.
func (r *Run) Away() error {
	if !r.Lacks() {
		return nil
	}
	p, err := r.plan(nil)
	if err != nil || p.Place == nil || p.Place.is(filepath.Dir(r.files)) {
		return nil
	}
	return spec.Errorf(spec.ErrNotFound, "the files of run %s are not there, and %s is on another file system than when it was begun", r.ID, filepath.Dir(r.files)).
		WithHint("mount the disk that they are on; if they are lost, bothy %s rm %s removes what is left", Flows, r.ID)
}

// place tells a directory from another one of its name.
type place struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

// is tells whether it is where a directory is, or was before somebody removed it. Devices may have
// other numbers after each start of the machine: then it is the directory itself that counts.
func (p *place) is(dir string) bool {
	for at := dir; ; at = filepath.Dir(at) {
		now, err := placeOf(at)
		if err == nil {
			return now.Device == p.Device || at == dir && now.Inode == p.Inode
		}
		if at == "/" {
			return true
		}
	}
}

func placeOf(dir string) (*place, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return nil, err
	}
	return &place{Device: st.Dev, Inode: st.Ino}, nil
}

// Elsewhere are the directories with the files of runs that are not in the state directory.
func Elsewhere(root string) (list []string, err error) {
	ids, err := idsOf(root, atPrefix)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		to, err := os.Readlink(linkOf(root, id))
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, to)
	}
	return list, nil
}

// at is a run by its directory, wherever its files are. If whoever made it was killed when only its
// files did not have their name, or is about to give it to them, they have it now.
func at(dir string) *Run {
	r := &Run{ID: filepath.Base(dir), dir: dir, files: dir}
	if to, err := os.Readlink(linkOf(filepath.Dir(dir), r.ID)); err == nil {
		r.files = to
		if r.Gone() {
			_ = settle(to)
		}
	}
	return r
}

func linkOf(root, id string) string { return filepath.Join(root, atPrefix+id) }

// hidden is where the files are made that will be there.
func hidden(files string) string {
	return filepath.Join(filepath.Dir(files), hiddenPrefix+filepath.Base(files))
}

// reserve makes a directory for the files of a run, by whoever makes that.
func reserve(root, into, id string) (dir string, err error) {
	files := filepath.Join(into, id)
	if _, err := os.Lstat(files); !errors.Is(err, fs.ErrNotExist) {
		return "", errors.Join(err, spec.Errorf(spec.ErrConflict, "there is %s already", files))
	}
	if err := os.Symlink(files, linkOf(root, id)); err != nil {
		return "", taken(id, err)
	}
	err = store.SyncDir(root)
	if err == nil {
		err = taken(id, os.Mkdir(hidden(files), 0o700))
	}
	if err != nil { // what is called so is another's
		return "", errors.Join(err, os.Remove(linkOf(root, id)))
	}
	return hidden(files), nil
}

// settle gives the files of a run their name.
func settle(files string) error {
	err := unix.Renameat2(unix.AT_FDCWD, hidden(files), unix.AT_FDCWD, files, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) { // not on this file system
		err = os.Rename(hidden(files), files)
	}
	if errors.Is(err, unix.ENOENT) { // somebody else was faster, if they are there
		_, err = os.Lstat(files)
	}
	if err != nil {
		return taken(filepath.Base(files), err)
	}
	return store.SyncDir(filepath.Dir(files))
}

// discard deletes what there is of a run, by what its directory is called: it is not there yet, or
// not any more. What leads to the rest goes last. Files that have their name are deleted only with
// a run that had them.
func discard(root, prefix, id string) error {
	if err := discardFiles(root, prefix, id); err != nil {
		return err
	}
	return store.RemoveTree(filepath.Join(root, prefix+id))
}

func discardFiles(root, prefix, id string) error {
	link := linkOf(root, id)
	files, err := os.Readlink(link)
	if err != nil {
		return ignore(err, fs.ErrNotExist)
	}
	if _, err := os.Lstat(filepath.Join(root, id)); prefix == newPrefix && err == nil {
		return nil // they are those of a run that is there
	}
	if err := store.RemoveTree(hidden(files)); err != nil {
		return err
	}
	if prefix == gonePrefix {
		if err := store.RemoveTree(files); err != nil {
			return err
		}
	}
	return ignore(os.Remove(link), fs.ErrNotExist)
}

// ignore is no error, if it is this one.
func ignore(err, this error) error {
	if errors.Is(err, this) {
		return nil
	}
	return err
}

// idsOf are the IDs of runs whose directories are called so.
func idsOf(root, prefix string) (ids []string, err error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, ignore(err, fs.ErrNotExist)
	}
	for _, e := range entries {
		if id, ok := strings.CutPrefix(e.Name(), prefix); ok {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
