package gvisor

import (
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/fspath"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/vfs"

	"github.com/bothy-dev/bothy/internal/wire"
)

// passHostEvents makes inotify inside report changes made by the host.
// By default gVisor raises events only for changes by programs inside. With passHostEvents the
// sentry notes which directories of shared file systems are watched, and init asks for them
// ([wire.NextWatched]). The keeper watches these directories on the host. Init then makes the
// sentry raise the host's events inside ([wire.RaiseEvent]).
func passHostEvents() {
	w := &watchedDirs{ready: make(chan struct{}, 1)}
	wrapSyscalls(w.wrapAdd, "inotify_add_watch")
	wrapSyscalls(w.wrapNext, "readlinkat")
}

// Bounds of the remembered watches. Watchers beyond them are not told of changes by the host.
const (
	maxPendingDirs  = 4096
	maxWatchedFiles = 16384
)

// watchedDirs is the sentry's record of watchers. A sentry that continues from an image starts with
// an empty record; init keeps the directories.
type watchedDirs struct {
	ready chan struct{} // has an element while pending is not empty

	mu      sync.Mutex
	pending []string               // directories that init has not asked for yet
	files   map[string]*vfs.Dentry // directly watched files; holds no references
}

// wrapAdd wraps inotify_add_watch: it notes the watches of programs, and raises events for init.
func (w *watchedDirs) wrapAdd(fn kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, nr uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		init := isInit(t)
		if init && args[0].Int() == wire.RaiseEvent {
			return 0, nil, w.raiseEvent(t, args)
		}
		n, ctl, err := fn(t, nr, args)
		if err == nil && !init {
			w.noteTarget(t, target{dir: linux.AT_FDCWD, path: args[1].Pointer(), follow: args[2].Uint()&linux.IN_DONT_FOLLOW == 0})
		}
		return n, ctl, err
	}
}

// wrapNext wraps readlinkat, which returns the directories to init.
func (w *watchedDirs) wrapNext(fn kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, nr uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		if args[0].Int() != wire.NextWatched || !isInit(t) {
			return fn(t, nr, args)
		}
		n, err := w.nextDirectory(t, args)
		return n, nil, err
	}
}

func isInit(t *kernel.Task) bool { return t.ThreadGroup() == t.Kernel().GlobalInit() }

// noteTarget remembers the target of a program's watch.
func (w *watchedDirs) noteTarget(t *kernel.Task, of target) {
	found, ok := of.findFile(t)
	if !ok {
		return
	}
	defer found.DecRef(t)
	if !isShared(found.Mount().Filesystem()) {
		return
	}
	root, ok := initRoot(t)
	if !ok {
		return
	}
	defer root.DecRef(t)
	fs := t.Kernel().VFS()
	path, err := fs.PathnameReachable(t, root, found)
	if err != nil || path == "" || len(path) > wire.MaxPath { // gVisor makes paths of any length
		return
	}
	st, err := fs.StatAt(t, t.Credentials(), &vfs.PathOperation{Root: root, Start: found}, &vfs.StatOptions{Mask: linux.STATX_TYPE})
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if st.Mode&linux.S_IFMT != linux.S_IFDIR {
		if w.files == nil {
			w.files = map[string]*vfs.Dentry{}
		}
		if len(w.files) < maxWatchedFiles {
			w.files[path] = found.Dentry()
		}
		path = filepath.Dir(path)
	}
	if len(w.pending) > 0 && w.pending[len(w.pending)-1] == path || len(w.pending) >= maxPendingDirs {
		return
	}
	w.pending = append(w.pending, path)
	w.signal()
}

func (w *watchedDirs) signal() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// nextDirectory returns one directory to init, and waits for it.
func (w *watchedDirs) nextDirectory(t *kernel.Task, args arch.SyscallArguments) (uintptr, error) {
	for {
		if path, ok := w.takePath(int(args[3].SizeT())); ok {
			n, err := t.CopyOutBytes(args[2].Pointer(), []byte(path))
			return uintptr(n), err
		}
		if err := t.Block(w.ready); err != nil {
			return 0, linuxerr.ConvertIntr(err, linuxerr.ERESTARTSYS)
		}
	}
}

// takePath skips a path that does not fit into init's buffer.
func (w *watchedDirs) takePath(room int) (path string, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.pending) > 0 && !ok {
		path = w.pending[0]
		w.pending = w.pending[1:]
		ok = len(path) <= room
	}
	if len(w.pending) > 0 {
		w.signal()
	}
	return path, ok
}

// entryEvents concern a name in a directory; the others concern a file.
const entryEvents = linux.IN_CREATE | linux.IN_DELETE | linux.IN_MOVED_FROM | linux.IN_MOVED_TO

// raiseEvent tells the watchers of a path about a change by the host. The lookup of the path makes the
// sentry drop cached data of a file that does not exist any more.
func (w *watchedDirs) raiseEvent(t *kernel.Task, args arch.SyscallArguments) error {
	text, err := t.CopyInString(args[1].Pointer(), linux.PATH_MAX)
	if err != nil {
		return err
	}
	number, path, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || !filepath.IsAbs(path) {
		return linuxerr.EINVAL
	}
	mask, cookie := args[2].Uint(), uint32(n)
	dir, err := lookUp(t, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.DecRef(t)
	file, err := lookUp(t, path)
	if err == nil {
		defer file.DecRef(t)
	}
	w.replaced(t, path, file)
	switch {
	case !isShared(dir.Mount().Filesystem()):
		return linuxerr.EINVAL
	case mask&entryEvents != 0:
		dir.Dentry().Watches().Notify(t, filepath.Base(path), mask, cookie, vfs.InodeEvent, false)
	case err == nil && isShared(file.Mount().Filesystem()):
		file.Dentry().InotifyWithParent(t, mask, cookie, vfs.InodeEvent)
	}
	return nil
}

// replaced tells the watchers of a file that it has lost its name, as Linux does.
func (w *watchedDirs) replaced(t *kernel.Task, path string, now vfs.VirtualDentry) {
	w.mu.Lock()
	old := w.files[path]
	gone := old != nil && (!now.Ok() || now.Dentry() != old)
	if gone {
		delete(w.files, path)
	}
	w.mu.Unlock()
	if gone && old.IsDead() {
		old.Watches().Notify(t, "", linux.IN_ATTRIB, 0, vfs.InodeEvent, true)
		old.Watches().HandleDeletion(t)
	}
}

// lookUp finds a path as init sees it, and does not follow a link at its end.
func lookUp(t *kernel.Task, path string) (vfs.VirtualDentry, error) {
	root, ok := initRoot(t)
	if !ok {
		return vfs.VirtualDentry{}, linuxerr.ESRCH
	}
	defer root.DecRef(t)
	return t.Kernel().VFS().GetDentryAt(t, t.Credentials(), &vfs.PathOperation{
		Root: root, Start: root, Path: fspath.Parse(path),
	}, &vfs.GetDentryOptions{})
}

// initRoot returns init's root directory, with a reference. Init has none while it ends, and other
// programs still run then.
func initRoot(t *kernel.Task) (root vfs.VirtualDentry, ok bool) {
	root = t.Kernel().GlobalInit().Leader().FSContext().RootDirectory()
	return root, root.Ok()
}
