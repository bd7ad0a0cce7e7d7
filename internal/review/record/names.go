package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/store"
)

// An overlay does not remember which names were below when the sandbox made its own file. The layer does
// not show whether the host deleted a name since or never had it. So Remember writes the names down when
// a layer begins, beside the record.

// Limits of the names that are written down, nearest to the top first. Other names of the host
// are unknown.
const (
	MaxDirs      = 1 << 12  // directories that are read
	MaxNames     = 1 << 20  // of those and of their entries
	maxNamesFile = 64 << 20 // bytes
	maxState     = 32       // of the line about a directory itself, after its names
)

// Remembers reports whether the names of a record's layer were written down.
func (l Layer) Remembers(r *Record) bool {
	since, err := l.namesSince()
	return err == nil && since == r.Since
}

// Remember writes down the names in at most so many directories of the host, and at most so many names.
// The list of a directory that the host changes before it is read is marked as incomplete.
func (l Layer) Remember(r *Record, host *beneath.Dir, dirs, most int) error {
	n := &lister{top: host, since: r.Since, left: most}
	n.to.Write(strconv.AppendInt([]byte(namesHeader), r.Since, 10))
	n.to.WriteByte(0)
	for queue := []string{"."}; len(queue) > 0 && dirs > 0 && n.left > 0; queue, dirs = queue[1:], dirs-1 {
		below := n.listDir(queue[0])
		queue = append(queue, below...)
	}
	return store.WriteFile(l.NamesFile(), n.to.Bytes())
}

// For each directory the file has a letter and the path. For each name in it, it has a letter and
// the name, then its mode and number, unless the host had changed it before it was read. Each of
// these ends with a zero byte.
const (
	namesHeader = "bothy names 1 "
	wholeList   = '='
	lateList    = '~' // there may have been more: the host changed it before it was read, or it is too long
	subdir      = 'd'
	otherName   = 'f'
	stateOf     = 'm' // octal, and decimal
)

// lister writes down the names in directories.
type lister struct {
	to    bytes.Buffer
	top   *beneath.Dir
	since int64
	left  int // how many names there is room for
}

// listDir writes down the names in a directory, and returns its subdirectories. It leaves out a
// directory that it cannot read; its names are then unknown.
func (l *lister) listDir(at string) (below []string) {
	f, err := l.top.Open(at, beneath.AsDirectory)
	if err != nil {
		return nil
	}
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	// If the file system does not report the kind of a name, ReadDir looks at it by this path.
	here := os.NewFile(uintptr(fd), fmt.Sprintf("/proc/self/fd/%d", fd))
	defer here.Close()
	start := l.to.Len()
	if !l.putLine(wholeList, at) {
		return nil
	}
	below, whole, err := l.entries(here, at)
	if err != nil {
		l.to.Truncate(start)
		return nil
	}
	var st unix.Stat_t
	switch err := unix.Fstat(int(f.Fd()), &st); {
	case err != nil || st.Ctim.Nano() >= l.since:
		l.to.Bytes()[start] = lateList
	case !whole:
		l.to.Bytes()[start] = lateList
		fallthrough
	default:
		fmt.Fprintf(&l.to, "%c%o %d\x00", stateOf, st.Mode&0o777, st.Ino)
	}
	return below
}

