package workspace

import (
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/spec"
)

// systemDirs are directories of the host that are not projects. A project may be below one:
// /opt/app, /usr/local/src/app, /var/lib/app.
var systemDirs = []string{
	"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
	"/usr", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/libexec", "/usr/include", "/usr/share", "/usr/games", "/usr/src",
	"/usr/local", "/usr/local/bin", "/usr/local/sbin", "/usr/local/lib", "/usr/local/lib64", "/usr/local/libexec", "/usr/local/include", "/usr/local/share", "/usr/local/etc", "/usr/local/games", "/usr/local/src",
	"/boot", "/boot/efi", "/efi", "/etc", "/opt", "/run", "/run/user", "/media", "/lost+found", "/snap",
	"/var", "/var/backups", "/var/cache", "/var/lib", "/var/log", "/var/mail", "/var/spool",
	"/nix", "/nix/store", "/gnu", "/gnu/store",
}

// homeDirs contain users' keys and secrets, and are not shared either.
var homeDirs = []string{"/home", "/root"}

// noProject returns the reason why a directory should not be shared, or "". It compares directories by
// identity, because a bind mount has another path. A read-only mount may be a directory of the system.
func (r Rules) noProject(m spec.Mount) string {
	real := m.Source
	is := func(dir string) bool { return hostpath.SameFile(real, dir) }
	switch {
	case hostpath.SameFile(real, "/"):
		return "is the whole disk: the sandbox would see every key and secret on it"
	case r.Home != "" && holdsPath(real, r.Home):
		return "holds your whole home directory: the sandbox would see every key and secret in it"
	case r.State != "" && holdsPath(real, r.State):
		return "holds Bothy's state directory " + r.State
	}
	switch {
	case slices.ContainsFunc(homeDirs, is):
		return "holds home directories: the sandbox would see every key and secret in them"
	case !m.ReadOnly && slices.ContainsFunc(systemDirs, is):
		return "is a directory of the system, and no project: the sandbox could change what others on this host run or read"
	}
	return ""
}

// holdsPath reports whether a path is a directory or in it.
func holdsPath(dir, path string) bool {
	for at := realOr(path); ; at = filepath.Dir(at) {
		if hostpath.SameFile(dir, at) || at == dir { // of a path that does not exist, only the names are known
			return true
		}
		if at == "/" || at == "." {
			return false
		}
	}
}

// inState reports whether a path is in the state directory.
func (r Rules) inState(real string) (bool, error) {
	if r.State == "" {
		return false, nil
	}
	state := realOr(r.State)
	if Within(state, real) {
		return true, nil
	}
	return hostpath.Below(state, real)
}

// kernelFiles returns the kernel's tree to which such a file system belongs. It is empty for an
// ordinary file system.
func kernelFiles(kind int64) string {
	switch kind {
	case unix.PROC_SUPER_MAGIC, unix.BINFMTFS_MAGIC, unix.NSFS_MAGIC:
		return "/proc"
	case unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC,
		unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC, unix.EFIVARFS_MAGIC:
		return "/sys"
	case unix.DEVPTS_SUPER_MAGIC:
		return "/dev"
	}
	return ""
}

// kernelTree returns the kernel's tree that contains a path, or "".
func kernelTree(real string) string {
	var at unix.Statfs_t
	if unix.Statfs(real, &at) == nil {
		if tree := kernelFiles(at.Type); tree != "" {
			return tree
		}
	}
	for _, tree := range kernelTrees {
		if Within(tree, real) && !Within(sharedMemory, real) {
			return tree
		}
	}
	if inDev, err := hostpath.Below("/dev", real); err == nil && inDev {
		if inMemory, err := hostpath.Below(sharedMemory, real); err != nil || !inMemory {
			return "/dev"
		}
	}
	return ""
}
