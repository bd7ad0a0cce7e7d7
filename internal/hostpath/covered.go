package hostpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// kernelViews are the types of file systems in which the kernel shows its state, its devices and
// processes of the host. No sandbox may see them, at any mount point.
var kernelViews = []string{
	"binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs", "fusectl",
	"mqueue", "nsfs", "proc", "pstore", "securityfs", "selinuxfs", "sysfs", "tracefs",
}

// IsKernelView reports whether a type is one of kernelViews.
func IsKernelView(fsType string) bool { return slices.Contains(kernelViews, fsType) }

// MountsToCover returns the mount points below a directory that a sandbox with the directory must not
// see: views of the kernel, and a secret directory of the caller, or part of it, that a bind mount shows
// at another path. Both paths are without links. secret may be empty.
func MountsToCover(dir, secret string) ([]string, error) {
	table, err := readMounts()
	if err != nil {
		return nil, err
	}
	var list []string
	for id, m := range table.byID {
		if m.at == dir || !within(dir, m.at) {
			continue
		}
		if m.toCover(id) {
			list = append(list, m.at)
		}
	}
	others, err := table.otherPaths(dir, secret)
	list = append(list, others...)
	slices.Sort(list)
	return outermost(list), err
}

// toCover reports whether a mount is a view of the kernel and visible at its mount point: another mount
// may hide it. A mount that cannot be looked at counts. Files are not covered: they are devices, which
// no sandbox opens.
func (m mount) toCover(id uint64) bool {
	if !IsKernelView(m.fsType) {
		return false
	}
	s, err := lookAt(m.at)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return false
	case errors.Is(err, fs.ErrPermission):
		return mayOpenUp(m.at)
	case err != nil:
		return true
	}
	return s.isKind(unix.S_IFDIR) && (s.mount == id || s.mount == 0)
}

// mayOpenUp reports whether a path is inaccessible to the caller only because of the mode of one of the
// caller's own directories. A sandbox can change that mode.
func mayOpenUp(path string) bool {
	for at := filepath.Dir(path); ; at = filepath.Dir(at) {
		if s, err := lookAt(at); err == nil || at == "/" {
			return int(s.owner) == os.Geteuid()
		}
	}
}

// otherPaths returns paths below a directory that lead to the secret directory, or into it, and are not
// its own path.
func (m *mounts) otherPaths(dir, secret string) (list []string, err error) {
	is, err := lookAt(secret)
	if secret == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	place := m.spotOf(secret)
	top := m.spotOf(dir)
	shown := []mount{{device: top.device, root: top.path, at: dir}}
	for _, one := range m.list {
		if one.at != dir && within(dir, one.at) {
			shown = append(shown, one)
		}
	}
	for _, one := range shown {
		root := spot{one.device, one.root}
		switch {
		case place.contains(root): // a part of it, or all
			list = append(list, one.at)
		case root.contains(place):
			at := filepath.Join(one.at, place.path[len(one.root):])
			if s, err := lookAt(at); err == nil && s.id == is.id && at != secret {
				list = append(list, at)
			}
		}
	}
	return slices.DeleteFunc(list, func(at string) bool { return at == dir }), nil
}

// outermost drops repeated paths, and paths below others, from a sorted list: covering a
// directory also covers the paths below it.
func outermost(list []string) (out []string) {
	for _, path := range list {
		if !slices.ContainsFunc(out, func(o string) bool { return within(o, path) }) {
			out = append(out, path)
		}
	}
	return out
}
