package archive

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// WriteOptions are the options of Write.
type WriteOptions struct {
	// Follow archives the targets of symbolic links instead of the links.
	Follow bool
	// MayFollow is called with the link's path before a symbolic link is followed.
	MayFollow func(link string) error
	// Straight rejects a path that contains a symbolic link, or ends with one.
	Straight bool
	// Special also records devices, sockets and pipes: their existence, not their contents.
	Special bool
	// Open opens the directory of the file or tree; without it, any part of the path may be a
	// link. Write finds the source in there by its name.
	Open func(dir string) (*os.Root, error)
	// Name replaces the top element's name in the archive; "." archives only the contents of the
	// directory, to which a link may lead.
	Name string
}

// Write archives the file or tree at src, in the order of its names. It leaves out devices, sockets and
// pipes, unless Special is set.
func Write(w io.Writer, src string, o WriteOptions) error {
	src = filepath.Clean(src)
	dir, base := filepath.Split(src)
	if base == "" || base == ".." || base == "." || o.Name == "." {
		dir, base = src, "."
	}
	if dir == "" {
		dir = "."
	}
	open := func(dir string) (int, error) { return unix.Open(dir, asDirectory, 0) }
	switch {
	case o.Straight:
		open = openStraight
	case o.Open != nil:
		open = func(dir string) (int, error) { return handleOf(o.Open(dir)) }
	}
	parent, err := open(dir)
	if err == nil && o.Straight {
		err = notLink(parent, base)
	}
	if err != nil {
		return opening(src, err)
	}
	defer unix.Close(parent)
	name := o.Name
	if name == "" {
		name = filepath.Base(src)
	}
	a := &writer{tw: tar.NewWriter(w), follow: o.Follow, mayFollow: o.MayFollow, special: o.Special, links: map[fileID]string{}}
	err = a.addEntry(parent, base, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &errMissing{src}
	case errors.Is(err, errOdd):
		return fmt.Errorf("%s: %w", src, err)
	case err != nil:
		return fmt.Errorf("archive %s: %w", src, err)
	}
	return cmp.Or(a.tw.Close(), a.unread.summary())
}

// errOdd reports that the source itself cannot be archived.
var errOdd = errors.New("it is a device, a pipe or a socket; only files, directories and links are copied")

// errMissing reports that a path does not exist.
type errMissing struct{ path string }

func (m *errMissing) Error() string   { return m.path + " does not exist" }
func (m *errMissing) Is(e error) bool { return e == fs.ErrNotExist }

// unread counts the entries of a tree that could not be read.
type unread struct {
	first error
	n     int
}

func (u *unread) addError(err error) {
	u.first = cmp.Or(u.first, err)
	u.n++
}

func (u *unread) summary() error {
	switch u.n {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("all but one entry is copied, which cannot be read: %w", u.first)
	}
	return fmt.Errorf("all but %d entries are copied, which cannot be read, the first is %w", u.n, u.first)
}

// opening adds the name of the opened file to an error without one.
func opening(src string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &errMissing{src}
	}
	if _, named := errors.AsType[*fs.PathError](err); named {
		return err
	}
	return &fs.PathError{Op: "open", Path: src, Err: err}
}

func handleOf(root *os.Root, err error) (int, error) {
	if err != nil {
		return -1, err
	}
	defer root.Close()
	return dirHandle(root)
}

const asDirectory = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC

// openStraight opens a directory by a path without links in it, name by name.
func openStraight(dir string) (int, error) {
	at := "."
	if filepath.IsAbs(dir) {
		at = "/"
	}
	fd, err := unix.Open(at, asDirectory, 0)
	for name := range strings.SplitSeq(filepath.Clean(dir), "/") {
		if err != nil {
			return -1, err
		}
		if name == "" || name == "." {
			continue
		}
		var next int
		next, err = openDir(fd, name)
		_ = unix.Close(fd)
		fd = next
	}
	return fd, err
}

// notLink rejects a name of an open directory that is a link.
func notLink(dir int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		_ = unix.Close(dir)
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		_ = unix.Close(dir)
		return unix.ELOOP
	}
	return nil
}

// Stream passes Write's output to a reader while it is written. If both fail, it returns the
// writer's error, because the reader sees it as its own.
func Stream(src string, o WriteOptions, read func(io.Reader) error) error {
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := Write(w, src, o)
		_ = w.CloseWithError(err)
		written <- err
	}()
	err := read(r)
	_ = r.CloseWithError(io.ErrClosedPipe)
	if werr := <-written; werr != nil && !errors.Is(werr, io.ErrClosedPipe) {
		return werr
	}
	return err
}

type writer struct {
	tw     *tar.Writer
	follow bool
	// mayFollow is called before a link is followed.
	mayFollow func(link string) error
	// special includes anything other than a file, a directory or a link.
	special bool
	unread  unread
	links   map[fileID]string // files with several names, by their first
	above   []fileID          // the current directory and those around it, to notice circles of links
}

