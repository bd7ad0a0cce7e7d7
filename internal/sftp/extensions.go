package sftp

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// extensions are OpenSSH's that this server has, each with its version.
var extensions = [...][2]string{
	{"posix-rename@openssh.com", "1"},
	{"statvfs@openssh.com", "2"},
	{"fstatvfs@openssh.com", "2"},
	{"hardlink@openssh.com", "1"},
	{"fsync@openssh.com", "1"},
	{"lsetstat@openssh.com", "1"},
	{"limits@openssh.com", "1"},
	{"expand-path@openssh.com", "1"},
}

// extend carries out an extension.
func (s *server) extend(p *packet) (*answer, error) {
	switch p.takeText() {
	case "posix-rename@openssh.com":
		return nil, onTwoPaths(p, unix.Rename)
	case "statvfs@openssh.com":
		return statFS(p)
	case "fstatvfs@openssh.com":
		return s.statFSOf(p)
	case "hardlink@openssh.com":
		return nil, onTwoPaths(p, unix.Link)
	case "fsync@openssh.com":
		return nil, s.syncFile(p)
	case "lsetstat@openssh.com":
		return nil, setPath(p, true)
	case "limits@openssh.com":
		return limits(), nil
	case "expand-path@openssh.com":
		return expand(p)
	}
	return nil, errUnsupported
}

func statFS(p *packet) (*answer, error) {
	path := p.takePath()
	if p.err != nil {
		return nil, errBadMessage
	}
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return nil, err
	}
	return spaceOf(&st), nil
}

func (s *server) statFSOf(p *packet) (*answer, error) {
	h := s.open[p.handle()]
	if h == nil {
		return nil, errNoHandle
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(h.f.Fd()), &st); err != nil {
		return nil, err
	}
	return spaceOf(&st), nil
}

// spaceOf answers with the space of a file system.
func spaceOf(st *unix.Statfs_t) *answer {
	const readOnly, noSetuid = 1, 2
	flags := uint64(0)
	if st.Flags&unix.ST_RDONLY != 0 {
		flags |= readOnly
	}
	if st.Flags&unix.ST_NOSUID != 0 {
		flags |= noSetuid
	}
	a := &answer{kind: pktReply}
	for _, n := range []uint64{uint64(st.Bsize), uint64(st.Frsize), st.Blocks, st.Bfree, st.Bavail, st.Files, st.Ffree, st.Ffree, 0, flags, uint64(st.Namelen)} {
		a.uint64(n)
	}
	return a
}

func (s *server) syncFile(p *packet) error {
	h := s.open[p.handle()]
	if h == nil {
		return errNoHandle
	}
	return h.f.Sync()
}

// limits answers with the bounds of a conversation.
func limits() *answer {
	a := &answer{kind: pktReply}
	for _, n := range []uint64{maxPacket, maxData, maxData, maxHandles} {
		a.uint64(n)
	}
	return a
}

// expand is resolve for a path that may begin with a tilde.
func expand(p *packet) (*answer, error) {
	path := p.takePath()
	switch {
	case path == "~":
		path = os.Getenv("HOME")
	case strings.HasPrefix(path, "~/"):
		path = os.Getenv("HOME") + path[1:]
	}
	return resolve(path, p)
}
