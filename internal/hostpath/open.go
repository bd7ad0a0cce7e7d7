package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Open opens a file or directory that the user names for reading. It does not block: a pipe
// without a writer is empty.
func (g *Guard) Open(path string) (*os.File, error) {
	p, err := g.Find(path)
	if err != nil {
		return nil, err
	}
	fd, err := p.openPlace(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// OpenRegular opens a regular file that the user names for reading.
func (g *Guard) OpenRegular(path string) (*os.File, error) {
	f, err := g.Open(path)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = f.Close()
		return nil, errors.Join(err, fmt.Errorf("%s is not a regular file", path))
	}
	return f, nil
}

// ReadFile reads a regular file that the user names, of at most this many bytes.
func (g *Guard) ReadFile(path string, most int64) ([]byte, error) {
	f, err := g.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return store.ReadAll(f, most)
}

// WriteNew writes a file that the user names. It must not exist.
func (g *Guard) WriteNew(path string, data []byte) error {
	_, dir, err := g.OpenDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	f, err := dir.OpenFile(filepath.Base(path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// Stat describes the file that a path leads to. The user names the path.
func (g *Guard) Stat(path string) (fs.FileInfo, error) {
	f, err := g.handle(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}

// Real returns the path without links of a file that the user names. [OpenReal] must open it
// again, because a link may be there by then.
func (g *Guard) Real(path string) (string, error) {
	f, err := g.handle(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return pathOf(int(f.Fd()))
}

// handle opens a path without reading it.
func (g *Guard) handle(path string) (*os.File, error) {
	p, err := g.Find(path)
	if err != nil {
		return nil, err
	}
	fd, err := p.openPlace(path, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// OpenReal opens a path without links, as [Guard.Real] returned it. It refuses a path that has
// got a link since.
func OpenReal(path string, flags int) (*os.File, error) {
	fd, err := openat(unix.AT_FDCWD, path, flags, unix.RESOLVE_NO_SYMLINKS)
	if errors.Is(err, unix.ELOOP) {
		return nil, spec.Errorf(spec.ErrDenied, "a symbolic link has come into the path %s just now", path).WithHint("look at it, and run the command again")
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// OpenRealRoot is [OpenReal] for a directory that files are opened in.
func OpenRealRoot(path string) (*os.Root, error) {
	f, err := OpenReal(path, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}

// openPlace opens a place. named is the user's path.
func (p Place) openPlace(named string, flags int) (int, error) {
	if p.Top == "" {
		how := uint64(unix.RESOLVE_NO_SYMLINKS)
		if p.opened {
			how = 0
		}
		fd, err := openat(unix.AT_FDCWD, p.Rest, flags, how)
		if err != nil {
			return -1, speakOf(err, named)
		}
		return fd, nil
	}
	top, err := p.openTop()
	if err != nil {
		return -1, speakOf(err, named)
	}
	defer unix.Close(top)
	fd, err := openat(top, p.Rest, flags, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_MAGICLINKS)
	if err != nil {
		return -1, p.refusal(top, named, err)
	}
	return fd, nil
}

// openTop opens the directory that a sandbox writes to, if it is still the one that was found.
func (p Place) openTop() (int, error) {
	fd, err := openat(unix.AT_FDCWD, p.Top, unix.O_PATH, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return -1, err
	}
	if now, err := IdentityOf(fd); err != nil || now != p.top {
		_ = unix.Close(fd)
		return -1, errors.Join(err, unix.ESTALE)
	}
	return fd, nil
}

// tries bounds how often a path is opened again because of a concurrent rename.
const tries = 64

func openat(dir int, path string, flags int, resolve uint64) (fd int, err error) {
	for range tries {
		fd, err = unix.Openat2(dir, path, &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: resolve})
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return fd, err
}

// refusal returns the reason why nothing was opened in a directory that a sandbox writes to.
func (p Place) refusal(top int, named string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, unix.ENOTDIR):
		return speakOf(err, named)
	}
	link, target := p.leading(top)
	if link == "" {
		return spec.Errorf(spec.ErrDenied, "%s may lead out of %s, which a sandbox writes to: %w", named, p.Top, err).
			WithHint("name where it leads to")
	}
	return spec.Errorf(spec.ErrDenied, "%s leads out of %s, which a sandbox writes to: %s is a link to %s, and may have been made inside", named, p.Top, link, target).
		WithHint("if the link is yours, name where it leads to: %s", target)
}

// leading finds the link that leads out, and its target.
func (p Place) leading(top int) (link, target string) {
	names := strings.Split(p.Rest, "/")
	for i := range names {
		at := strings.Join(names[:i+1], "/")
		fd, err := openat(top, at, unix.O_PATH, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_MAGICLINKS)
		if err == nil {
			_ = unix.Close(fd)
			continue
		}
		fd, err = openat(top, at, unix.O_PATH|unix.O_NOFOLLOW, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_MAGICLINKS)
		if err != nil {
			return "", ""
		}
		defer unix.Close(fd)
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(fd, "", buf)
		if err != nil {
			return "", ""
		}
		link, target = filepath.Join(p.Top, at), string(buf[:n])
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(link), target)
		}
		return link, target
	}
	return "", ""
}

// OpenDir opens a directory that the user names, to read or write files in it. top is the outermost
// directory around it that a sandbox writes to, or "".
func (g *Guard) OpenDir(path string) (top string, dir *os.Root, err error) {
	p, err := g.Find(path)
	if err != nil {
		return "", nil, err
	}
	// The slash keeps it from opening a pipe, which would wait for a writer.
	if p.Top == "" {
		dir, err = os.OpenRoot(p.Rest + "/")
		return "", dir, speakOf(err, path)
	}
	root, err := os.OpenRoot(p.Top)
	if err != nil {
		return "", nil, speakOf(err, path)
	}
	defer root.Close()
	dir, err = root.OpenRoot(p.Rest + "/")
	if err == nil {
		return p.Top, dir, nil
	}
	fd, failed := p.openTop()
	if failed != nil {
		return "", nil, speakOf(failed, path)
	}
	defer os.NewFile(uintptr(fd), p.Top).Close()
	return "", nil, p.refusal(fd, path, causeOf(err))
}

// causeOf removes the name that os.Root gives a path from its error.
func causeOf(err error) error {
	if wrong, ok := errors.AsType[*fs.PathError](err); ok {
		return wrong.Err
	}
	return err
}

// Opener returns a function that opens directories as [Guard.OpenDir] does.
func (g *Guard) Opener() func(dir string) (*os.Root, error) {
	return func(dir string) (*os.Root, error) {
		_, place, err := g.OpenDir(dir)
		return place, err
	}
}

// MayFollow refuses to follow the links in a path, and in the tree below it, if a sandbox writes
// there: each may lead to any file of the host.
func (g *Guard) MayFollow(path string) error {
	p, err := g.Find(path)
	if err != nil {
		return err
	}
	top := p.Top
	for _, d := range g.written {
		if top == "" && within(p.Rest, d.Path) {
			top = d.Path
		}
	}
	if top == "" {
		return nil
	}
	return spec.Errorf(spec.ErrDenied, "links in %s are not followed: a sandbox writes there, and may have made them", top).
		WithHint("without -L links are copied as links")
}
