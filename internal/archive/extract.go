package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ExtractOptions are the options of Extract.
type ExtractOptions struct {
	// Rename, if not empty, replaces the first element of every name.
	Rename string
	// MaxBytes bounds the sum of all files; zero means no bound.
	MaxBytes int64
	// Outward is set if the archive comes from a sandbox and is extracted for a user. No other user may
	// write to the files, whatever their modes, and existing directories keep their modes.
	Outward bool
	// NoHoles rejects a file with holes: a small archive can claim one that takes years to write, and
	// Write makes none.
	NoHoles bool

	exact bool // owners, all bits of modes, and pipes
}

// Extract writes the archive below root. It follows no symbolic link, neither an existing one nor one
// from the archive. Existing files are replaced by new ones, so that a hard link to them is cut and
// never written through. Set-uid bits, devices and pipes are left out.
func Extract(r io.Reader, root *os.Root, o ExtractOptions) error {
	fd, err := dirHandle(root)
	if err != nil {
		return err
	}
	return extractAll(tar.NewReader(r), fd, o)
}

// extractAll writes the rest of an archive, and closes the directory.
func extractAll(tr *tar.Reader, root int, o ExtractOptions) error {
	x := &extractor{root: root, parent: -1, o: o, made: map[string]bool{}, madeDirs: map[string]bool{}, swept: map[string]bool{}}
	defer x.closeAll()
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return x.finish()
		}
		if err != nil {
			return fmt.Errorf("read archive: %w", err)
		}
		if err := x.extractEntry(h, tr); err != nil {
			return fmt.Errorf("extract %q: %w", h.Name[:min(len(h.Name), maxShown)], err)
		}
	}
}

type extractor struct {
	root  int
	o     ExtractOptions
	bytes int64
	made  map[string]bool // files of this archive, which it may link to
	dirs  []dirMeta       // set last: a read-only directory must be filled first

	madeDirs map[string]bool // directories that were missing
	swept    map[string]bool // directories already searched for leftovers

	parent     int // the directory of the last entry, and its name
	parentName string
}

type dirMeta struct {
	name  string
	mode  uint32
	owner [2]int
	mtime time.Time
}

func (x *extractor) closeAll() {
	x.leaveDir()
	unix.Close(x.root)
}

func (x *extractor) leaveDir() {
	if x.parent >= 0 {
		unix.Close(x.parent)
		x.parent = -1
	}
}

func (x *extractor) extractEntry(h *tar.Header, r io.Reader) error {
	name, err := x.localName(h.Name)
	if err != nil {
		return err
	}
	mode := uint32(h.FileInfo().Mode().Perm()) // never set-uid
	if x.o.exact {
		mode = uint32(h.Mode & 0o7777) //nolint:gosec // it is masked
	}
	if x.o.Outward {
		mode &^= 0o022
	}
	if x.o.NoHoles && hasHoles(h) {
		return errors.New("it has holes, whose size cannot be checked")
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return x.addDir(name, mode, h)
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont:
		return x.addFile(name, mode, h, r)
	case tar.TypeSymlink:
		return x.replaceBy(name, func(dir int, as string) error { return unix.Symlinkat(h.Linkname, dir, as) })
	case tar.TypeLink:
		return x.addLink(name, h.Linkname)
	case tar.TypeFifo:
		if !x.o.exact {
			return nil
		}
		return x.replaceBy(name, func(dir int, as string) error { return unix.Mkfifoat(dir, as, mode) })
	case tar.TypeChar, tar.TypeBlock, tar.TypeXGlobalHeader:
		return nil
	}
	return fmt.Errorf("it is of an unknown kind (%q)", h.Typeflag)
}

var errOutside = errors.New("its name leads out of the directory")

// maxName bounds names, and so the depth of a path: all of its directories may have to be made. Linux
// takes 4 KiB at once. maxShown is the part of a name that errors show.
const (
	maxName  = 64 << 10
	maxShown = 256
)

