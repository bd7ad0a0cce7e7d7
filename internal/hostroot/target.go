package hostroot

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// SharedMemory is the directory in which cooperating programs share memory. In a sandbox it is a file
// system in memory.
const SharedMemory = "/dev/shm"

// CheckMounts refuses mounts that would break a sandbox, whatever its template. A target below another
// one, or below the shared memory, is in that mount and covers nothing.
func CheckMounts(targets []string) error {
	for _, t := range targets {
		if t == path.Clean(t) && (t == SharedMemory || isBelow(t, SharedMemory) || slices.ContainsFunc(targets, func(o string) bool { return isBelow(t, o) })) {
			continue
		}
		if err := (Target{Path: t}).checkTarget(); err != nil {
			return err
		}
	}
	return nil
}

func isBelow(p, below string) bool {
	return p != below && strings.HasPrefix(p, strings.TrimSuffix(below, "/")+"/")
}

// checkTarget refuses a target that would break the sandbox.
func (t Target) checkTarget() error {
	refuse := func(why string) error {
		return spec.Errorf(spec.ErrUsage, "mount target %s: %s", t.Path, why).
			WithHint("choose a directory of its own, such as /mnt/data")
	}
	switch {
	case !path.IsAbs(t.Path) || path.Clean(t.Path) != t.Path || strings.ContainsRune(t.Path, 0) || len(t.Path) >= unix.PathMax:
		return spec.Errorf(spec.ErrUsage, "mount target %q is not a clean absolute path", t.Path)
	case t.Path == "/":
		return refuse("it would replace the whole root")
	}
	top, _, deeper := strings.Cut(t.Path[1:], "/")
	switch {
	case slices.Contains([]string{"proc", "sys", "dev"}, top):
		return refuse("/" + top + " belongs to the sandbox's kernel")
	case top == Own:
		return refuse("/" + top + " belongs to Bothy")
	case !deeper && (slices.Contains([]string{"usr", "etc", "bin", "sbin", "var"}, top) || strings.HasPrefix(top, "lib")):
		return refuse("it would hide the programs the sandbox works with")
	}
	return nil
}

// mountPoints makes the mount points of the targets and the home directory, the outer ones first. It
// makes nothing below them.
func (t *tree) mountPoints(home string, targets []Target) error {
	list := append([]Target{{Path: home, Dir: true}}, targets...)
	slices.SortStableFunc(list, func(a, b Target) int {
		return strings.Count(a.Path, "/") - strings.Count(b.Path, "/")
	})
	for i, target := range list {
		outer := slices.IndexFunc(list[:i], func(o Target) bool { return strings.HasPrefix(target.Path, o.Path+"/") })
		if outer < 0 {
			if err := t.mountPoint(target); err != nil {
				return err
			}
			continue
		}
		if !list[outer].Dir {
			return spec.Errorf(spec.ErrUsage, "mount target %s: target %s is a file", target.Path, list[outer].Path)
		}
	}
	return nil
}

// mountPoint walks from the top of the tree to the target and follows no link. It makes missing
// elements, but only in the tmpfs.
func (t *tree) mountPoint(target Target) error {
	at, err := t.openDir(t.fd, ".")
	if err != nil {
		return err
	}
	defer func() { unix.Close(at) }()
	elements := strings.Split(target.Path[1:], "/")
	for i, name := range elements {
		last := i == len(elements)-1
		if err := t.element(at, name, target, i, !last || target.Dir); err != nil {
			return err
		}
		if last {
			break
		}
		next, err := t.enterDir(at, name)
		if err != nil {
			return target.cannot("the sandbox's user may not enter %s: %w", prefix(target.Path, i), err)
		}
		unix.Close(at)
		at = next
	}
	return nil
}

// element makes sure that name, the i-th element of the target's path, exists in the directory at and
// has the right kind.
func (t *tree) element(at int, name string, target Target, i int, dir bool) error {
	var st unix.Stat_t
	err := unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return t.create(at, name, target, dir)
	}
	if err != nil {
		return target.cannot("%w", err)
	}
	here := prefix(target.Path, i)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return target.cannot("%s is a symbolic link in the template", here)
	case unix.S_IFDIR:
		if !dir {
			return target.cannot("%s is a directory in the template, and its source is none", here)
		}
	case unix.S_IFREG:
		if dir {
			return target.cannot("%s is a file in the template", here)
		}
	default:
		return target.cannot("%s is neither a file nor a directory in the template", here)
	}
	return nil
}

// create makes one element of a path, with root's usual modes.
func (t *tree) create(at int, name string, target Target, dir bool) error {
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return err
	}
	if st.Dev != t.dev {
		return target.cannot("")
	}
	var err error
	if dir {
		var fd int
		if fd, err = makeDirAt(at, name, 0o755); err == nil {
			err = unix.Close(fd)
		}
	} else {
		err = writeFileAt(at, name, nil, 0o644)
	}
	if err == unix.EROFS { // in the empty directory that covers a directory of the host
		return target.cannot("")
	}
	if err != nil {
		return fmt.Errorf("make mount point %s: %w", target.Path, err)
	}
	return nil
}

// enterDir is open for a directory in which names are looked up. If the sandbox's user may not enter it,
// nothing of it is visible inside, and enter replaces it by an empty directory of the tree.
func (t *tree) enterDir(at int, name string) (int, error) {
	fd, err := t.openDir(at, name)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstatat(fd, ".", &st, 0); err == nil {
		return fd, nil
	}
	defer unix.Close(fd)
	if err != unix.EACCES {
		return -1, err
	}
	if err := t.coverOpen(fd); err != nil {
		return -1, err
	}
	return t.openDir(at, name)
}

// openDir opens a directory without following a link.
func (t *tree) openDir(at int, name string) (int, error) {
	fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return fd, nil
}

// cannot returns the error for a target that cannot have a mount point. why may be empty if it is
// obvious.
func (t Target) cannot(why string, args ...any) error {
	text := "mount target %s does not exist in the template and cannot be created"
	if why != "" {
		text = "mount target %s cannot be used: " + why
	}
	return spec.Errorf(spec.ErrUsage, text, append([]any{t.Path}, args...)...).
		WithHint("choose a target that lies outside the template's program directories, and behind no link of its, such as /mnt/data")
}

// prefix returns a path up to its i-th element.
func prefix(p string, i int) string {
	elements := strings.Split(p, "/")
	return strings.Join(elements[:i+2], "/")
}
