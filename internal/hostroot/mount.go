package hostroot

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/spec"
)

// mount is one line of the mount table.
type mount struct {
	point    string
	fstype   string
	idMapped bool
}

func readMounts() ([]mount, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	return parseMounts(string(b)), nil
}

func parseMounts(table string) []mount {
	var list []mount
	for line := range strings.Lines(table) {
		before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		f := strings.Fields(before)
		fstype, _, _ := strings.Cut(after, " ")
		if !ok || len(f) < 6 {
			continue
		}
		list = append(list, mount{point: unescape(f[4]), fstype: fstype, idMapped: slices.Contains(strings.Split(f[5], ","), "idmapped")})
	}
	return list
}

// unescape undoes the kernel's octal escapes of blanks and backslashes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && isOctal(s[i+1]) && isOctal(s[i+2]) && isOctal(s[i+3]) {
			b.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func isOctal(c byte) bool { return c >= '0' && c <= '7' }

func mountsBelow(mounts []mount, dir string) []mount {
	var list []mount
	for _, m := range mounts {
		if strings.HasPrefix(m.point, dir+"/") {
			list = append(list, m)
		}
	}
	return list
}

// relative returns the mount points below dir, without dir's own path.
func relative(mounts []mount, dir string) map[string]bool {
	paths := map[string]bool{}
	for _, m := range mountsBelow(mounts, dir) {
		paths[m.point[len(dir)+1:]] = true
	}
	return paths
}

// idMapped reports whether the files at dir are seen through a map of owners.
func idMapped(mounts []mount, dir string) bool {
	mapped := false
	for _, m := range mounts { // a later mount hides an earlier one
		if m.point == dir {
			mapped = m.idMapped
		}
	}
	return mapped
}

// pseudo reports whether a file system holds the kernel's state or other users' sessions instead
// of programs. Below a bound directory such mounts are covered.
func pseudo(fsType string) bool {
	return hostpath.IsKernelView(fsType) || slices.Contains([]string{"autofs", "hugetlbfs", "ramfs"}, fsType)
}

// binder binds things into the tree, read-only.
type binder struct {
	mounts    []mount
	emptyDir  string // covers directories and files that must not be seen
	emptyFile string
}

// bindReadOnly makes src visible at dst, which exists, with the mounts below it. The bind is read-only,
// and ignores devices and set-uid bits.
func (b *binder) bindReadOnly(src, dst string) error {
	inner := mountsBelow(b.mounts, src)
	flags := uintptr(unix.MS_BIND)
	if len(inner) > 0 {
		// In a user namespace the kernel refuses to show a directory without
		// the mounts the host has below it.
		flags |= unix.MS_REC
	}
	if err := unix.Mount(src, dst, "", flags, ""); err != nil {
		return fmt.Errorf("bind %s: %w", src, err)
	}
	if err := sealMounts(dst, moveMounts(inner, src, dst)); err != nil {
		return fmt.Errorf("make the bind of %s read-only: %w", src, err)
	}
	for _, m := range moveMounts(inner, src, dst) {
		if err := b.coverUnwanted(m); err != nil {
			return err
		}
	}
	return nil
}

// coverFile hides the file at dst: a directory becomes an empty one, anything else an empty file.
func (b *binder) coverFile(dst string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dst, &st); err != nil {
		return &os.PathError{Op: "lstat", Path: dst, Err: err}
	}
	src := b.emptyFile
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		src = b.emptyDir
	}
	if err := unix.Mount(src, dst, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cover %s: %w", dst, err)
	}
	return sealMounts(dst, nil)
}

// coverUnwanted hides a mount below a bound directory that no program needs: kernel state, a
// device, a socket.
func (b *binder) coverUnwanted(m mount) error {
	var st unix.Stat_t
	if err := unix.Lstat(m.point, &st); err != nil {
		return unlessGone(err) // another mount hides it
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR, unix.S_IFREG:
		if !pseudo(m.fstype) {
			return nil
		}
	}
	return b.coverFile(m.point)
}

func moveMounts(mounts []mount, src, dst string) []mount {
	list := make([]mount, len(mounts))
	for i, m := range mounts {
		m.point = dst + m.point[len(src):]
		list[i] = m
	}
	return list
}

// sealMounts makes a mount and those below it read-only, without devices and set-uid bits, and separates them
// from later mounts of the host.
func sealMounts(dst string, inner []mount) error {
	attr := unix.MountAttr{
		Attr_set:    unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
		Propagation: unix.MS_PRIVATE,
	}
	err := unix.MountSetattr(unix.AT_FDCWD, dst, unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW, &attr)
	if err == unix.ENOSYS || err == unix.EPERM {
		return sealEach(dst, inner) // Linux before 5.12, or a filter that does not know the call
	}
	return err
}

// sealEach is sealMounts for kernels that can only change one mount at a time.
func sealEach(dst string, inner []mount) error {
	if err := unix.Mount("", dst, "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return err
	}
	if err := makeReadOnly(dst); err != nil {
		return err
	}
	for _, m := range inner {
		if err := makeReadOnly(m.point); unlessGone(err) != nil || err == unix.EPERM {
			return fmt.Errorf("%s: %w", m.point, err)
		}
	}
	return nil
}

// makeReadOnly makes one mount read-only. The kernel insists that a flag of the host's original mount
// stays set, and the settings for access times.
func makeReadOnly(dst string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dst, &fs); err != nil {
		return err
	}
	flags := uintptr(fs.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
	flags |= unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV
	return unix.Mount("", dst, "", flags, "")
}

// hideDir covers a directory of the host that the tree may show: one in a directory of the host's programs,
// such as a state directory in /opt. dir has no links; empty hides nothing.
func (t *tree) hideDir(dir string) error {
	if dir == "" {
		return nil
	}
	shown, err := t.showsDir(dir)
	if err != nil || !shown {
		return err
	}
	if err := t.coverFile(t.path(dir)); err != nil {
		return err
	}
	if shown, err = t.showsDir(dir); err == nil && shown {
		err = spec.Errorf(spec.ErrSandbox, "its parents were changed meanwhile")
	}
	if err != nil {
		return fmt.Errorf("hide %s: %w", dir, err)
	}
	return nil
}

// showsDir reports whether the tree has the host's directory dir at its path, or cannot rule it
// out. It follows no link: dir has none, so a directory behind one in the tree is another.
func (t *tree) showsDir(dir string) (bool, error) {
	var want, have unix.Stat_t
	if err := unix.Lstat(dir, &want); err != nil {
		return false, &os.PathError{Op: "lstat", Path: dir, Err: err}
	}
	at, err := t.openDir(t.fd, ".")
	if err != nil {
		return false, err
	}
	defer func() { unix.Close(at) }()
	for name := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		next, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("look for %s in the template: %w", dir, err)
		}
		unix.Close(at)
		at = next
	}
	if err := unix.Fstat(at, &have); err != nil {
		return false, err
	}
	return have.Dev == want.Dev && have.Ino == want.Ino, nil
}