// localName makes an archive's name local, or rejects it, both before and after a rename.
func (x *extractor) localName(name string) (string, error) {
	if len(name) > maxName {
		return "", fmt.Errorf("its name has %d bytes", len(name))
	}
	name = path.Clean(strings.TrimRight(name, "/"))
	if !filepath.IsLocal(name) || strings.ContainsRune(name, 0) {
		return "", errOutside
	}
	if x.o.Rename == "" {
		return name, nil
	}
	_, rest, _ := strings.Cut(name, "/")
	if name = path.Join(x.o.Rename, rest); !filepath.IsLocal(name) {
		return "", errOutside
	}
	return name, nil
}

// enterDir opens the directory of a name, and creates its missing parts.
func (x *extractor) enterDir(dir string) error {
	if x.parent >= 0 && x.parentName == dir {
		return nil
	}
	x.leaveDir()
	at, err := unix.FcntlInt(uintptr(x.root), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if dir != "." {
		end := 0
		for element := range strings.SplitSeq(dir, "/") {
			end += len(element)
			next, made, err := openOrMake(at, element)
			unix.Close(at)
			if err != nil {
				return err
			}
			if at = next; made {
				x.madeDirs[dir[:end]] = true
			}
			end++ // the slash
		}
	}
	x.parent, x.parentName = at, dir
	if !x.swept[dir] {
		x.swept[dir] = true
		if !x.madeDirs[dir] {
			removeLeftovers(at)
		}
	}
	return nil
}

func openOrMake(parent int, name string) (fd int, made bool, err error) {
	fd, err = openDir(parent, name)
	if errors.Is(err, unix.ENOENT) {
		err = unix.Mkdirat(parent, name, 0o755)
		if made = err == nil; !made && !errors.Is(err, unix.EEXIST) {
			return -1, false, err
		}
		fd, err = openDir(parent, name)
	}
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return -1, false, fmt.Errorf("%q in its way is not a directory", name)
	}
	return fd, made, err
}

// replaceBy makes a link under a name. If the name exists, the link is made next to it and renamed: at
// every moment the name leads to the old file or to the link.
func (x *extractor) replaceBy(name string, makeLink func(dir int, as string) error) error {
	if name == "." {
		return errOutside
	}
	if err := x.enterDir(path.Dir(name)); err != nil {
		return err
	}
	base := path.Base(name)
	if err := makeLink(x.parent, base); !errors.Is(err, unix.EEXIST) {
		return err
	}
	if err := x.replaceable(base); err != nil {
		return err
	}
	lock, locked, err := createTemp(x.parent) // a link cannot be locked
	if err != nil {
		return err
	}
	defer lock.Close()
	defer func() { _ = unix.Unlinkat(x.parent, locked, 0) }()
	temp := locked + linkSuffix
	if err := makeLink(x.parent, temp); err != nil {
		return err
	}
	// If it is renamed to another name of the same file, it would stay.
	defer func() { _ = unix.Unlinkat(x.parent, temp, 0) }()
	delete(x.made, name)
	err = unix.Renameat(x.parent, temp, x.parent, base)
	if errors.Is(err, unix.EISDIR) {
		return errDirectory
	}
	return err
}

func (x *extractor) addDir(name string, mode uint32, h *tar.Header) error {
	if name == "." {
		return nil
	}
	// Entering the directory itself makes it.
	if err := x.enterDir(name); err != nil {
		return err
	}
	if !x.o.Outward || x.madeDirs[name] {
		x.dirs = append(x.dirs, dirMeta{name, mode, [2]int{h.Uid, h.Gid}, h.ModTime})
	}
	return nil
}

func (x *extractor) addFile(name string, mode uint32, h *tar.Header, r io.Reader) error {
	if h.Size < 0 || x.o.MaxBytes > 0 && h.Size > x.o.MaxBytes-x.bytes {
		return fmt.Errorf("the archive has more than %d bytes", x.o.MaxBytes)
	}
	x.bytes += h.Size
	if name == "." {
		return errOutside
	}
	if err := x.enterDir(path.Dir(name)); err != nil {
		return err
	}
	delete(x.made, name)
	if err := x.replace(path.Base(name), mode, h, r); err != nil {
		return err
	}
	x.made[name] = true
	return nil
}