// entries writes down the names in a directory. whole is false if there was not enough room for
// all of them.
func (l *lister) entries(d *os.File, at string) (below []string, whole bool, err error) {
	const atOnce = 1 << 10
	for {
		some, err := d.ReadDir(atOnce)
		for _, e := range some {
			kind := byte(otherName)
			if e.IsDir() {
				kind = subdir
				below = append(below, path.Join(at, e.Name()))
			}
			if !l.putLine(kind, e.Name()) {
				return below, false, nil
			}
		}
		if errors.Is(err, io.EOF) {
			return below, true, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
}

// putLine writes a line, if there is room for it.
func (l *lister) putLine(kind byte, name string) bool {
	if l.left == 0 || l.to.Len()+len(name)+2+maxState > maxNamesFile {
		l.left = 0
		return false
	}
	l.left--
	l.to.WriteByte(kind)
	l.to.WriteString(name)
	l.to.WriteByte(0)
	return true
}

// Names are the names that the host had when a layer began.
type Names struct {
	Since int64
	Dirs  map[string]Listing
}

type Listing struct {
	late  bool
	Kinds map[string]bool // whether it was a directory
	Mode  uint32          // permissions; only if there is a number
	Inode uint64
}

func (l Layer) ReadNames() (*Names, error) {
	f, err := os.Open(l.NamesFile())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxNamesFile+1))
	if err != nil {
		return nil, err
	}
	n, err := parseNames(data, MaxNames)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", l.NamesFile(), err)
	}
	return n, nil
}

// namesSince returns the time of the layer to which the names belong. It reads only the beginning
// of the file, so that a start does not read all of it.
func (l Layer) namesSince() (int64, error) {
	f, err := os.Open(l.NamesFile())
	if err != nil {
		return 0, err
	}
	defer f.Close()
	const digits = 20 // of a number of 64 bits, with a sign
	head, err := io.ReadAll(io.LimitReader(f, int64(len(namesHeader)+digits+1)))
	if err != nil {
		return 0, err
	}
	since, _, err := cutHeader(head)
	return since, err
}

var errNames = errors.New("it is damaged")

// cutHeader returns the time of the layer that the names belong to, and the rest of the data.
func cutHeader(data []byte) (since int64, rest []byte, err error) {
	data, found := bytes.CutPrefix(data, []byte(namesHeader))
	text, rest, ended := bytes.Cut(data, []byte{0})
	since, err = strconv.ParseInt(string(text), 10, 64)
	if !found || !ended || err != nil {
		return 0, nil, errNames
	}
	return since, rest, nil
}

// parseNames reads the output of Remember, of at most so many names.
func parseNames(data []byte, most int) (_ *Names, err error) {
	if len(data) > maxNamesFile {
		return nil, errors.New("it is too large")
	}
	n := &Names{Dirs: map[string]Listing{}}
	if n.Since, data, err = cutHeader(data); err != nil {
		return nil, err
	}
	var in map[string]bool
	var at string
	for len(data) > 0 {
		line, rest, ended := bytes.Cut(data, []byte{0})
		if !ended || len(line) < 2 {
			return nil, errNames
		}
		if line[0] != stateOf {
			if most == 0 {
				return nil, errors.New("it has too many names")
			}
			most--
		}
		switch name := string(line[1:]); line[0] {
		case wholeList, lateList:
			in, at = map[string]bool{}, name
			n.Dirs[name] = Listing{late: line[0] == lateList, Kinds: in}
		case subdir, otherName:
			if in == nil {
				return nil, errNames
			}
			in[name] = line[0] == subdir
		case stateOf:
			l := n.Dirs[at]
			if _, err := fmt.Sscanf(name, "%o %d", &l.Mode, &l.Inode); err != nil || in == nil {
				return nil, errNames
			}
			n.Dirs[at] = l
		default:
			return nil, errNames
		}
		data = rest
	}
	return n, nil
}

// Answer says whether the host had a name.
type Answer int

const (
	Unknown Answer = iota
	Absent
	Present
)

// Had reports whether the host had a path when the layer began.
func (n *Names) Had(p string) Answer {
	d := path.Dir(p)
	if l, ok := n.Dirs[d]; ok {
		_, there := l.Kinds[path.Base(p)]
		switch {
		case there:
			return Present
		case !l.late:
			return Absent
		}
		return Unknown
	}
	if d == "." {
		return Unknown
	}
	if up := n.Had(d); up == Absent || up == Present && !n.Dirs[path.Dir(d)].Kinds[path.Base(d)] {
		return Absent // its parent was missing or not a directory
	}
	return Unknown
}
