package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
	"github.com/bothy-dev/bothy/internal/checkpoint/packfile"
	"github.com/bothy-dev/bothy/spec"
)

// Source is a directory to keep.
type Source struct {
	Name string
	Dir  string
	// Without are paths below that are neither kept nor put back.
	Without []string
	// Gone returns paths, none of a directory, that count as missing while the source is kept.
	// Nil: none.
	Gone func() ([]string, error)
	// Before is the directory's content just before a restore. The restore does not remove a file
	// that is not in Before, or has changed since. Nil: it may remove all files.
	Before *manifest.Tree
	// Shared says that it is a directory of the host. Other programs may write to it, the
	// caller may not own all of it, and other file systems may be mounted in it.
	Shared bool
}

// maxDepth bounds the directories that are open at a time, because the sandbox controls the depth
// of a tree.
const maxDepth = 400

// freshTime is longer than a step of the clock that dates files. coarseTime is longer than a step
// on file systems that only store whole seconds, or two.
const (
	freshTime  = 20 * time.Millisecond
	coarseTime = 3 * time.Second
)

// maxBytes bounds the memory for all files, because the sandbox controls their number. Each takes
// about nameBytes (in its entry, its known earlier entry, the index by path, and the written
// list), plus its parts of variable size.
const (
	maxBytes  = 4 << 30
	nameBytes = 1 << 10
)

// maxPath is the longest path that is kept: no system call takes a longer one.
const maxPath = 4096

// taker walks through trees in which a sandbox may have made anything, and keeps files that it
// has not kept yet.
type taker struct {
	pack  *packfile.Writer
	known map[string]map[string]*manifest.Entry // by tree and path, of files that are kept
	now   int64                                 // when the walk began, by the clock of files

	tree   manifest.Tree
	source Source
	device uint64 // of the tree
	bytes  int
	gone   map[string]bool
	links  map[manifest.FileID]string // files with several names, by their first
	left   left
}

// left counts the names that could not be kept, and how many of them are the host's.
type left struct{ all, shared int }

// takeTrees walks through the sources. It does not copy files again that are as they were known.
func takeTrees(sources []Source, known []manifest.Tree, p *packfile.Writer) ([]manifest.Tree, left, error) {
	t := &taker{pack: p, known: indexFiles(known)}
	var trees []manifest.Tree
	for _, s := range sources {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now); err != nil {
			return nil, left{}, fmt.Errorf("read the clock: %w", err)
		}
		t.tree, t.source, t.links, t.now = manifest.Tree{Name: s.Name}, s, map[manifest.FileID]string{}, now.Nano()
		if n := len(manifest.Find(known, s.Name).Entries); n > 0 { // growing the list would copy it during the pause
			t.tree.Entries = make([]manifest.Entry, 0, n+n/16+16)
		}
		if err := t.leaveOut(s); err != nil {
			return nil, left{}, fmt.Errorf("keep %s: %w", s.Dir, err)
		}
		if err := t.takeTop(); err != nil {
			return nil, left{}, fmt.Errorf("keep %s: %w", s.Dir, err)
		}
		trees = append(trees, t.tree)
	}
	return trees, t.left, nil
}

// leaveOut gets the paths that count as missing.
func (t *taker) leaveOut(s Source) error {
	t.gone = nil
	if s.Gone == nil {
		return nil
	}
	paths, err := s.Gone()
	if err != nil || len(paths) == 0 {
		return err
	}
	t.gone = make(map[string]bool, len(paths))
	for _, p := range paths {
		t.gone[p] = true
	}
	return nil
}

// indexFiles finds files by their paths.
func indexFiles(trees []manifest.Tree) map[string]map[string]*manifest.Entry {
	all := map[string]map[string]*manifest.Entry{}
	for _, t := range trees {
		files := make(map[string]*manifest.Entry, len(t.Entries))
		for i := range t.Entries {
			if e := &t.Entries[i]; e.HasData() {
				files[e.Path] = e
			}
		}
		all[t.Name] = files
	}
	return all
}

