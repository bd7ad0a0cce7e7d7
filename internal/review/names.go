package review

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
)

// An overlay does not remember which names were below when the sandbox made its own file. The layer does
// not show whether the host deleted a name since or never had it. So Remember writes the names down when
// a layer begins, beside the record.

// Limits of the names that are written down, nearest to the top first. Other names of the host
// are unknown.
const (
	maxRemembered = 1 << 12  // directories that are read
	maxNames      = 1 << 20  // of those and of their entries
	maxNamesFile  = 64 << 20 // bytes
	maxState      = 32       // of the line about a directory itself, after its names
)

// Remember writes down which names the host has, once for each layer. It may take its time: the
// mounted overlay shows the same names. The list of a directory that the host changes before it
// is read is marked as incomplete.
func (w Workspace) Remember() error { return w.remember(maxRemembered, maxNames) }

func (w Workspace) remember(dirs, most int) error {
	rec, err := w.Layer.read()
	if err != nil {
		return err
	}
	if since, err := w.Layer.namesSince(); err == nil && since == rec.Since {
		return nil
	}
	host, err := openTop(w.Source)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // mounting it reports the error
	}
	if err != nil {
		return err
	}
	defer host.close()
	l := &lister{top: host, since: rec.Since, left: most}
	l.to.Write(strconv.AppendInt([]byte(namesHeader), rec.Since, 10))
	l.to.WriteByte(0)
	for queue := []string{"."}; len(queue) > 0 && dirs > 0 && l.left > 0; queue, dirs = queue[1:], dirs-1 {
		below := l.list(queue[0])
		queue = append(queue, below...)
	}
	return store.WriteFile(w.Layer.names(), l.to.Bytes())
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
	top   *dir
	since int64
	left  int // how many names there is room for
}

// list writes down the names in a directory, and returns its subdirectories. It leaves out a
// directory that it cannot read; its names are then unknown.
func (l *lister) list(at string) (below []string) {
	f, err := l.top.open(at, asDirectory)
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
	if !l.put(wholeList, at) {
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
			if !l.put(kind, e.Name()) {
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

// put writes a line, if there is room for it.
func (l *lister) put(kind byte, name string) bool {
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

// names are the names that the host had when a layer began.
type names struct {
	since int64
	dirs  map[string]listing
}

type listing struct {
	late  bool
	in    map[string]bool // whether it was a directory
	mode  uint32          // permissions; only if there is a number
	inode uint64
}

func (l Layer) readNames() (*names, error) {
	f, err := os.Open(l.names())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxNamesFile+1))
	if err != nil {
		return nil, err
	}
	n, err := parseNames(data, maxNames)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", l.names(), err)
	}
	return n, nil
}

// namesSince returns the time of the layer to which the names belong. It reads only the beginning
// of the file, so that a start does not read all of it.
func (l Layer) namesSince() (int64, error) {
	f, err := os.Open(l.names())
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
func parseNames(data []byte, most int) (_ *names, err error) {
	if len(data) > maxNamesFile {
		return nil, errors.New("it is too large")
	}
	n := &names{dirs: map[string]listing{}}
	if n.since, data, err = cutHeader(data); err != nil {
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
			n.dirs[name] = listing{late: line[0] == lateList, in: in}
		case subdir, otherName:
			if in == nil {
				return nil, errNames
			}
			in[name] = line[0] == subdir
		case stateOf:
			l := n.dirs[at]
			if _, err := fmt.Sscanf(name, "%o %d", &l.mode, &l.inode); err != nil || in == nil {
				return nil, errNames
			}
			n.dirs[at] = l
		default:
			return nil, errNames
		}
		data = rest
	}
	return n, nil
}

// answer says whether the host had a name.
type answer int

const (
	unknown answer = iota
	absent
	present
)

// had reports whether the host had a path when the layer began.
func (n *names) had(p string) answer {
	d := path.Dir(p)
	if l, ok := n.dirs[d]; ok {
		_, there := l.in[path.Base(p)]
		switch {
		case there:
			return present
		case !l.late:
			return absent
		}
		return unknown
	}
	if d == "." {
		return unknown
	}
	if up := n.had(d); up == absent || up == present && !n.dirs[path.Dir(d)].in[path.Base(d)] {
		return absent // its parent was missing or not a directory
	}
	return unknown
}

// had does the same for the layer of the walk.
func (l *look) had(p string) answer { return l.then().had(p) }

// then returns the layer's names, and reads them at the first call.
func (l *look) then() *names {
	if l.names == nil {
		n, err := l.Layer.readNames()
		if err != nil || n.since != l.record.Since {
			n = &names{} // all of it is unknown
		}
		l.names = n
	}
	return l.names
}

// was returns the state of a directory when the layer began; a number of zero means unknown.
func (l *look) was(p string) listing { return l.then().dirs[p] }
