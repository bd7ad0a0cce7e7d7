package clone

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// keepObjects moves the fetched objects into the user's repository: first packs, protected from git's
// clean-up until references need them, then references.
func (f *fetch) keepObjects() (err error) {
	names, err := f.inb.packNames()
	if err != nil {
		return err
	}
	dir, err := f.openGitDir(packDir, true)
	if err != nil {
		return err
	}
	defer dir.Close()
	defer func() {
		for _, name := range names {
			if gone := dir.Remove(name + ".keep"); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
				err = errors.Join(err, gone)
			}
		}
	}()
	for _, name := range names {
		if err := f.keepPack(dir, name); err != nil {
			return err
		}
	}
	return f.pointAll()
}

// pointAll sets the references to the fetched commits. It refuses a branch whose reference cannot
// be written, and fails only if no reference can be.
func (f *fetch) pointAll() error {
	var first error
	written := 0
	for i := range f.Branches {
		b := &f.Branches[i]
		if b.Result == Refused || b.Result == Unchanged {
			continue
		}
		err := f.replace(b.Ref, b.New, func() error { return f.logOldCommit(b) })
		if err == nil {
			written++
			continue
		}
		err = fmt.Errorf("write %s: %w", b.Ref, err)
		b.refuse(err)
		if first == nil {
			first = err
		}
	}
	if first != nil && written == 0 {
		return first
	}
	if f.current != "" {
		if err := f.pointHead(); err != nil {
			return fmt.Errorf("write %sHEAD: %w", f.refPrefix(), err)
		}
	}
	return nil
}

// packDir is the directory of packs.
const packDir = "objects/pack"

// openGitDir opens a directory of the user's git directory, step by step. A sandbox that could once
// write there may have left links that lead to the user's own files. If wanted is true, dir makes
// the directory.
func (f *fetch) openGitDir(name string, wanted bool) (*os.Root, error) {
	at, err := f.root.OpenRoot(".")
	for step := range strings.SplitSeq(name, "/") {
		if err != nil {
			return nil, err
		}
		var next *os.Root
		next, err = enterDir(at, step, wanted)
		_ = at.Close()
		at = next
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			err = spec.Errorf(spec.ErrDenied, "%s in %s: %w", name, f.repo.Git, err).WithHint("look at it, and remove files that git did not make")
		}
	}
	return at, err
}

// enterDir opens a directory in another.
func enterDir(at *os.Root, name string, wanted bool) (*os.Root, error) {
	if wanted {
		if err := at.Mkdir(name, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	seen, err := at.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !seen.IsDir() {
		return nil, fmt.Errorf("%q is not a directory", name)
	}
	next, err := at.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if is, err := next.Stat("."); err != nil || !os.SameFile(seen, is) { // a link by now
		next.Close()
		return nil, errors.Join(err, fmt.Errorf("%q is changed just now", name))
	}
	return next, nil
}

// keepPack copies a pack. It copies the index last, because git sees the pack by its index.
func (f *fetch) keepPack(dir *os.Root, name string) error {
	if _, err := dir.Lstat(name + ".idx"); err == nil {
		return nil
	}
	if err := writeReadOnly(dir, name+".keep", strings.NewReader("bothy fetch "+f.order.Sandbox+"\n")); err != nil {
		return err
	}
	for _, ending := range []string{".pack", ".rev", ".idx"} {
		from, err := os.Open(filepath.Join(f.inb.dir, packDir, name+ending))
		if errors.Is(err, fs.ErrNotExist) && ending == ".rev" {
			continue // older ones make none
		}
		if err != nil {
			return err
		}
		err = writeReadOnly(dir, name+ending, from)
		from.Close()
		if err != nil {
			return err
		}
	}
	return syncIn(dir)
}

// writeReadOnly writes a read-only file.
func writeReadOnly(dir *os.Root, name string, from io.Reader) error {
	// git uses such names for files that it may clean up.
	tmp := "tmp_bothy_" + store.NewID()
	to, err := dir.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err == nil {
		err = to.Sync()
	}
	if cerr := to.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = dir.Rename(tmp, name)
	}
	if err != nil {
		_ = dir.Remove(tmp)
	}
	return err
}

func syncIn(dir *os.Root) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// pointHead sets the sandbox's reference HEAD to the branch that is checked out in the sandbox.
func (f *fetch) pointHead() error {
	for _, b := range f.Branches {
		if b.Branch == f.current && b.Result != Refused {
			return f.replace(f.refPrefix()+"HEAD", "ref: "+b.Ref, func() error { return nil })
		}
	}
	return nil
}

// replace writes a reference's new text by git's rules: its lock, its log, a rename.
func (f *fetch) replace(ref, text string, log func() error) error {
	dir, err := f.openGitDir(path.Dir(ref), true)
	if err != nil {
		return err
	}
	defer dir.Close()
	name := path.Base(ref)
	lock := name + ".lock"
	to, err := dir.OpenFile(lock, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return spec.Errorf(spec.ErrConflict, "another git is at work on it").
			WithHint("try again; if none runs, one was ended: remove %s", filepath.Join(f.repo.Git, ref+".lock"))
	}
	if err != nil {
		return err
	}
	_, err = to.WriteString(text + "\n")
	if err == nil {
		err = to.Sync()
	}
	if cerr := to.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = log()
	}
	if err == nil {
		_ = removeEmpty(dir, name) // git leaves directories behind
		err = dir.Rename(lock, name)
	}
	if err != nil {
		_ = dir.Remove(lock)
		return err
	}
	return syncIn(dir)
}

// removeEmpty removes a directory that contains nothing but empty directories.
func removeEmpty(dir *os.Root, name string) error {
	info, err := dir.Lstat(name)
	if err != nil || !info.IsDir() {
		return err
	}
	entries, err := fs.ReadDir(dir.FS(), name)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			return fs.ErrExist
		}
		if err := removeEmpty(dir, path.Join(name, e.Name())); err != nil {
			return err
		}
	}
	return dir.Remove(name)
}

// logOldCommit records the reference's earlier commit: git keeps that for a while, whatever the sandbox
// has put in its place.
func (f *fetch) logOldCommit(b *Fetched) error {
	dir, err := f.openGitDir(path.Join("logs", path.Dir(b.Ref)), true)
	if err != nil {
		return err
	}
	defer dir.Close()
	name := path.Base(b.Ref)
	_ = removeEmpty(dir, name)
	if info, err := dir.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return spec.Errorf(spec.ErrDenied, "the log of %s in %s is not a regular file", b.Ref, f.repo.Git).WithHint("look at it, and remove files that git did not make")
	}
	to, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NONBLOCK, 0o666)
	if err != nil {
		return err
	}
	old := b.Old
	if old == "" {
		old = strings.Repeat("0", len(b.New))
	}
	now := time.Now()
	w := bufio.NewWriter(to)
	fmt.Fprintf(w, "%s %s bothy <bothy@localhost> %d %s\tfetch %s: %s\n", old, b.New, now.Unix(), now.Format("-0700"), f.order.Sandbox, b.Result)
	return errors.Join(w.Flush(), to.Close())
}