// takeTop begins with a directory, whose path must not contain a link. A missing directory is empty.
func (t *taker) takeTop() error {
	f, err := t.source.openDir()
	if errors.Is(err, fs.ErrNotExist) && !t.source.Shared {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	e := entryOf("", &st)
	t.device = e.Seen.Device
	e.Attrs = attributes(f)
	if err := t.noteEntry(e); err != nil {
		return err
	}
	return t.within(dir{f, isShut(&e)}, "", 0)
}

// openDir opens the directory. A directory of the host may have been moved away.
func (s *Source) openDir() (*os.File, error) {
	f, err := openTop(s.Dir)
	if s.Shared {
		err = spec.WorkspaceError(err)
	}
	return f, err
}

// Reach checks that the directory exists, or can be made.
func (s *Source) Reach() error {
	f, err := s.openDir()
	if errors.Is(err, fs.ErrNotExist) && !s.Shared {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// openTop opens a directory, even if a program in the sandbox removed its owner's permission.
func openTop(name string) (*os.File, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	pin := os.NewFile(uintptr(fd), name)
	defer pin.Close()
	d, err := openIn(pin, ".", asDirectory)
	if errors.Is(err, unix.EACCES) {
		return openPinned(fd, asDirectory)
	}
	return d, err
}

// noteEntry adds an entry to the tree.
func (t *taker) noteEntry(e manifest.Entry) error {
	t.bytes += len(e.Path) + len(e.Target) + len(e.Same) + nameBytes
	for _, a := range e.Attrs {
		t.bytes += len(a.Name) + len(a.Value)
	}
	t.bytes += 16 * len(e.Content.Pieces)
	if t.bytes > maxBytes {
		return spec.Errorf(spec.ErrConflict, "the names alone would take more than %d MiB of memory", maxBytes>>20).WithHint("remove files that are not needed, such as caches, inside")
	}
	t.tree.Entries = append(t.tree.Entries, e)
	return nil
}

const asDirectory = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// within keeps the contents of a directory.
func (t *taker) within(d dir, at string, depth int) error {
	names, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		err := t.addName(d, name, path.Join(at, name), depth)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it vanished while we looked
		}
		if errors.Is(err, unix.EACCES) { // no user may read it
			err = t.leaveOutName(manifest.Entry{Path: path.Join(at, name)})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addName keeps one name of an open directory.
func (t *taker) addName(d dir, name, at string, depth int) error {
	var st unix.Stat_t
	err := d.lookUp(func() error { return unix.Fstatat(int(d.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	if err != nil {
		return err
	}
	if t.gone[at] {
		return nil
	}
	e := entryOf(at, &st)
	if len(at) > maxPath {
		return t.leaveOutName(e)
	}
	if slices.Contains(t.source.Without, at) || e.Kind() == unix.S_IFSOCK { // a socket loses its listener
		e.Left = true
		return t.noteEntry(e)
	}
	switch e.Kind() {
	case unix.S_IFDIR:
		return t.addDir(d, name, e, depth)
	case unix.S_IFREG:
		return t.addFile(d, name, e, &st)
	case unix.S_IFLNK:
		e.Target, err = d.readlink(name)
	case unix.S_IFIFO:
		e.Attrs, err = d.attributes(name)
	case unix.S_IFCHR: // the mark of a deletion in an overlay's layer
		if st.Rdev != 0 || t.source.Shared {
			return t.leaveOutName(e)
		}
	default:
		return t.leaveOutName(e)
	}
	if err != nil {
		return err
	}
	return t.noteEntry(e)
}

// leaveOutName notes a name that cannot be kept.
func (t *taker) leaveOutName(e manifest.Entry) error {
	e.Left = true
	t.left.all++
	if t.source.Shared {
		t.left.shared++
	}
	return t.noteEntry(e)
}

func (t *taker) addDir(d dir, name string, e manifest.Entry, depth int) error {
	if depth >= maxDepth {
		return t.leaveOutName(e)
	}
	f, err := d.openAnyway(name, asDirectory)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return t.leaveOutName(e)
	}
	if err != nil {
		return asNotExist(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if manifest.IDOf(&st).Device != t.device {
		return t.leaveOutName(e) // another file system is mounted there
	}
	e.Attrs = attributes(f)
	if err := t.noteEntry(e); err != nil {
		return err
	}
	return t.within(dir{f, isShut(&e)}, e.Path, depth+1)
}

// addFile keeps a file, unless it is kept already.
func (t *taker) addFile(d dir, name string, e manifest.Entry, st *unix.Stat_t) error {
	if st.Nlink > 1 {
		if first, ok := t.links[manifest.IDOf(st)]; ok {
			e.Same = first
			return t.noteEntry(e)
		}
	}
	if k := t.known[t.tree.Name][e.Path]; k != nil && k.IsUnchanged(st) {
		e.Attrs, e.Content = k.Attrs, k.Content
		if !e.Content.Summed && len(e.Content.Pieces) > 0 {
			if err := t.sumKept(d, name, &e); err != nil {
				return fmt.Errorf("%q: %w", e.Path, err)
			}
		}
	} else {
		f, err := d.openAnyway(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC)
		if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
			return t.leaveOutName(e)
		}
		if err != nil {
			return asNotExist(err)
		}
		defer f.Close()
		if err := t.keepFile(f, &e); err != nil {
			return fmt.Errorf("%q: %w", e.Path, err)
		}
	}
	if st.Nlink > 1 {
		t.links[manifest.IDOf(st)] = e.Path
	}
	return t.noteEntry(e)
}

// keepFile copies a file into the pack. Its entry describes the file as it is now, even if it
// differed when its name was looked up.
func (t *taker) keepFile(f *os.File, e *manifest.Entry) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fs.ErrNotExist
	}
	found := e.Seen
	*e = entryOf(e.Path, &st)
	if err := t.noteFreshness(e, found); err != nil {
		return err
	}
	// A write through a memory map does not change the file's times until the page is on its way
	// to the disk. From then on, the next write changes them once more.
	_ = unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE)
	e.Attrs = attributes(f)
	var err error
	e.Content, err = t.pack.Add(f, st.Size)
	return err
}

// settleFrom is the size from which the copy of a file takes longer than a step of the clock that
// dates it.
const settleFrom = 4 << 20

// noteFreshness notes whether a file may change unnoticed from now on. A large file that changed since it
// was found is not touched before the clock has moved on; otherwise it would be copied again
// every time. Such a change may be our own, to give ourselves the permission to open it.
func (t *taker) noteFreshness(e *manifest.Entry, found manifest.Seen) (err error) {
	age, coarse := freshTime, e.Seen.Changed%int64(time.Second) == 0
	if coarse {
		age = coarseTime
	}
	fresh := e.Seen.Changed > t.now-int64(age)
	if fresh && !coarse && e.Size >= settleFrom && e.Seen != found {
		passed, err := passes(e.Seen.Changed, clockTime)
		if err != nil {
			return err
		}
		fresh = !passed
	}
	e.Seen.Fresh = fresh
	return nil
}

func entryOf(at string, st *unix.Stat_t) manifest.Entry {
	e := manifest.Entry{
		Path: at, Mode: st.Mode, UID: st.Uid, GID: st.Gid, Size: st.Size, Modified: st.Mtim.Nano(),
		Seen: manifest.SeenOf(st),
	}
	if !e.IsFile() {
		e.Size = 0
	}
	return e
}

// asNotExist turns the error for a file that was swapped meanwhile into fs.ErrNotExist.
func asNotExist(err error) error {
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENXIO) {
		return fs.ErrNotExist
	}
	return err
}

// openIn opens a name of an open directory.
func openIn(d *os.File, name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(d.Fd()), name, flags, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func readlink(d *os.File, name string) (string, error) {
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(d.Fd()), name, b)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(b[:n]), nil
}

// sumKept sums a file whose content an older version kept without a sum. The file has not
// changed since, so its own data is what the pack must hold; the pack may be damaged already.
func (t *taker) sumKept(d dir, name string, e *manifest.Entry) error {
	f, err := d.openAnyway(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return nil // it stays as it was
	}
	if err != nil {
		return asNotExist(err)
	}
	defer f.Close()
	sum, err := t.pack.SumPieces(f, e.Content.Pieces)
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstat(int(f.Fd()), &st)
	}
	if err != nil || !e.IsUnchanged(&st) { // a program changes it just now
		return t.keepFile(f, e)
	}
	e.Content.Sum, e.Content.Summed = sum, true
	return nil
}
