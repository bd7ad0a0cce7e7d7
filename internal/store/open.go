package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// markName is the file that marks a state directory. Bothy writes and erases only in a marked
// directory.
const markName = ".bothy"

// mark is the text of that file, for a user who finds it.
const mark = "The state of Bothy is kept in this directory; bothy reset removes it.\n"

// Open makes sure the state directory exists, belongs to the caller and is closed to other users,
// and returns it. It refuses a directory that contains other things, even one that other users
// cannot read.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir}
	if err := checkPlain(dir); err != nil {
		return nil, err
	}
	err := makeOwn(dir)
	if err == nil {
		err = s.claimDir()
	}
	if err == nil {
		err = makeOwn(s.sandboxes())
	}
	if err == nil {
		err = errors.Join(closeToOthers(dir), closeToOthers(s.sandboxes()))
	}
	if err != nil {
		return nil, (&spec.Error{Op: "open the state directory " + dir, Err: err}).
			WithHint("set BOTHY_HOME to a directory of yours that you can write to, and that is empty or not there yet")
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, &spec.Error{Op: "open the state directory " + dir, Err: err}
	}
	if err := checkPlain(real); err != nil {
		return nil, err
	}
	s.dir = real // mounts in a keeper follow no links
	return s, nil
}

// checkPlain refuses names of a state directory that some programs would misread: gVisor makes lines
// of text, and patterns of file names, from the paths that it is given.
func checkPlain(dir string) error {
	if !strings.ContainsAny(dir, "\n[") && utf8.ValidString(dir) {
		return nil
	}
	return spec.Errorf(spec.ErrUsage, `the state directory %q has a line break or a "[" in its name, or is not UTF-8`, dir).
		WithHint("set BOTHY_HOME to a directory with a plainer name")
}

// makeOwn makes a directory, or checks that an existing one is the caller's.
func makeOwn(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%s is not a directory", dir)
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to uid %d, not to you", dir, st.Uid)
	}
	return nil
}

// closeToOthers closes a directory to others.
func closeToOthers(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil || st.Mode&0o077 == 0 {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// claimDir marks the state directory as Bothy's: an empty one, or one that is older than marks.
func (s *Store) claimDir() error {
	if s.marked() {
		return nil
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	var there []string
	for _, e := range entries {
		if !s.harmless(e) {
			there = append(there, e.Name())
		}
	}
	switch {
	case len(there) == 0, slices.Contains(there, markName): // another process was faster
		return s.writeMark()
	case s.unmarked(there):
		_ = s.writeMark() // on a full disk it is used, but not erased
		return nil
	}
	return fmt.Errorf("%s holds other things, such as %q, and no state of Bothy's", s.dir, there[0])
}

// harmless reports whether an entry is allowed in a directory that becomes the state directory:
// the usual entries of a new file system, and the key and the rules that users bring from another
// machine.
func (s *Store) harmless(e fs.DirEntry) bool {
	switch e.Name() {
	case "lost+found":
		return e.IsDir()
	case ownerName, policyName:
		return e.Type().IsRegular()
	}
	return false
}

// writeMark writes the mark. Only its existence counts, not its text.
func (s *Store) writeMark() error {
	f, err := os.OpenFile(filepath.Join(s.dir, markName), os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, _ = f.WriteString(mark)
	return f.Close()
}

func (s *Store) marked() bool {
	info, err := os.Lstat(filepath.Join(s.dir, markName))
	return err == nil && info.Mode().IsRegular()
}

// unmarked reports whether a directory with these entries, and without the mark, is a state
// directory from before there were marks. It must contain only known names, sandboxes among them,
// and a lock file of Bothy's. Names alone prove nothing: users also call their own directories
// images and tasks.
func (s *Store) unmarked(there []string) bool {
	if !slices.Contains(there, sandboxesName) {
		return false
	}
	list, err := os.ReadDir(s.sandboxes())
	foreign := func(e fs.DirEntry) bool {
		return !IsID(e.Name()) && !strings.HasPrefix(e.Name(), newPrefix) && !strings.HasPrefix(e.Name(), removedPrefix)
	}
	if err != nil || slices.ContainsFunc(list, foreign) {
		return false
	}
	return len(there) == 1 || slices.ContainsFunc([]string{
		namesLock, policyLock, "secrets/lock", "images/.lock", "templates/.lock", "tasks/lock", "builds/lock", "imports/.lock", "agents/*/.lock",
	}, s.leftLock)
}

// leftLock reports whether a lock file exists.
func (s *Store) leftLock(pattern string) bool {
	root := os.DirFS(s.dir)
	found, _ := fs.Glob(root, pattern)
	return slices.ContainsFunc(found, func(name string) bool {
		info, err := fs.Stat(root, name)
		return err == nil && info.Mode().IsRegular() && info.Size() == 0
	})
}

// Erase deletes the state directory. No process may use it.
func (s *Store) Erase() error {
	if !s.marked() {
		return fmt.Errorf("erase %s: it has no file %s, by which a directory is known as Bothy's", s.dir, markName)
	}
	for _, name := range append(slices.Clone(names), markName) { // the mark last: a failed removal can be repeated
		if err := RemoveTree(filepath.Join(s.dir, name)); err != nil {
			return fmt.Errorf("erase %s: %w", filepath.Join(s.dir, name), err)
		}
	}
	// Other entries are not ours: the directory goes only if it is empty.
	_ = os.Remove(s.dir)
	return nil
}
