package sftp

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Flags that say which attributes follow.
const (
	hasSize     = 1
	hasOwner    = 2
	hasMode     = 4
	hasTimes    = 8
	hasExtended = 1 << 31
)

// maxExtended bounds the extended attributes of a request, which are skipped.
const maxExtended = 64

// attributes are those of a request.
type attributes struct {
	flags        uint32
	size         uint64
	uid, gid     uint32
	mode         uint32
	atime, mtime uint32
}

func (p *packet) attributes() (a attributes) {
	a.flags = p.takeUint32()
	if a.flags&hasSize != 0 {
		a.size = p.uint64()
	}
	if a.flags&hasOwner != 0 {
		a.uid, a.gid = p.takeUint32(), p.takeUint32()
	}
	if a.flags&hasMode != 0 {
		a.mode = p.takeUint32() & 0o7777
	}
	if a.flags&hasTimes != 0 {
		a.atime, a.mtime = p.takeUint32(), p.takeUint32()
	}
	if a.flags&hasExtended != 0 {
		n := p.takeUint32()
		if n > maxExtended {
			p.err = errShort
		}
		for range min(n, maxExtended) {
			p.takeField()
			p.takeField()
		}
	}
	return a
}

// modeOr returns the mode of a new file.
func (a attributes) modeOr(usual uint32) uint32 {
	if a.flags&hasMode != 0 {
		return a.mode
	}
	return usual
}

// target is an open file, or a path whose last name may be a link.
type target struct {
	f      *os.File
	path   string
	noLink bool // the link itself is meant
}

// setAll gives a file attributes.
func (t target) setAll(a attributes) error {
	if a.flags&hasSize != 0 {
		if err := t.truncate(int64(a.size)); err != nil {
			return err
		}
	}
	if a.flags&hasTimes != 0 {
		times := []unix.Timespec{{Sec: int64(a.atime)}, {Sec: int64(a.mtime)}}
		if err := t.setTimes(times); err != nil {
			return err
		}
	}
	if a.flags&hasMode != 0 {
		if err := t.setMode(a.mode); err != nil {
			return err
		}
	}
	if a.flags&hasOwner != 0 {
		return t.setOwner(int(a.uid), int(a.gid))
	}
	return nil
}

func (t target) truncate(size int64) error {
	switch {
	case size < 0:
		return unix.EINVAL
	case t.f != nil:
		return unix.Ftruncate(int(t.f.Fd()), size)
	case t.noLink:
		return unix.EINVAL
	}
	return unix.Truncate(t.path, size)
}

func (t target) setTimes(times []unix.Timespec) error {
	if t.f != nil {
		return unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", t.f.Fd()), times, 0)
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, t.path, times, t.linkFlags())
}

func (t target) setMode(mode uint32) error {
	switch {
	case t.f != nil:
		return unix.Fchmod(int(t.f.Fd()), mode)
	case t.noLink:
		return unix.EOPNOTSUPP // a link has no mode
	}
	return unix.Chmod(t.path, mode)
}

func (t target) setOwner(uid, gid int) error {
	if t.f != nil {
		return unix.Fchown(int(t.f.Fd()), uid, gid)
	}
	return unix.Fchownat(unix.AT_FDCWD, t.path, uid, gid, t.linkFlags())
}

func (t target) linkFlags() int {
	if t.noLink {
		return unix.AT_SYMLINK_NOFOLLOW
	}
	return 0
}

// addAttributes adds a file's attributes to an answer.
func (a *answer) addAttributes(st *unix.Stat_t) {
	a.uint32(hasSize | hasOwner | hasMode | hasTimes)
	a.uint64(uint64(st.Size))
	a.uint32(st.Uid)
	a.uint32(st.Gid)
	a.uint32(st.Mode)
	a.uint32(uint32(st.Atim.Sec))
	a.uint32(uint32(st.Mtim.Sec))
}

// longName returns a line like that of ls -l.
func longName(name string, st *unix.Stat_t, now time.Time) string {
	at := time.Unix(st.Mtim.Sec, 0)
	when := at.Format("Jan _2 15:04")
	if age := now.Sub(at); age > 180*24*time.Hour || age < -time.Hour {
		when = at.Format("Jan _2  2006")
	}
	return fmt.Sprintf("%s %4d %-8d %-8d %8d %s %s", modeText(st.Mode), st.Nlink, st.Uid, st.Gid, st.Size, when, name)
}

// modeText returns a mode as ls shows it.
func modeText(mode uint32) string {
	kinds := map[uint32]byte{unix.S_IFDIR: 'd', unix.S_IFLNK: 'l', unix.S_IFBLK: 'b', unix.S_IFCHR: 'c', unix.S_IFIFO: 'p', unix.S_IFSOCK: 's'}
	text := []byte("-rwxrwxrwx")
	if k := kinds[mode&unix.S_IFMT]; k != 0 {
		text[0] = k
	}
	for i := range 9 {
		if mode>>(8-i)&1 == 0 {
			text[i+1] = '-'
		}
	}
	for _, special := range []struct {
		bit       uint32
		at        int
		with, out byte
	}{{unix.S_ISUID, 3, 's', 'S'}, {unix.S_ISGID, 6, 's', 'S'}, {unix.S_ISVTX, 9, 't', 'T'}} {
		switch {
		case mode&special.bit == 0:
		case text[special.at] == 'x':
			text[special.at] = special.with
		default:
			text[special.at] = special.out
		}
	}
	return string(text)
}
