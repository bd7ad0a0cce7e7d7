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

	"github.com/bothy-dev/bothy/spec"
)

// Source is a directory to be kept.
type Source struct {
	Name string
	Dir  string
	// Without are paths below that are neither kept nor put back.
	Without []string
	// Gone tells which paths, none of a directory, count as not there while it is kept.
	// Nil: none.
	Gone func() ([]string, error)
	// Before is what it held just now, when it is put back: what is not in it as it is
	// then is not removed. Nil: all may be.
	Before *Tree
	// Shared says that it is a directory of the host's, to which others may write, in
	// which not all may be the caller's, and in which other file systems are mounted.
	Shared bool
}

// maxDepth bounds the directories that are open at a time: how deep a tree is, is
// for whoever is inside to say.
const maxDepth = 400

// freshTime is more than the steps of the clock that files are dated by; coarseTime of
// that of file systems that know whole seconds, or two.
const (
	freshTime  = 20 * time.Millisecond
	coarseTime = 3 * time.Second
)

// maxBytes bounds the memory that all files take, of which whoever is inside says how many
// there are: about nameBytes each (as it is noted, known from before, found by its path, and
// written down), and what is of no fixed size.
const (
	maxBytes  = 4 << 30
	nameBytes = 1 << 10
)

// maxPath is the longest path that is kept: no system call takes a longer one.
const maxPath = 4096

// taker walks through trees of which somebody inside a sandbox may have made
// anything, and keeps what it has not kept yet.
type taker struct {
	pack  *pack
	known map[string]map[string]*Entry // by tree and path, of files that are kept
	now   int64                        // when the walk began, by the clock of files

	tree   Tree
	source Source
	device uint64 // of the tree
	bytes  int
	gone   map[string]bool
	links  map[fileID]string // files with several names, by their first
	left   left
}

// left is how many names could not be kept, and how many of them are of the host's.
type left struct{ all, shared int }

type fileID struct{ device, inode uint64 }

func idOf(st *unix.Stat_t) fileID {
	return fileID{uint64(st.Dev), st.Ino} //nolint:unconvert // its type differs between machines
}

// take walks through the sources. What is kept of files that are as they were
// known is not kept again.
func take(sources []Source, known []Tree, p *pack) ([]Tree, left, error) {
	t := &taker{pack: p, known: index(known)}
	var trees []Tree
	for _, s := range sources {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now); err != nil {
			return nil, left{}, fmt.Errorf("read the clock: %w", err)
		}
		t.tree, t.source, t.links, t.now = Tree{Name: s.Name}, s, map[fileID]string{}, now.Nano()
		if n := len(find(known, s.Name).Entries); n > 0 { // about as many as there were: a list that grows is copied while all stand still
			t.tree.Entries = make([]Entry, 0, n+n/16+16)
		}
		if err := t.leaveOut(s); err != nil {
			return nil, left{}, fmt.Errorf("keep %s: %w", s.Dir, err)
		}
		if err := t.top(); err != nil {
			return nil, left{}, fmt.Errorf("keep %s: %w", s.Dir, err)
		}
		trees = append(trees, t.tree)
	}
	return trees, t.left, nil
}

// leaveOut learns what counts as not there.
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

// index finds files by their paths.
func index(trees []Tree) map[string]map[string]*Entry {
	all := map[string]map[string]*Entry{}
	for _, t := range trees {
		files := make(map[string]*Entry, len(t.Entries))
		for i := range t.Entries {
			if e := &t.Entries[i]; e.hasData() {
				files[e.Path] = e
			}
		}
		all[t.Name] = files
	}
	return all
}

// top begins with a directory, in whose path no link may stand. One that is not there
// holds nothing.
func (t *taker) top() error {
	f, err := t.source.open()
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
	t.device = e.seen.Device
	e.Attrs = attributes(f)
	if err := t.note(e); err != nil {
		return err
	}
	return t.within(dir{f, e.isShut()}, "", 0)
}

// open opens the directory. One of the host's may have been moved away.
func (s *Source) open() (*os.File, error) {
	f, err := openTop(s.Dir)
	if s.Shared {
		err = spec.WorkspaceError(err)
	}
	return f, err
}

