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

// This file handles runs whose files are in a directory of the user's, who reads them there and may
// remove them with rm or a file manager. The run's plan, its events, its lock and its messages stay in
// the state directory. Removing the files ends the run, but its sandboxes are still known.
//
// A link in the state directory leads to the files. It is created before them and removed after them, so
// that they can be found at whatever point a process is killed.

// atPrefix begins the name of the link to the files of a run.
const atPrefix = ".at-"

// hiddenPrefix marks the files of a run that is being made.
const hiddenPrefix = ".bothy" + newPrefix

// CreateFlow is Create for a flow; fill writes the other files into its directory. If into is not empty, the
// files are in a directory of their own in the directory into, which must exist and be a real path. The
// error is ErrConflict if into has a file of that name.
func CreateFlow(root, into, id string, what any, fill func(dir string) error) (*Run, error) {
	return create(root, into, &plan{Version: Version, ID: id, Kind: Flows, Plan: what}, fill)
}

// Gone reports whether the user has removed the files of a run that are not in the state
// directory. Files that are [Run.Away] were not removed.
func (r *Run) Gone() bool { return r.Lacks() && r.Away() == nil }

// Lacks reports whether the files of a run are missing, because they were removed or are away.
func (r *Run) Lacks() bool {
	if r.files == r.dir {
		return false
	}
	_, err := os.Lstat(r.files)
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

// Away returns an error if files are missing because their disk is not mounted, as far as this can be
// detected: their directory is on another file system now.
func (r *Run) Away() error {
	if !r.Lacks() {
		return nil
	}
	p, err := r.readPlan(nil)
	if err != nil || p.Place == nil || p.Place.isAt(filepath.Dir(r.files)) {
		return nil
	}
	return spec.Errorf(spec.ErrNotFound, "the files of run %s are not there, and %s is on another file system than when it was begun", r.ID, filepath.Dir(r.files)).
		WithHint("mount the disk that they are on; if they are lost, bothy %s rm %s removes the rest", Flows, r.ID)
}

// place identifies a directory independently of its name.
type place struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

// isAt reports whether dir is that directory, or was before its removal. Devices may have other numbers
// after a reboot: then the directory itself counts.
func (p *place) isAt(dir string) bool {
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

// Elsewhere returns the directories with the files of runs that are not in the state directory.
func Elsewhere(root string) (list []string, err error) {
	ids, err := idsWithPrefix(root, atPrefix)
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

// runIn returns a run by its directory, wherever its files are. If the files have not got their final name
// yet, because the process that made them was killed or is about to rename them, at renames them.
func runIn(dir string) *Run {
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

// hidden returns the path at which files are made before they get their final name.
func hidden(files string) string {
	return filepath.Join(filepath.Dir(files), hiddenPrefix+filepath.Base(files))
}

// reserve makes a directory for the files of a run. Only the process that makes the run calls it.
func reserve(root, into, id string) (dir string, err error) {
	files := filepath.Join(into, id)
	if _, err := os.Lstat(files); !errors.Is(err, fs.ErrNotExist) {
		return "", errors.Join(err, spec.Errorf(spec.ErrConflict, "there is %s already", files))
	}
	if err := os.Symlink(files, linkOf(root, id)); err != nil {
		return "", conflictIfTaken(id, err)
	}
	err = store.SyncDir(root)
	if err == nil {
		err = conflictIfTaken(id, os.Mkdir(hidden(files), 0o700))
	}
	if err != nil { // another run has the name
		return "", errors.Join(err, os.Remove(linkOf(root, id)))
	}
	return hidden(files), nil
}

// settle gives the files of a run their final name.
func settle(files string) error {
	err := unix.Renameat2(unix.AT_FDCWD, hidden(files), unix.AT_FDCWD, files, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) { // the file system does not support it
		err = os.Rename(hidden(files), files)
	}
	if errors.Is(err, unix.ENOENT) { // another process was faster, if the files exist
		_, err = os.Lstat(files)
	}
	if err != nil {
		return conflictIfTaken(filepath.Base(files), err)
	}
	return store.SyncDir(filepath.Dir(files))
}

// discard deletes a half-made or half-removed run, by the name of its directory. It removes links to the
// remaining files last. Files with their final name are deleted only with a run that had them.
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
		return nil // they belong to an existing run
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

// ignore drops this error.
func ignore(err, this error) error {
	if errors.Is(err, this) {
		return nil
	}
	return err
}

// idsWithPrefix returns the IDs of runs whose directories have this prefix.
func idsWithPrefix(root, prefix string) (ids []string, err error) {
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
