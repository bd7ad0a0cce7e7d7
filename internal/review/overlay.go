package review

import "golang.org/x/sys/unix"

// How the kernel marks things in a layer that is mounted with "userxattr"
// (fs/overlayfs/overlayfs.h).
const (
	opaqueAttr   = "user.overlay.opaque"   // "y": nothing below shows through
	whiteoutAttr = "user.overlay.whiteout" // another form of a deletion
)

// isWhiteout tells the mark of a deletion from files.
func (d *dir) isWhiteout(name string, st *unix.Stat_t) bool {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFCHR:
		return st.Rdev == 0
	case unix.S_IFREG:
		if st.Size != 0 {
			return false
		}
		f, err := d.open(name, unix.O_RDONLY|unix.O_NONBLOCK)
		if err != nil {
			return false
		}
		defer f.Close()
		_, err = unix.Fgetxattr(int(f.Fd()), whiteoutAttr, nil)
		return err == nil
	}
	return false
}

// isOpaque reports whether a directory hides what is below it.
func (d *dir) isOpaque() bool {
	b := make([]byte, 8)
	n, err := unix.Fgetxattr(d.fd(), opaqueAttr, b)
	return err == nil && n == 1 && b[0] == 'y'
}
