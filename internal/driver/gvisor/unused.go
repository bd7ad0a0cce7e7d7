package gvisor

import (
	"strings"
	"sync"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/fspath"
	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/fsimpl/gofer"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
)

// closeUnusedFiles makes the sentry close its descriptors of a host file as soon as the last program
// inside has closed it.
// By default gVisor keeps them with its cached dentry, until a thousand other files were looked
// up. While any process has a file open for writing, the host does not execute it ("Text file
// busy"). That affects programs that were built inside, and scripts that were touched there. And
// a file that the host deletes keeps its space while it is open. gVisor evicts a dentry at its
// last reference if the dentry is marked. So each call that opens a file, or that needs it open
// to change its length or times, marks the file. A file that was only looked up stays cached:
// if its mode forbids opening it again, a later chmod depends on that.
func closeUnusedFiles() {
	wrapSyscalls(markOpened, "open", "openat", "openat2", "creat")
	wrapSyscalls(markNamed(atWorkingDir), "truncate", "utime", "utimes")
	wrapSyscalls(markNamed(atDescriptor), "futimesat")
	wrapSyscalls(markNamed(utimensatTarget), "utimensat")
}

// markOpened wraps a call that opens a file.
func markOpened(fn kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, nr uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		n, ctl, err := fn(t, nr, args)
		if err == nil {
			markDescriptor(t, int32(n))
		}
		return n, ctl, err
	}
}

// target is the file whose length or times a call changes.
type target struct {
	dir    int32
	path   hostarch.Addr // 0 for the file of the descriptor dir
	follow bool
}

func atWorkingDir(args arch.SyscallArguments) target {
	return target{dir: linux.AT_FDCWD, path: args[0].Pointer(), follow: true}
}

func atDescriptor(args arch.SyscallArguments) target {
	return target{dir: args[0].Int(), path: args[1].Pointer(), follow: true}
}

func utimensatTarget(args arch.SyscallArguments) target {
	return target{dir: args[0].Int(), path: args[1].Pointer(), follow: args[3].Uint()&linux.AT_SYMLINK_NOFOLLOW == 0}
}

// markNamed wraps a call that changes the length or the times of a named file.
func markNamed(of func(arch.SyscallArguments) target) wrapper {
	return func(fn kernel.SyscallFn) kernel.SyscallFn {
		return func(t *kernel.Task, nr uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
			n, ctl, err := fn(t, nr, args)
			if err == nil {
				of(args).markUsed(t)
			}
			return n, ctl, err
		}
	}
}

func (f target) markUsed(t *kernel.Task) {
	if f.path == 0 {
		markDescriptor(t, f.dir)
		return
	}
	if found, ok := f.findFile(t); ok {
		markFile(found)
		found.DecRef(t) // evicts it, unless a program has it open
	}
}

// findFile looks the file up, and takes a reference.
func (f target) findFile(t *kernel.Task) (vfs.VirtualDentry, bool) {
	name, err := t.CopyInString(f.path, linux.PATH_MAX)
	if err != nil {
		return vfs.VirtualDentry{}, false
	}
	path := fspath.Parse(name)
	root := t.FSContext().RootDirectory()
	defer root.DecRef(t)
	start, ok := startOf(t, f.dir, path, root)
	if !ok {
		return vfs.VirtualDentry{}, false
	}
	defer start.DecRef(t)
	found, err := t.Kernel().VFS().GetDentryAt(t, t.Credentials(), &vfs.PathOperation{
		Root: root, Start: start, Path: path, FollowFinalSymlink: f.follow,
	}, &vfs.GetDentryOptions{})
	return found, err == nil
}

// startOf returns the directory in which a path begins, referenced.
func startOf(t *kernel.Task, dir int32, path fspath.Path, root vfs.VirtualDentry) (vfs.VirtualDentry, bool) {
	switch {
	case path.Absolute:
		root.IncRef()
		return root, true
	case dir == linux.AT_FDCWD:
		return t.FSContext().WorkingDirectory(), true
	}
	file := t.GetFile(dir)
	if file == nil {
		return vfs.VirtualDentry{}, false
	}
	defer file.DecRef(t)
	start := file.VirtualDentry()
	start.IncRef()
	return start, true
}

func markDescriptor(t *kernel.Task, fd int32) {
	file := t.GetFile(fd)
	if file == nil {
		return
	}
	defer file.DecRef(t)
	markFile(file.VirtualDentry())
}

// markFile marks the dentry of a file that the host may use as well. The mark is lost with the dentry:
// the next dentry of the file is cached as usual.
func markFile(file vfs.VirtualDentry) {
	if isShared(file.Mount().Filesystem()) && !hasOtherNames(file.Dentry()) {
		file.Dentry().MarkEvictable()
	}
}

// sharedFilesystems caches whether the host uses a file system as well.
var sharedFilesystems sync.Map // *vfs.Filesystem to bool

// sharedOption is the option of gVisor's mounts whose files the host changes, too.
const sharedOption = "cache=remote_revalidating"

func isShared(fs *vfs.Filesystem) bool {
	if fs.FilesystemType().Name() != gofer.Name {
		return false
	}
	if shared, ok := sharedFilesystems.Load(fs); ok {
		return shared.(bool)
	}
	shared := strings.Contains(fs.Impl().MountOptions(), sharedOption)
	sharedFilesystems.Store(fs, shared)
	return shared
}
