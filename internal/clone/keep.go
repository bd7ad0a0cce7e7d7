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

// keep puts what came into the user's repository: packs, kept from being tidied
// away until references need them, then references.
func (f *fetch) keep() (err error) {
	names, err := f.inb.packs()
	if err != nil {
		return err
	}
	defer func() {
		for _, name := range names {
			if gone := f.root.Remove(packDir + name + ".keep"); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
				err = errors.Join(err, gone)
			}
		}
	}()
	for _, name := range names {
		if err := f.keepPack(name); err != nil {
			return err
		}
	}
	return f.pointAll()
}

// pointAll makes the references mean what was fetched.
func (f *fetch) pointAll() error {
	for i := range f.Branches {
		b := &f.Branches[i]
		if b.Result == Refused || b.Result == Unchanged {
			continue
		}
		if err := f.point(b); err != nil {
			return fmt.Errorf("write %s: %w", b.Ref, err)
		}
	}
	if f.current != "" {
		if err := f.pointHead(); err != nil {
			return fmt.Errorf("write %sHEAD: %w", f.base(), err)
		}
	}
	return nil
}

const packDir = "objects/pack/"

// keepPack copies a pack. Its index is the last: with that, git sees it.
func (f *fetch) keepPack(name string) error {
	if _, err := f.root.Lstat(packDir + name + ".idx"); err == nil {
		return nil
	}
	if err := f.root.MkdirAll("objects/pack", 0o777); err != nil {
		return err
	}
	if err := f.place(packDir+name+".keep", strings.NewReader("bothy fetch "+f.order.Sandbox+"\n")); err != nil {
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
		err = f.place(packDir+name+ending, from)
		from.Close()
		if err != nil {
			return err
		}
	}
	return f.sync(packDir)
}

// place writes a file that nobody changes.
func (f *fetch) place(name string, from io.Reader) error {
	// As git names those that it may tidy away.
	tmp := path.Join(path.Dir(name), "tmp_bothy_"+store.NewID())
	to, err := f.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
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
		err = f.root.Rename(tmp, name)
	}
	if err != nil {
		_ = f.root.Remove(tmp)
	}
	return err
}

func (f *fetch) sync(dir string) error {
	d, err := f.root.Open(path.Clean(dir))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// point makes a reference mean a commit.
func (f *fetch) point(b *Fetched) error {
	return f.replace(b.Ref, b.New, func() error { return f.log(b) })
}

// pointHead makes what is checked out inside be what the name of the sandbox means.
func (f *fetch) pointHead() error {
	for _, b := range f.Branches {
		if b.Branch == f.current && b.Result != Refused {
			return f.replace(f.base()+"HEAD", "ref: "+b.Ref, func() error { return nil })
		}
	}
	return nil
}

// replace gives a reference a new text by git's rules: its lock, its log, a rename.
func (f *fetch) replace(ref, text string, log func() error) error {
	dir := path.Dir(ref)
	if err := f.root.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	lock := ref + ".lock"
	to, err := f.root.OpenFile(lock, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return spec.Errorf(spec.ErrConflict, "another git is at work on it").
			WithHint("try again; if none runs, one was ended: remove %s", filepath.Join(f.repo.Git, lock))
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
		_ = f.removeEmpty(ref) // git leaves directories behind
		err = f.root.Rename(lock, ref)
	}
	if err != nil {
		_ = f.root.Remove(lock)
		return err
	}
	return f.sync(dir)
}

// removeEmpty removes a directory that has none but empty ones in it.
func (f *fetch) removeEmpty(name string) error {
	info, err := f.root.Lstat(name)
	if err != nil || !info.IsDir() {
		return err
	}
	entries, err := fs.ReadDir(f.root.FS(), name)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			return fs.ErrExist
		}
		if err := f.removeEmpty(path.Join(name, e.Name())); err != nil {
			return err
		}
	}
	return f.root.Remove(name)
}

// log notes what a reference was: git keeps that for a while, whatever the sandbox
// has put in its place.
func (f *fetch) log(b *Fetched) error {
	name := path.Join("logs", b.Ref)
	if err := f.root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return err
	}
	_ = f.removeEmpty(name)
	to, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NONBLOCK, 0o666)
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
