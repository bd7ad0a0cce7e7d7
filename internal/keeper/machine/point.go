package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// This file finds and makes mount points in directories that a program inside may change at the
// same time. Every step opens one name from the directory before it. It follows no symbolic
// link, not even one that stays below: other mounts may cover the directory it leads to.

// openNoLinks opens a host path without following a link in it, and returns the type of the file.
func openNoLinks(name string) (fd int, kind uint32, err error) {
	fd, err = unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return -1, 0, err
	}
	if kind, err = kindOf(fd); err != nil {
		unix.Close(fd)
		return -1, 0, err
	}
	return fd, kind, nil
}

func kindOf(fd int) (uint32, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	return st.Mode & unix.S_IFMT, nil
}

// descriptorPath returns a path that leads to an open descriptor and nowhere else.
func descriptorPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// makePointFor makes a mount point of the same type as a host file.
func makePointFor(source, dir, rel string) error {
	fd, kind, err := openNoLinks(source)
	if err != nil {
		return err
	}
	unix.Close(fd)
	return makePoint(dir, rel, kind == unix.S_IFDIR)
}

// makePoint makes a mount point below a directory the inside can write to.
func makePoint(dir, rel string, asDir bool) error {
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { unix.Close(at) }()
	steps := strings.Split(filepath.Clean(rel), "/")
	for i, name := range steps {
		if !asDir && i == len(steps)-1 {
			return makeFilePoint(at, name)
		}
		if err := unix.Mkdirat(at, name, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		next, err := openStep(at, name, true)
		if err != nil {
			return err
		}
		unix.Close(at)
		at = next
	}
	return nil
}

// makeFilePoint makes a file to mount another over, unless it exists.
func makeFilePoint(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	kind, err := kindOf(fd)
	if err == nil && kind != unix.S_IFREG {
		err = unix.EINVAL
	}
	return err
}

// findPoint checks that a mount point exists below a directory and has the right type.
func findPoint(dir, rel string, asDir bool) error {
	fd, err := openPoint(dir, rel, asDir)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// openPoint opens a mount point below a directory.
func openPoint(dir, rel string, asDir bool) (int, error) {
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	steps := strings.Split(filepath.Clean(rel), "/")
	for i, name := range steps {
		next, err := openStep(at, name, asDir || i < len(steps)-1)
		unix.Close(at)
		if err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

// openStep opens a directory, or a regular file, by one name.
func openStep(dir int, name string, asDir bool) (int, error) {
	flags := unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	if asDir {
		return unix.Openat(dir, name, flags|unix.O_DIRECTORY, 0)
	}
	fd, err := unix.Openat(dir, name, flags, 0)
	if err != nil {
		return -1, err
	}
	kind, err := kindOf(fd)
	if err == nil && kind != unix.S_IFREG {
		err = unix.EINVAL
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// noPoint explains why a workspace has no mount point for a target.
func noPoint(target, outer string, err error) error {
	if errors.Is(err, unix.ENOENT) {
		return spec.Errorf(spec.ErrUsage, "mount point %s does not exist in %s", target, outer).
			WithHint("create it on the host, or mount somewhere else")
	}
	return spec.Errorf(spec.ErrDenied, "mount point %s cannot be used: %w", target, err).
		WithHint("%s must be reached through no symbolic link and be of the same type as the mounted file or directory; repair it on the host, or mount somewhere else", target)
}

// emptyDir makes the directory that is mounted over hidden paths. Every mount made from this one is
// read-only, as it is.
func emptyDir(scratch string) (string, error) {
	dir := filepath.Join(scratch, "empty")
	if err := os.Mkdir(dir, 0o555); err != nil {
		return "", err
	}
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return "", fmt.Errorf("mount %s: %w", dir, err)
	}
	const readOnly = unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV
	if err := unix.Mount("", dir, "", readOnly, ""); err != nil {
		return "", fmt.Errorf("make %s read-only: %w", dir, err)
	}
	return dir, nil
}
