package step

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path"
	"path/filepath"
	"slices"

	continuity "github.com/containerd/continuity/fs"
	copy "github.com/tonistiigi/fsutil/copy"
	"golang.org/x/sys/unix"
)

// unpack writes the files of an archive below a directory, which gets the metadata of the
// archive's root. It does not follow links of the archive, so the data of another stage
// cannot leave the destination of the copy.
func unpack(r io.Reader, dir string) error { return (&unpacker{}).unpackArchive(r, dir) }

// mergeArchive adds the files of an archive to those below a directory, whose own metadata stays.
// It follows existing links as if the directory were the root. Files get the owners of the
// archive, unless one owner is given for all.
func mergeArchive(r io.Reader, dir string, owner *copy.User) error {
	return (&unpacker{merge: true, owner: owner}).unpackArchive(r, dir)
}

type unpacker struct {
	merge bool
	owner *copy.User
	root  *os.Root
	buf   []byte
	// at is the directory of the last entry, usually the same as that of the next. really is its path
	// after following links.
	at, really string
	open       *os.Root
	dirs       []filled
}

// filled is a directory whose metadata is set at the end, because adding files changes its time.
type filled struct {
	path string
	h    *tar.Header
}

func (u *unpacker) unpackArchive(r io.Reader, dir string) (err error) {
	if u.root, err = os.OpenRoot(dir); err != nil {
		return err
	}
	defer u.root.Close()
	u.buf = make([]byte, 1<<20)
	defer u.leaveDir()
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if err := u.unpackEntry(h, tr); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	return u.finish()
}

// enterDir opens the directory of an entry, and makes missing ones above it.
func (u *unpacker) enterDir(dir string) (*os.Root, error) {
	if u.open != nil && u.at == dir {
		return u.open, nil
	}
	u.leaveDir()
	really, err := u.resolve(dir)
	if err != nil {
		return nil, err
	}
	if err := u.root.MkdirAll(really, 0o755); err != nil {
		return nil, err
	}
	in, err := u.root.OpenRoot(really)
	if err == nil {
		u.at, u.really, u.open = dir, really, in
	}
	return in, err
}

// resolve follows links on the way to a directory, if merge is set.
func (u *unpacker) resolve(dir string) (string, error) {
	if !u.merge {
		return dir, nil
	}
	p, err := continuity.RootPath(u.root.Name(), dir)
	if err != nil {
		return "", err
	}
	return filepath.Rel(u.root.Name(), p)
}

func (u *unpacker) leaveDir() {
	if u.open != nil {
		_ = u.open.Close()
	}
	u.open = nil
}

// within returns a name of an archive as a path inside its directory.
func within(name string) string {
	if name = path.Clean("/" + name)[1:]; name == "" {
		return "."
	}
	return name
}

func (u *unpacker) unpackEntry(h *tar.Header, r io.Reader) error {
	h.Name = within(h.Name)
	if u.owner != nil {
		h.Uid, h.Gid = u.owner.UID, u.owner.GID
	}
	if h.Name == "." {
		if u.merge {
			return nil
		}
		u.dirs = append(u.dirs, filled{".", h})
		return u.root.Chown(".", h.Uid, h.Gid)
	}
	in, err := u.enterDir(path.Dir(h.Name))
	if err != nil {
		return err
	}
	name := path.Base(h.Name)
	err = u.putFile(in, name, h, r)
	if errors.Is(err, fs.ErrExist) { // replace the old file
		if info, lerr := in.Lstat(name); lerr == nil && info.IsDir() {
			u.forget(path.Join(u.really, name))
		}
		if err = in.RemoveAll(name); err == nil {
			err = u.putFile(in, name, h, r)
		}
	}
	return err
}

// forget drops removed directories and everything below them. A file in their place must
// not get their metadata.
func (u *unpacker) forget(gone string) {
	u.dirs = slices.DeleteFunc(u.dirs, func(d filled) bool { return d.path == gone || isBelow(d.path, gone) })
}

// putFile makes a file. It returns fs.ErrExist if one exists.
func (u *unpacker) putFile(in *os.Root, name string, h *tar.Header, r io.Reader) error {
	switch h.Typeflag {
	case tar.TypeDir:
		err := in.Mkdir(name, 0o755)
		if info, lerr := in.Lstat(name); err != nil && (lerr != nil || !info.IsDir()) {
			return err
		}
		u.dirs = append(u.dirs, filled{path.Join(u.really, name), h})
	case tar.TypeSymlink:
		if err := in.Symlink(h.Linkname, name); err != nil {
			return err
		}
	case tar.TypeLink:
		return u.makeLink(within(h.Linkname), path.Join(u.really, name))
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont:
		return u.writeFile(in, name, h, r)
	case tar.TypeFifo:
		return u.makeFifo(in, name, h)
	case tar.TypeChar, tar.TypeBlock:
		log.Printf("%s: a device is left out", h.Name)
		return nil
	default:
		return fmt.Errorf("a file of the kind %q cannot be made here", h.Typeflag)
	}
	return in.Lchown(name, h.Uid, h.Gid)
}

// makeLink makes a hard link to a file of the archive, or to an older one.
func (u *unpacker) makeLink(old, name string) error {
	dir, err := u.resolve(path.Dir(old))
	if err != nil {
		return err
	}
	return u.root.Link(path.Join(dir, path.Base(old)), name)
}

func (u *unpacker) writeFile(in *os.Root, name string, h *tar.Header, r io.Reader) error {
	f, err := in.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, r, u.buf)
	if err == nil {
		err = f.Chown(h.Uid, h.Gid) // before the mode, because chown may clear some bits of it
	}
	if err == nil {
		err = f.Chmod(h.FileInfo().Mode())
	}
	if err == nil {
		at := unix.NsecToTimeval(h.ModTime.UnixNano())
		err = unix.Futimes(int(f.Fd()), []unix.Timeval{at, at})
	}
	return errors.Join(err, f.Close())
}

func (u *unpacker) makeFifo(in *os.Root, name string, h *tar.Header) error {
	dir, err := in.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Mkfifoat(int(dir.Fd()), name, 0o600); err != nil {
		return err
	}
	if err := in.Lchown(name, h.Uid, h.Gid); err != nil {
		return err
	}
	return in.Chmod(name, h.FileInfo().Mode())
}

// finish sets the metadata of directories, now that they are complete. If an archive names
// one several times, the last entry counts.
func (u *unpacker) finish() error {
	done := map[string]bool{}
	for _, d := range slices.Backward(u.dirs) {
		if done[d.path] {
			continue
		}
		done[d.path] = true
		if err := u.root.Chmod(d.path, d.h.FileInfo().Mode()); err != nil {
			return err
		}
		if err := u.root.Chtimes(d.path, d.h.ModTime, d.h.ModTime); err != nil {
			return err
		}
	}
	return nil
}
