package beneath

import (
	"golang.org/x/sys/unix"
)

// Marks of the kernel in a layer that is mounted with "userxattr" (fs/overlayfs/overlayfs.h).
const (
	opaqueAttr   = "user.overlay.opaque"   // "y": nothing below shows through
	whiteoutAttr = "user.overlay.whiteout" // another form of a deletion
	originAttr   = "user.overlay.origin"   // it was copied from below; of what, an overlay of a user does not say
)

// IsWhiteout reports whether a name is the mark of a deletion.
func (d *Dir) IsWhiteout(name string, st *unix.Stat_t) bool {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFCHR:
		return st.Rdev == 0
	case unix.S_IFREG:
		if st.Size != 0 {
			return false
		}
		f, err := d.Open(name, unix.O_RDONLY|unix.O_NONBLOCK)
		if err != nil {
			return false
		}
		defer f.Close()
		_, err = unix.Fgetxattr(int(f.Fd()), whiteoutAttr, nil)
		return err == nil
	}
	return false
}

// IsOpaque reports whether a directory hides the directory below it.
func (d *Dir) IsOpaque() bool {
	b := make([]byte, 8)
	n, err := unix.Fgetxattr(d.FD(), opaqueAttr, b)
	return err == nil && n == 1 && b[0] == 'y'
}

// IsCopy reports whether a file or directory of the layer is the host's own, changed by the sandbox,
// even if it was moved. A file that the sandbox made is not. It is unknown for links, and for files with
// several names on either side.
func (d *Dir) IsCopy(name string) bool {
	f, err := d.Open(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return false
	}
	defer f.Close()
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR && st.Nlink > 1 {
		return false
	}
	_, err = unix.Fgetxattr(int(f.Fd()), originAttr, nil)
	return err == nil
}
