// Package archive moves trees of files as tar streams. Both ends may be
// hostile: a stream read from a sandbox is written beneath one directory, held
// open as an os.Root, so that no name, link or race in it leads anywhere else.
package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// WriteOptions say how Write reads the file system.
type WriteOptions struct {
	// Follow archives what symbolic links point to instead of the links.
	Follow bool
	// Name replaces the top element's name in the archive; "." archives only
	// what is in the directory.
	Name string
}

// Write archives the file or tree at src.
func Write(w io.Writer, src string, o WriteOptions) error {
	tw := tar.NewWriter(w)
	name := o.Name
	if name == "" {
		name = filepath.Base(src)
	}
	a := &writer{tw: tw, follow: o.Follow, links: map[fileID]string{}}
	if err := a.add(src, name, o.Follow); err != nil {
		return err
	}
	return tw.Close()
}

type writer struct {
	tw     *tar.Writer
	follow bool
	links  map[fileID]string
}

func (a *writer) add(src, name string, follow bool) error {
	info, err := os.Lstat(src)
	if err == nil && follow && info.Mode()&fs.ModeSymlink != 0 {
		info, err = os.Stat(src)
	}
	if err != nil {
		return err
	}
	target := ""
	switch mode := info.Mode(); {
	case mode.IsDir(), mode.IsRegular():
	case mode&fs.ModeSymlink != 0:
		if target, err = os.Readlink(src); err != nil {
			return err
		}
	default:
		return nil // devices, sockets and pipes are not copied
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h.Name, h.Uname, h.Gname = name, "", ""
	h.Format = tar.FormatPAX
	h.ModTime = info.ModTime().Truncate(time.Microsecond)
	h.AccessTime, h.ChangeTime = time.Time{}, time.Time{}
	if info.IsDir() {
		h.Name += "/"
	}
	if first := a.seen(info, name); first != "" {
		h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
	}
	if err := a.tw.WriteHeader(h); err != nil {
		return fmt.Errorf("archive %s: %w", src, err)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return a.children(src, name)
	case tar.TypeReg:
		return a.content(src, h.Size)
	}
	return nil
}

func (a *writer) children(src, name string) error {
	entries, err := os.ReadDir(src)
	if err != nil {
		return err
	}
	for _, e := range entries {
		err := a.add(filepath.Join(src, e.Name()), path.Join(name, e.Name()), a.follow)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it vanished while we looked
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// content copies exactly size bytes, as the header promised.
func (a *writer) content(src string, size int64) error {
	f, err := os.Open(src)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.CopyN(a.tw, f, size)
	if err == io.EOF && n < size {
		_, err = io.CopyN(a.tw, zeros{}, size-n) // it shrank
	}
	if err != nil {
		return fmt.Errorf("archive %s: %w", src, err)
	}
	return nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// ExtractOptions say how Extract writes.
type ExtractOptions struct {
	// Rename, if not empty, replaces the first element of every name.
	Rename string
	// MaxBytes bounds the sum of all files; zero means no bound.
	MaxBytes int64
}

// Extract writes the archive beneath root. Links are made as they come, and
// never followed: a name that leads through one out of root is refused by the
// root itself. Existing files are replaced by new ones, so that a hard link to
// them is cut and never written through.
func Extract(r io.Reader, root *os.Root, o ExtractOptions) error {
	tr := tar.NewReader(r)
	x := &extractor{root: root, o: o}
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return x.finish()
		}
		if err != nil {
			return fmt.Errorf("read archive: %w", err)
		}
		if err := x.entry(h, tr); err != nil {
			return fmt.Errorf("extract %q: %w", h.Name, err)
		}
	}
}

type extractor struct {
	root  *os.Root
	o     ExtractOptions
	bytes int64
	dirs  []dirMeta // set last: a read-only directory must be filled first
}

type dirMeta struct {
	name  string
	mode  fs.FileMode
	mtime time.Time
}

func (x *extractor) entry(h *tar.Header, r io.Reader) error {
	name, err := x.name(h.Name)
	if err != nil {
		return err
	}
	mode := h.FileInfo().Mode().Perm() // never set-uid
	switch h.Typeflag {
	case tar.TypeDir:
		return x.dir(name, mode, h.ModTime)
	case tar.TypeReg:
		return x.file(name, mode, h, r)
	case tar.TypeSymlink:
		if err := x.clear(name); err != nil {
			return err
		}
		return x.root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		old, err := x.name(h.Linkname)
		if err != nil {
			return err
		}
		if info, err := x.root.Lstat(old); err != nil || !info.Mode().IsRegular() {
			return errors.New("it is a link to something that was not in the archive")
		}
		if err := x.clear(name); err != nil {
			return err
		}
		return x.root.Link(old, name)
	}
	return nil // devices and pipes are not made
}

// name makes an archive's name local, or refuses it.
func (x *extractor) name(name string) (string, error) {
	name = path.Clean(strings.TrimSuffix(name, "/"))
	if x.o.Rename != "" {
		_, rest, nested := strings.Cut(name, "/")
		name = x.o.Rename
		if nested {
			name = path.Join(name, rest)
		}
	}
	if !filepath.IsLocal(name) {
		return "", errors.New("its name leads out of the directory")
	}
	return name, nil
}

func (x *extractor) dir(name string, mode fs.FileMode, mtime time.Time) error {
	if info, err := x.root.Lstat(name); err == nil && !info.IsDir() {
		return errors.New("something that is not a directory is in the way")
	}
	if err := x.root.MkdirAll(name, 0o755); err != nil {
		return err
	}
	if name != "." {
		x.dirs = append(x.dirs, dirMeta{name, mode, mtime})
	}
	return nil
}

func (x *extractor) file(name string, mode fs.FileMode, h *tar.Header, r io.Reader) error {
	if x.bytes += h.Size; x.o.MaxBytes > 0 && x.bytes > x.o.MaxBytes {
		return fmt.Errorf("the archive has more than %d bytes", x.o.MaxBytes)
	}
	if err := x.clear(name); err != nil {
		return err
	}
	f, err := x.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode&0o777|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if cerr := f.Chmod(mode); err == nil {
		err = cerr
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = x.root.Chtimes(name, h.ModTime, h.ModTime)
	}
	return err
}

// clear makes room for a name: what is there goes, unless it is a directory.
func (x *extractor) clear(name string) error {
	if dir := path.Dir(name); dir != "." {
		if err := x.root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	info, err := x.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("a directory is in the way")
	}
	return x.root.Remove(name)
}

// finish gives directories their own mode and time, inner ones first.
func (x *extractor) finish() error {
	for i := len(x.dirs) - 1; i >= 0; i-- {
		d := x.dirs[i]
		if info, err := x.root.Lstat(d.name); err != nil || !info.IsDir() {
			continue
		}
		if err := x.root.Chtimes(d.name, d.mtime, d.mtime); err != nil {
			return err
		}
		if err := x.root.Chmod(d.name, d.mode); err != nil {
			return err
		}
	}
	return nil
}