// replace writes a file next to its name, and renames it once it is complete. So a reader, even after an
// interruption, finds the old file or the new one.
func (x *extractor) replace(base string, mode uint32, h *tar.Header, r io.Reader) error {
	if err := x.replaceable(base); err != nil {
		return err
	}
	f, temp, err := createTemp(x.parent)
	if err != nil {
		return err
	}
	defer f.Close() // this unlocks it, after it got its name
	err = copyHoles(f, r, h.Size)
	if err == nil && x.o.exact {
		err = f.Chown(h.Uid, h.Gid)
	}
	if err == nil {
		err = unix.Fchmod(int(f.Fd()), mode)
	}
	if err == nil {
		err = setTime(int(f.Fd()), h.ModTime)
	}
	if err == nil {
		err = unix.Renameat(x.parent, temp, x.parent, base)
	}
	if err != nil {
		_ = unix.Unlinkat(x.parent, temp, 0)
	}
	if errors.Is(err, unix.EISDIR) {
		return errDirectory
	}
	return err
}

var (
	errDirectory = errors.New("a directory is in the way")
	errSpecial   = errors.New("a device, pipe or socket is in the way")
)

// replaceable returns an error for a name that only its owner should remove: a directory, or
// a device, pipe or socket, such as /dev/null.
func (x *extractor) replaceable(base string) error {
	var st unix.Stat_t
	if unix.Fstatat(x.parent, base, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return errDirectory
	case unix.S_IFREG, unix.S_IFLNK:
		return nil
	}
	return errSpecial
}

// addLink gives a file of this archive another name. It rejects other files.
func (x *extractor) addLink(name, old string) error {
	old, err := x.localName(old)
	if err != nil {
		return err
	}
	if !x.made[old] || name == old {
		return errors.New("it is a link to something that was not in the archive")
	}
	if err := x.enterDir(path.Dir(old)); err != nil {
		return err
	}
	from, err := unix.FcntlInt(uintptr(x.parent), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	err = x.replaceBy(name, func(dir int, as string) error { return unix.Linkat(from, path.Base(old), dir, as, 0) })
	if err == nil {
		x.made[name] = true
	}
	return err
}

// finish sets the modes and times of directories, inner ones first. For a directory that is named
// several times, the last entry counts.
func (x *extractor) finish() error {
	done := map[string]bool{}
	for _, d := range slices.Backward(x.dirs) {
		if done[d.name] {
			continue
		}
		done[d.name] = true
		if err := x.enterDir(d.name); err != nil {
			continue // replaced by something else since
		}
		if x.o.exact {
			if err := unix.Fchown(x.parent, d.owner[0], d.owner[1]); err != nil {
				return fmt.Errorf("set owner of %q: %w", d.name, err)
			}
		}
		if err := unix.Fchmod(x.parent, d.mode); err != nil {
			return fmt.Errorf("set mode of %q: %w", d.name, err)
		}
		if err := setTime(x.parent, d.mtime); err != nil {
			return fmt.Errorf("set time of %q: %w", d.name, err)
		}
		x.leaveDir()
	}
	return nil
}

// hasHoles recognizes the forms in which tar leaves zeros out.
func hasHoles(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return h.Typeflag == tar.TypeGNUSparse
}

// copyHoles writes a file without its zeros: a small archive can claim a file of terabytes, which works
// as long as it has only zeros.
func copyHoles(f *os.File, r io.Reader, size int64) error {
	buf, zero := make([]byte, 64<<10), make([]byte, 64<<10)
	var at int64
	for {
		n, err := io.ReadFull(r, buf)
		if !bytes.Equal(buf[:n], zero[:n]) {
			if _, werr := f.WriteAt(buf[:n], at); werr != nil {
				return werr
			}
		}
		at += int64(n)
		switch {
		case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF) && at == size:
			return f.Truncate(size)
		case err != nil:
			return err
		}
	}
}

func setTime(fd int, t time.Time) error {
	ts := unix.NsecToTimespec(t.UnixNano())
	return unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), []unix.Timespec{ts, ts}, 0)
}