// addEntry archives one entry of an open directory.
func (a *writer) addEntry(parent int, base, name string) error {
	f, target, err := a.openEntry(parent, base)
	if odd := (*oddKind)(nil); errors.As(err, &odd) {
		return a.addOdd(odd, name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if f == nil {
		return a.tw.WriteHeader(&tar.Header{
			Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777, Format: tar.FormatPAX,
		})
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h, err := tar.FileInfoHeader(info, "")
	if err != nil {
		return err
	}
	h.Name, h.Uname, h.Gname, h.Format = name, "", "", tar.FormatPAX
	h.ModTime = info.ModTime().Truncate(time.Microsecond)
	h.AccessTime, h.ChangeTime = time.Time{}, time.Time{}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if info.IsDir() {
		h.Name += "/"
		return a.addDir(f, h, fileIDOf(&st), name)
	}
	return a.addFile(f, h, &st)
}

// openEntry opens a file or directory, or reads a symbolic link. It does not open another kind of
// file, or one that was swapped for something else meanwhile.
func (a *writer) openEntry(parent int, base string) (f *os.File, target string, err error) {
	how := unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	if a.follow {
		if err := a.followed(parent, base); err != nil {
			return nil, "", err
		}
		how &^= unix.O_NOFOLLOW
	}
	fd, err := unix.Openat(parent, base, how, 0)
	if err != nil {
		return nil, "", err
	}
	defer unix.Close(fd)
	var before, after unix.Stat_t
	if err := unix.Fstat(fd, &before); err != nil {
		return nil, "", err
	}
	switch before.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		b := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(fd, "", b)
		return nil, string(b[:max(n, 0)]), err
	case unix.S_IFREG, unix.S_IFDIR:
	default:
		return nil, "", &oddKind{before.Mode, before.Rdev}
	}
	how = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC
	if !a.follow {
		how |= unix.O_NOFOLLOW
	}
	rfd, err := unix.Openat(parent, base, how, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, "", errChanged
	}
	if err != nil {
		return nil, "", err
	}
	f = os.NewFile(uintptr(rfd), base)
	if err := unix.Fstat(rfd, &after); err != nil || fileIDOf(&before) != fileIDOf(&after) {
		f.Close()
		return nil, "", errChanged
	}
	return f, "", nil
}

// followed asks whether a link may be followed. Other entries need no answer.
func (a *writer) followed(parent int, base string) error {
	var st unix.Stat_t
	if a.mayFollow == nil || unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return nil
	}
	dir, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", parent))
	if err != nil {
		return err
	}
	return a.mayFollow(filepath.Join(dir, base))
}

// oddKind is the error for a device, a socket or a pipe, which is not opened.
type oddKind struct {
	mode   uint32
	device uint64
}

func (*oddKind) Error() string { return "neither a file nor a directory" }

// socketMark is the link target of a socket. Archives have no sockets, so a socket is written as
// a pipe with this target.
const socketMark = "socket"

// addOdd records a file that is not opened, or leaves it out.
func (a *writer) addOdd(odd *oddKind, name string) error {
	switch {
	case a.special:
	case len(a.above) == 0: // it is the source itself
		return errOdd
	default:
		return nil
	}
	h := &tar.Header{Typeflag: tar.TypeFifo, Name: name, Mode: int64(odd.mode & 0o7777), Format: tar.FormatPAX}
	switch odd.mode & unix.S_IFMT {
	case unix.S_IFSOCK:
		h.Linkname = socketMark
	case unix.S_IFCHR, unix.S_IFBLK:
		h.Typeflag = tar.TypeChar
		if odd.mode&unix.S_IFMT == unix.S_IFBLK {
			h.Typeflag = tar.TypeBlock
		}
		h.Devmajor, h.Devminor = int64(unix.Major(odd.device)), int64(unix.Minor(odd.device))
	}
	return a.tw.WriteHeader(h)
}

func (a *writer) addDir(f *os.File, h *tar.Header, self fileID, name string) error {
	if slices.Contains(a.above, self) {
		return fmt.Errorf("%s: its links lead in a circle", name)
	}
	a.above = append(a.above, self)
	defer func() { a.above = a.above[:len(a.above)-1] }()
	if err := a.tw.WriteHeader(h); err != nil {
		return err
	}
	entries, err := f.ReadDir(-1)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		err := a.addEntry(int(f.Fd()), e.Name(), path.Join(name, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it vanished while we looked
		}
		if errors.Is(err, fs.ErrPermission) {
			a.unread.addError(err)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addFile copies exactly as many bytes as the header promises.
func (a *writer) addFile(f *os.File, h *tar.Header, st *unix.Stat_t) error {
	if st.Nlink > 1 {
		if first, ok := a.links[fileIDOf(st)]; ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
			return a.tw.WriteHeader(h)
		}
		a.links[fileIDOf(st)] = h.Name
	}
	if err := a.tw.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.CopyN(a.tw, f, h.Size)
	if errors.Is(err, io.EOF) && n < h.Size {
		_, err = io.CopyN(a.tw, zeros{}, h.Size-n)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", h.Name, err)
	}
	return nil
}
