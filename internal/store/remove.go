package store

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// RemoveTree deletes a tree that a sandbox may have made: deeper than the limit of file
// descriptors, with directories that cannot be entered, full of links. It follows no link, and
// works on two levels at a time: it first moves deeper ones up. Several processes may remove the
// same tree at once. The tree is gone when all of them have returned.
func RemoveTree(dir string) (err error) {
	for range removeTries {
		err = removeTree(dir)
		if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
	}
	return err
}

// removeTries bounds how often a tree is read again because another process was faster.
const removeTries = 100

func removeTree(dir string) error {
	top, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return os.Remove(dir)
	case errors.Is(err, unix.EACCES):
		if err := allowOwner(unix.AT_FDCWD, dir); err != nil {
			return err
		}
		if top, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	r := &remover{top: os.NewFile(uintptr(top), dir)}
	defer r.top.Close()
	if err := r.emptyTop(); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return os.Remove(dir)
}

type remover struct {
	top   *os.File
	moved int
}

// emptyTop removes everything in the top directory, in rounds: each round moves one level of the
// remaining entries up into it.
func (r *remover) emptyTop() error {
	_ = unix.Fchmod(int(r.top.Fd()), 0o700)
	for {
		if _, err := r.top.Seek(0, 0); err != nil {
			return err
		}
		entries, err := r.top.ReadDir(-1)
		if err != nil || len(entries) == 0 {
			return err
		}
		for _, e := range entries {
			if err := r.remove(e.Name(), e.IsDir()); err != nil {
				return err
			}
		}
	}
}

func (r *remover) remove(name string, dir bool) error {
	top := int(r.top.Fd())
	if !dir {
		return unix.Unlinkat(top, name, 0)
	}
	child, err := openAllowed(top, name)
	if err != nil {
		return err
	}
	defer child.Close()
	entries, err := child.ReadDir(-1)
	if err != nil {
		return err
	}
	fd := int(child.Fd())
	for _, e := range entries {
		if !e.IsDir() {
			if err := unix.Unlinkat(fd, e.Name(), 0); err != nil {
				return err
			}
			continue
		}
		if unix.Unlinkat(fd, e.Name(), unix.AT_REMOVEDIR) == nil {
			continue // it was empty
		}
		if err := r.moveUp(fd, e.Name()); err != nil {
			return err
		}
	}
	return unix.Unlinkat(top, name, unix.AT_REMOVEDIR)
}

// moveUp moves a directory into the top one, under a free name.
func (r *remover) moveUp(from int, name string) error {
	d, err := openAllowed(from, name) // to be moved it must be writable
	if err != nil {
		return err
	}
	d.Close()
	for {
		r.moved++
		err := unix.Renameat2(from, name, int(r.top.Fd()), ".deep-"+strconv.Itoa(r.moved), unix.RENAME_NOREPLACE)
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
}

// allowOwner gives the owner of a directory access to it. It does not touch a file that may have
// replaced the directory meanwhile.
func allowOwner(parent int, name string) error {
	fd, err := unix.Openat(parent, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o700)
}

// openAllowed opens a directory, giving its owner access first.
func openAllowed(parent int, name string) (*os.File, error) {
	const how = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(parent, name, how, 0)
	if errors.Is(err, unix.EACCES) {
		if err := allowOwner(parent, name); err != nil {
			return nil, err
		}
		fd, err = unix.Openat(parent, name, how, 0)
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Fchmod(fd, 0o700); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}
