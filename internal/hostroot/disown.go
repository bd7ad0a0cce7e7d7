package hostroot

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// nobodyOutside is the owner that the host's root appears as in a disowned directory.
const nobodyOutside = 65534

// Disown is for a caller that is the host's root, before it starts a keeper. Root's keeper owns
// root's files even without privileges. It could show files below /usr or /opt that no other user
// may read. Disown runs start on a thread with its own mount namespace. There these directories
// exist a second time below at, an empty directory, and belong to uid 65534. A process started
// there, in whatever further namespaces, passes at to Assemble as Options.Disowned. At their own
// paths the directories stay as they are: a workspace or a volume may be in one.
//
// Not every kernel and file system can do that: Linux 5.12, and not an overlay. If it fails for a
// directory, the directory is missing below at, and the keeper's Host lists it in its Gaps. The
// thread ends after start, so the process must not be started with a parent death signal.
func Disown(at string, start func() error) error {
	return source{}.disown(at, start)
}

func (s source) disown(at string, start func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread dies with its namespace
		err := s.disownHere(at)
		if err == nil {
			err = start()
		}
		done <- err
	}()
	return <-done
}

func (s source) disownHere(at string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mount namespace private: %w", err)
	}
	owners, err := nobodyMap()
	if err != nil {
		return nil // no user namespaces: the keeper will say so better
	}
	defer unix.Close(owners)
	// All are opened before one is mounted: at may be in one of them.
	trees := map[string]int{}
	for _, p := range programs {
		if s.kindOf(p.path) != isDir {
			continue
		}
		if fd, err := openDisowned(s.path(p.path), owners); err == nil { // else see Gaps
			defer unix.Close(fd)
			trees[p.path] = fd
		}
	}
	return mountDisowned(at, trees)
}

// openDisowned opens a copy of a mount in which the files have other owners.
func openDisowned(dir string, owners int) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return -1, err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(owners)}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// mountDisowned mounts the copies below a directory, at their paths.
func mountDisowned(at string, trees map[string]int) error {
	if err := unix.Mount("bothy", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m"); err != nil {
		return fmt.Errorf("mount a file system for the host's programs: %w", err)
	}
	for path, fd := range trees {
		if err := os.MkdirAll(at+path, 0o755); err != nil {
			return err
		}
		if err := unix.MoveMount(fd, "", unix.AT_FDCWD, at+path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("mount %s with other owners: %w", path, err)
		}
	}
	return nil
}

// nobodyMap opens a user namespace that maps only root, to uid 65534. It belongs to a process
// that is stopped before its first instruction. The caller must be locked to its thread.
func nobodyMap() (int, error) {
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: nobodyOutside, Size: 1}}
	p, err := os.StartProcess("/proc/self/exe", []string{"bothy-owners"}, &os.ProcAttr{
		Env: []string{},
		Sys: &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids,
			Ptrace: true, Pdeathsig: syscall.SIGKILL,
		},
	})
	if err != nil {
		return -1, err
	}
	defer func() {
		_ = p.Kill()
		_, _ = p.Wait()
	}()
	return unix.Open(fmt.Sprintf("/proc/%d/ns/user", p.Pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
}
