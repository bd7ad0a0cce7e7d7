package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// Found returns the identity in a status.
func Found(m spec.Mounted) Identity {
	return Identity{Device: m.Device, Inode: m.Inode, Birth: m.Birth}
}

// LookUp returns the directory at a path without links, or nil for a file.
func LookUp(path string) (*spec.Mounted, error) {
	f, err := OpenReal(path, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, err := lookBelow(int(f.Fd()), "", unix.AT_EMPTY_PATH)
	if err != nil || !s.isKind(unix.S_IFDIR) {
		return nil, err
	}
	return &spec.Mounted{Source: path, Device: s.id.Device, Inode: s.id.Inode, Birth: s.id.Birth}, nil
}

// Silence reports that the file system of a mounted directory does not answer.
const Silence = "does not answer"

// Gone reports that the path of a mounted directory does not exist.
const Gone = "is gone"

// Replaced returns how a mounted directory was lost: another one is at its path, or none. It is empty if
// the directory is still there, or if that is unknown.
func Replaced(m spec.Mounted) string {
	if Answers(m.Source) != nil {
		return Silence
	}
	now, err := LookUp(m.Source)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Gone
	case errors.Is(err, spec.ErrDenied):
		return "leads elsewhere now"
	case err != nil:
		return ""
	case now == nil:
		return "is a file now"
	case Found(*now) != Found(m):
		return "is another directory now"
	}
	return ""
}

// SameFile reports whether two paths lead to the same file or directory, by links and bind mounts too.
func SameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// Below reports whether a path leads to a directory or to a path below it, by links and bind
// mounts too.
func Below(dir, path string) (bool, error) {
	at, err := lookAt(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	p, err := NewGuard([]Directory{{Path: dir, Identity: at.id}}).Find(path)
	return p.within, err
}

// Identity distinguishes one directory or file from all others, at any path.
type Identity struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Birth  int64  `json:"birth,omitempty"` // in nanoseconds since 1970; 0 if the file system does not keep it
}

// Same reports whether both are the same directory. A reboot may change the number of a device, but not
// the creation time of a directory; so that time counts, if both have one.
func (a Identity) Same(b Identity) bool {
	if a.Inode != b.Inode || a.Inode == 0 {
		return false
	}
	if a.Birth != 0 && b.Birth != 0 {
		return a.Birth == b.Birth
	}
	return a.Device == b.Device
}

// IdentityOf returns the identity of an open file.
func IdentityOf(fd int) (Identity, error) {
	s, err := lookBelow(fd, "", unix.AT_EMPTY_PATH)
	return s.id, err
}

// seen is the result of one look at a path.
type seen struct {
	id    Identity
	mode  uint32
	owner uint32
	mount uint64 // the kernel's number of the mount it is in
}

func (s seen) isKind(kind uint32) bool { return s.mode&unix.S_IFMT == kind }

// changeable reports whether the caller may change the file.
func (s seen) changeable(path string) bool {
	return int(s.owner) == os.Geteuid() || unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS) == nil
}

// lookAt looks at a path, without following a link at its end.
func lookAt(path string) (seen, error) {
	return lookBelow(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW)
}

func lookBelow(dir int, path string, flags int) (seen, error) {
	var x unix.Statx_t
	const want = unix.STATX_TYPE | unix.STATX_MODE | unix.STATX_UID | unix.STATX_INO | unix.STATX_BTIME | unix.STATX_MNT_ID
	if err := unix.Statx(dir, path, flags|unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, want, &x); err != nil {
		return seen{}, err
	}
	s := seen{mode: uint32(x.Mode), owner: x.Uid, mount: x.Mnt_id}
	s.id = Identity{Device: unix.Mkdev(x.Dev_major, x.Dev_minor), Inode: x.Ino}
	if x.Mask&unix.STATX_BTIME != 0 {
		s.id.Birth = x.Btime.Sec*1e9 + int64(x.Btime.Nsec)
	}
	return s, nil
}

// pathOf returns the path of an open file, as the kernel knows it.
func pathOf(fd int) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd), buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}
