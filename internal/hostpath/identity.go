package hostpath

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

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
