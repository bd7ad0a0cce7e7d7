package sftp

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// useHandle carries out a request on an open file.
func (s *server) useHandle(kind byte, number uint32, h *handle, p *packet) (*answer, error) {
	switch kind {
	case pktClose:
		delete(s.open, number)
		return nil, h.f.Close()
	case pktRead:
		return h.readData(p)
	case pktWrite:
		return nil, h.writeData(p)
	case pktFstat:
		return h.answerStat()
	case pktFsetstat:
		attrs := p.attributes()
		if p.err != nil {
			return nil, errBadMessage
		}
		return nil, target{f: h.f}.setAll(attrs)
	}
	return h.readNames()
}

// Flags of a request to open a file.
const (
	openRead   = 1
	openWrite  = 2
	openAppend = 4
	openCreate = 8
	openTrunc  = 16
	openExcl   = 32
)

// openFile opens a regular file. Anything else could block all later requests.
func (s *server) openFile(p *packet) (*answer, error) {
	path, want, attrs := p.takePath(), p.takeUint32(), p.attributes()
	if p.err != nil {
		return nil, errBadMessage
	}
	flags := unix.O_NONBLOCK | unix.O_NOCTTY
	switch want & (openRead | openWrite) {
	case openRead | openWrite:
		flags |= os.O_RDWR
	case openWrite:
		flags |= os.O_WRONLY
	default:
		flags |= os.O_RDONLY
	}
	for _, o := range []struct {
		bit  uint32
		flag int
	}{{openAppend, os.O_APPEND}, {openCreate, os.O_CREATE}, {openTrunc, os.O_TRUNC}, {openExcl, os.O_EXCL}} {
		if want&o.bit != 0 {
			flags |= o.flag
		}
	}
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, attrs.modeOr(0o666))
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errors.New("not a regular file")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return s.addHandle(&handle{f: f, appends: want&openAppend != 0})
}

// openDir opens a directory.
func (s *server) openDir(p *packet) (*answer, error) {
	path := p.takePath()
	if p.err != nil {
		return nil, errBadMessage
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return s.addHandle(&handle{f: os.NewFile(uintptr(fd), path), dir: true})
}

func (h *handle) readData(p *packet) (*answer, error) {
	at, n := p.uint64(), p.takeUint32()
	if p.err != nil {
		return nil, errBadMessage
	}
	if h.dir {
		return nil, unix.EISDIR
	}
	if int64(at) < 0 {
		return nil, unix.EINVAL
	}
	buf := make([]byte, min(n, maxData))
	got, err := h.f.ReadAt(buf, int64(at))
	if got == 0 && err != nil {
		return nil, err
	}
	a := &answer{kind: pktData}
	a.addText(string(buf[:got]))
	return a, nil
}

func (h *handle) writeData(p *packet) error {
	at, data := p.uint64(), p.takeField()
	if p.err != nil {
		return errBadMessage
	}
	if int64(at) < 0 {
		return unix.EINVAL
	}
	if h.appends {
		_, err := h.f.Write(data)
		return err
	}
	_, err := h.f.WriteAt(data, int64(at))
	return err
}

func (h *handle) answerStat() (*answer, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(h.f.Fd()), &st); err != nil {
		return nil, err
	}
	return attributesOf(&st), nil
}

func attributesOf(st *unix.Stat_t) *answer {
	a := &answer{kind: pktAttrs}
	a.addAttributes(st)
	return a
}

// readNames returns some more names of a directory.
func (h *handle) readNames() (*answer, error) {
	if !h.dir {
		return nil, unix.ENOTDIR
	}
	names, err := h.f.Readdirnames(maxNames)
	if len(names) == 0 {
		if err == nil {
			err = io.EOF
		}
		return nil, err
	}
	a := &answer{kind: pktName}
	a.uint32(uint32(len(names)))
	now := time.Now()
	for _, name := range names {
		var st unix.Stat_t
		if err := unix.Fstatat(int(h.f.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil && !errors.Is(err, fs.ErrNotExist) {
			st = unix.Stat_t{}
		}
		a.addText(name)
		a.addText(longName(name, &st, now))
		a.addAttributes(&st)
	}
	return a, nil
}
