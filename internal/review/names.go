package review

import (
	"bytes"
	"errors"
	"fmt"
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

// maxRemembered is how many of the host's directories are read for that, those nearest to
// the top first. What is in others is not known.
const maxRemembered = 1 << 12

// Remember writes down which names the host has, unless that is done for this layer. It
// may take its time: what is mounted meanwhile shows the same names, and of directories
// that the host changes before they are read it is not claimed that all are known.
func (w Workspace) Remember() error { return w.remember(maxRemembered) }

func (w Workspace) remember(most int) error {
	rec, err := w.Layer.read()
	if err != nil {
		return err
	}
	if old, err := w.Layer.readNames(); err == nil && old.since == rec.Since {
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
	b := bytes.NewBuffer(strconv.AppendInt([]byte(namesHeader), rec.Since, 10))
	b.WriteByte(0)
	for queue := []string{"."}; len(queue) > 0 && most > 0; queue, most = queue[1:], most-1 {
		below := list(b, host, queue[0], rec.Since)
		queue = append(queue, below...)
	}
	return store.WriteFile(w.Layer.names(), b.Bytes())
}

// Of each directory the file has a letter and the path, of each name in it a letter and
// the name, and each ends with a zero byte.
const (
	namesHeader = "bothy names 1 "
	wholeList   = '='
	lateList    = '~' // the host changed it before it was read
	subdir      = 'd'
	otherName   = 'f'
)

// list writes down what is in a directory, and gives the directories among it. One that
// cannot be read is left out: it is not known what was in it.
func list(to *bytes.Buffer, top *dir, at string, since int64) (below []string) {
	f, err := top.open(at, asDirectory)
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
	entries, err := here.ReadDir(-1)
	if err != nil {
		return nil
	}
	var st unix.Stat_t
	state := byte(wholeList)
	if unix.Fstat(int(f.Fd()), &st) != nil || st.Ctim.Nano() >= since {
		state = lateList
	}
	put(to, state, at)
	for _, e := range entries {
		kind := byte(otherName)
		if e.IsDir() {
			kind = subdir
			below = append(below, path.Join(at, e.Name()))
		}
		put(to, kind, e.Name())
	}
	return below
}

func put(to *bytes.Buffer, kind byte, name string) {
	to.WriteByte(kind)
	to.WriteString(name)
	to.WriteByte(0)
}

// names are those that the host had when a layer began.
type names struct {
	since int64
	dirs  map[string]listing
}

type listing struct {
	late bool
	in   map[string]bool // whether it was a directory
}

func (l Layer) readNames() (*names, error) {
	data, err := os.ReadFile(l.names())
	if err != nil {
		return nil, err
	}
	damaged := fmt.Errorf("read %s: it is damaged", l.names())
	data, found := bytes.CutPrefix(data, []byte(namesHeader))
	since, data, ended := bytes.Cut(data, []byte{0})
	n := &names{dirs: map[string]listing{}}
	if n.since, err = strconv.ParseInt(string(since), 10, 64); !found || !ended || err != nil {
		return nil, damaged
	}
	var in map[string]bool
	for len(data) > 0 {
		line, rest, ended := bytes.Cut(data, []byte{0})
		if !ended || len(line) < 2 {
			return nil, damaged
		}
		switch name := string(line[1:]); line[0] {
		case wholeList, lateList:
			in = map[string]bool{}
			n.dirs[name] = listing{late: line[0] == lateList, in: in}
		case subdir, otherName:
			if in == nil {
				return nil, damaged
			}
			in[name] = line[0] == subdir
		default:
			return nil, damaged
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

// had is the same of the layer that is looked through; the names are read when the first
// is asked for.
func (l *look) had(p string) answer {
	if l.names == nil {
		n, err := l.Layer.readNames()
		if err != nil || n.since != l.record.Since {
			n = &names{} // all of it is unknown
		}
		l.names = n
	}
	return l.names.had(p)
}
