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

// An overlay does not remember which names lay below when the inside made a file of its
// own at one: whether the host deleted it since, or never had it, cannot be seen in the
// layer. So the names are written down when it begins, beside the record.

// How much is written down, that nearest to the top first. What the host had besides is not
// known.
const (
	maxRemembered = 1 << 12  // directories that are read
	maxNames      = 1 << 20  // of those and of what is in them
	maxNamesFile  = 64 << 20 // bytes
	maxState      = 32       // of the line about a directory itself, behind its names
)

// Remember writes down which names the host has, unless that is done for this layer. It
// may take its time: what is mounted meanwhile shows the same names, and of directories
// that the host changes before they are read it is not claimed that all are known.
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
		return nil // whoever mounts it says so
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

// Of each directory the file has a letter and the path, of each name in it a letter and
// the name, then, if the host had not changed it before it was read, its mode and number, and
// each ends with a zero byte.
const (
	namesHeader = "bothy names 1 "
	wholeList   = '='
	lateList    = '~' // there may have been more: the host changed it before it was read, or it is too long
	subdir      = 'd'
	otherName   = 'f'
	stateOf     = 'm' // octal, and decimal
)

// lister writes down what is in directories.
type lister struct {
	to    bytes.Buffer
	top   *dir
	since int64
	left  int // how many names there is room for
}

// list writes down what is in a directory, and gives the directories among it. One that
// cannot be read is left out: it is not known what was in it.
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
	// Where the file system does not tell what a name is, it is looked at by this path.
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

// entries writes down the names in a directory. It is not the whole of them if there is no
// room for all.
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

// names are those that the host had when a layer began.
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

// namesSince tells of which layer the names are. It is the beginning of the file, so that a
// start does not read all of it.
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

// cutHeader gives of which layer names are, and what comes behind that.
func cutHeader(data []byte) (since int64, rest []byte, err error) {
	data, found := bytes.CutPrefix(data, []byte(namesHeader))
	text, rest, ended := bytes.Cut(data, []byte{0})
	since, err = strconv.ParseInt(string(text), 10, 64)
	if !found || !ended || err != nil {
		return 0, nil, errNames
	}
	return since, rest, nil
}

// parseNames reads what Remember wrote, of at most so many names.
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

// answer is what is known of a name.
type answer int

const (
	unknown answer = iota
	absent
	present
)

// had tells whether the host had a path when the layer began.
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
		return absent // what it would lie in was not there, or was no directory
	}
	return unknown
}

// had is the same of the layer that is looked through.
func (l *look) had(p string) answer { return l.then().had(p) }

// then are the names of the layer, which are read when the first is asked for.
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

// was is the state of a directory when the layer began; that of a number of zero is not known.
func (l *look) was(p string) listing { return l.then().dirs[p] }