// Reach looks whether the directory is there, or can be made.
func (s *Source) Reach() error {
	f, err := s.open()
	if errors.Is(err, fs.ErrNotExist) && !s.Shared {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// openTop opens a directory of which programs inside may have taken its owner the
// permission.
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

// note keeps an entry.
func (t *taker) note(e Entry) error {
	t.bytes += len(e.Path) + len(e.Target) + len(e.Same) + nameBytes
	for _, a := range e.Attrs {
		t.bytes += len(a.Name) + len(a.Value)
	}
	t.bytes += 16 * len(e.Content.Pieces)
	if t.bytes > maxBytes {
		return spec.Errorf(spec.ErrConflict, "to keep its names alone would take more than %d MiB of memory", maxBytes>>20).WithHint("remove what is not needed from inside, such as caches")
	}
	t.tree.Entries = append(t.tree.Entries, e)
	return nil
}

const asDirectory = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// within keeps what a directory holds.
func (t *taker) within(d dir, at string, depth int) error {
	names, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		err := t.add(d, name, path.Join(at, name), depth)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it vanished while we looked
		}
		if errors.Is(err, unix.EACCES) { // nobody may look at it
			err = t.leave(Entry{Path: path.Join(at, name)})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// add keeps one name of an open directory.
func (t *taker) add(d dir, name, at string, depth int) error {
	var st unix.Stat_t
	err := d.look(func() error { return unix.Fstatat(int(d.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	if err != nil {
		return err
	}
	if t.gone[at] {
		return nil
	}
	e := entryOf(at, &st)
	if len(at) > maxPath {
		return t.leave(e)
	}
	if slices.Contains(t.source.Without, at) || e.kind() == unix.S_IFSOCK { // nobody listens at it afterwards
		e.Left = true
		return t.note(e)
	}
	switch e.kind() {
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
			return t.leave(e)
		}
	default:
		return t.leave(e)
	}
	if err != nil {
		return err
	}
	return t.note(e)
}

// leave notes what cannot be kept.
func (t *taker) leave(e Entry) error {
	e.Left = true
	t.left.all++
	if t.source.Shared {
		t.left.shared++
	}
	return t.note(e)
}

func (t *taker) addDir(d dir, name string, e Entry, depth int) error {
	if depth >= maxDepth {
		return t.leave(e)
	}
	f, err := d.openAnyway(name, asDirectory)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return t.leave(e)
	}
	if err != nil {
		return gone(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if idOf(&st).device != t.device {
		return t.leave(e) // another file system is mounted there
	}
	e.Attrs = attributes(f)
	if err := t.note(e); err != nil {
		return err
	}
	return t.within(dir{f, e.isShut()}, e.Path, depth+1)
}

// addFile keeps a file, unless it is kept already.
func (t *taker) addFile(d dir, name string, e Entry, st *unix.Stat_t) error {
	if st.Nlink > 1 {
		if first, ok := t.links[idOf(st)]; ok {
			e.Same = first
			return t.note(e)
		}
	}
	if k := t.known[t.tree.Name][e.Path]; k != nil && k.unchanged(st) {
		e.Attrs, e.Content = k.Attrs, k.Content
		if !e.Content.Summed && len(e.Content.Pieces) > 0 {
			if err := t.sumKept(d, name, &e); err != nil {
				return fmt.Errorf("%q: %w", e.Path, err)
			}
		}
	} else {
		f, err := d.openAnyway(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC)
		if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
			return t.leave(e)
		}
		if err != nil {
			return gone(err)
		}
		defer f.Close()
		if err := t.keep(f, &e); err != nil {
			return fmt.Errorf("%q: %w", e.Path, err)
		}
	}
	if st.Nlink > 1 {
		t.links[idOf(st)] = e.Path
	}
	return t.note(e)
}

// keep copies a file into the pack. What it is now is what the file is said to have
// been, whatever it was when its name was looked up.
func (t *taker) keep(f *os.File, e *Entry) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fs.ErrNotExist
	}
	found := e.seen
	*e = entryOf(e.Path, &st)
	if err := t.date(e, found); err != nil {
		return err
	}
	// What a program writes through memory changes no time until the page is on its
	// way to the disk. From then on it does, once more.
	_ = unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE)
	e.Attrs = attributes(f)
	var err error
	e.Content, err = t.pack.add(f, st.Size)
	return err
}

// settleFrom is the size of files of which a copy takes longer than a step of the clock
// that they are dated by.
const settleFrom = 4 << 20

// date notes whether a file may change unnoticed from now on. A large one that was changed
// since it was found, if only by us, who had to give ourselves the permission to open it,
// is not touched before the clock has gone on: it would be copied again every time.
func (t *taker) date(e *Entry, found seen) (err error) {
	age, coarse := freshTime, e.seen.Changed%int64(time.Second) == 0
	if coarse {
		age = coarseTime
	}
	fresh := e.seen.Changed > t.now-int64(age)
	if fresh && !coarse && e.Size >= settleFrom && e.seen != found {
		passed, err := passes(e.seen.Changed, clockTime)
		if err != nil {
			return err
		}
		fresh = !passed
	}
	e.seen.fresh = fresh
	return nil
}

func entryOf(at string, st *unix.Stat_t) Entry {
	e := Entry{
		Path: at, Mode: st.Mode, UID: st.Uid, GID: st.Gid, Size: st.Size, Modified: st.Mtim.Nano(),
		seen: seenOf(st),
	}
	if !e.isFile() {
		e.Size = 0
	}
	return e
}

// gone is what was swapped for something else meanwhile.
func gone(err error) error {
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
