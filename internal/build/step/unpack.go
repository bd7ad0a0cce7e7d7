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
	"slices"

	copy "github.com/tonistiigi/fsutil/copy"
	"golang.org/x/sys/unix"
)

// unpack writes the files of an archive below a directory. Owners are those in it,
// unless one is given for all. Links in it are not left by way of: what another stage
// sends does not reach what it was not copied to.
func unpack(r io.Reader, dir string, owner *copy.User) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	u := &unpacker{root: root, owner: owner, buf: make([]byte, 1<<20)}
	defer u.leave()
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
		if err := u.entry(h, tr); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	return u.finish()
}

type unpacker struct {
	root  *os.Root
	owner *copy.User
	buf   []byte
	// at is the directory of the last entry, which is mostly that of the next one.
	at   string
	open *os.Root
	dirs []*tar.Header // whose times change as long as they are filled
}

// enter opens the directory that an entry lies in, and those that are missing above it.
func (u *unpacker) enter(dir string) (*os.Root, error) {
	if u.open != nil && u.at == dir {
		return u.open, nil
	}
	u.leave()
	if err := u.root.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	in, err := u.root.OpenRoot(dir)
	if err == nil {
		u.at, u.open = dir, in
	}
	return in, err
}

func (u *unpacker) leave() {
	if u.open != nil {
		_ = u.open.Close()
	}
	u.open = nil
}

// within is a name of an archive, beneath its directory.
func within(name string) string {
	if name = path.Clean("/" + name)[1:]; name == "" {
		return "."
	}
	return name
}

func (u *unpacker) entry(h *tar.Header, r io.Reader) error {
	h.Name = within(h.Name)
	if u.owner != nil {
		h.Uid, h.Gid = u.owner.UID, u.owner.GID
	}
	if h.Name == "." {
		u.dirs = append(u.dirs, h)
		return u.root.Chown(".", h.Uid, h.Gid)
	}
	in, err := u.enter(path.Dir(h.Name))
	if err != nil {
		return err
	}
	name := path.Base(h.Name)
	err = u.put(in, name, h, r)
	if errors.Is(err, fs.ErrExist) { // what was there goes
		if err = in.RemoveAll(name); err == nil {
			err = u.put(in, name, h, r)
		}
	}
	return err
}

// put makes a file; fs.ErrExist if there is one.
func (u *unpacker) put(in *os.Root, name string, h *tar.Header, r io.Reader) error {
	switch h.Typeflag {
	case tar.TypeDir:
		err := in.Mkdir(name, 0o755)
		if info, lerr := in.Lstat(name); err != nil && (lerr != nil || !info.IsDir()) {
			return err
		}
		u.dirs = append(u.dirs, h)
	case tar.TypeSymlink:
		if err := in.Symlink(h.Linkname, name); err != nil {
			return err
		}
	case tar.TypeLink:
		return u.root.Link(within(h.Linkname), h.Name)
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont:
		return u.file(in, name, h, r)
	case tar.TypeFifo:
		return u.fifo(in, name, h)
	case tar.TypeChar, tar.TypeBlock:
		log.Printf("%s: a device is left out", h.Name)
		return nil
	default:
		return fmt.Errorf("a file of the kind %q cannot be made here", h.Typeflag)
	}
	return in.Lchown(name, h.Uid, h.Gid)
}

func (u *unpacker) file(in *os.Root, name string, h *tar.Header, r io.Reader) error {
	f, err := in.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, r, u.buf)
	if err == nil {
		err = f.Chown(h.Uid, h.Gid) // before the mode, of which it may take something
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

func (u *unpacker) fifo(in *os.Root, name string, h *tar.Header) error {
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

// finish gives directories what the archive says of them, now that they are filled.
func (u *unpacker) finish() error {
	for _, h := range slices.Backward(u.dirs) {
		if err := u.root.Chmod(h.Name, h.FileInfo().Mode()); err != nil {
			return err
		}
		if err := u.root.Chtimes(h.Name, h.ModTime, h.ModTime); err != nil {
			return err
		}
	}
	return nil
}
