// Package fusefs is a FUSE file system that stops answering when a test wants it to, like a network file
// system without its server. The test's process serves it and keeps it in memory.
package fusefs

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// FS is a mounted file system. It starts with one file, [File], that has [Content].
type FS struct {
	Dir string // where it is mounted

	dev        *os.File
	connection string // its number in /sys/fs/fuse/connections

	mu    sync.Mutex
	mode  mode
	woken *sync.Cond
	held  [][]byte // requests that were read while mode was swallowing
	nodes map[uint64]*node
	last  uint64
	uid   uint32
	gid   uint32
}

type mode int

const (
	answering mode = iota
	deaf
	swallowing
)

// File is the name of the file in its root.
const File = "hello"

// Content is the content of that file.
const Content = "from the file system\n"

// Mount mounts a file system that belongs to uid and gid. The caller is root. [FS.Close] unmounts it.
func Mount(dir string, uid, gid int) (*FS, error) {
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other", dev.Fd(), uid, gid)
	if err := unix.Mount("fusefs", dir, "fuse.fusefs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		_ = dev.Close()
		return nil, fmt.Errorf("mount a FUSE file system: %w", err)
	}
	f := &FS{Dir: dir, dev: dev, nodes: map[uint64]*node{}, uid: uint32(uid), gid: uint32(gid)}
	f.woken = sync.NewCond(&f.mu)
	root := f.add(unix.S_IFDIR | 0o755)
	root.children[File] = f.add(unix.S_IFREG | 0o644)
	root.children[File].data = []byte(Content)
	go f.serve()
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	f.connection = strconv.FormatUint(uint64(unix.Minor(st.Dev)), 10)
	return f, nil
}

// StopReading makes requests wait in the kernel, as if the server were stopped by SIGSTOP. A process
// that waits for one can be killed.
func (f *FS) StopReading() { f.turn(deaf) }

// StopAnswering makes requests be read and not answered, as if the server waited for its network. A
// process that waits for one cannot be killed.
func (f *FS) StopAnswering() { f.turn(swallowing) }

// GoOn answers again, including the requests that arrived meanwhile.
func (f *FS) GoOn() { f.turn(answering) }

func (f *FS) turn(m mode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mode = m
	if m == answering {
		held := f.held
		f.held = nil
		for _, r := range held {
			f.answer(r)
		}
	}
	f.woken.Broadcast()
}

// Close fails all waiting requests, and unmounts the file system.
func (f *FS) Close() error {
	_ = os.WriteFile("/sys/fs/fuse/connections/"+f.connection+"/abort", []byte("1"), 0)
	err := unix.Unmount(f.Dir, unix.MNT_DETACH)
	f.turn(answering)
	return errors.Join(err, f.dev.Close())
}

// serve reads requests until the file system is unmounted. A deaf file system has read at most one
// request.
func (f *FS) serve() {
	buf := make([]byte, 1<<20+4096)
	for {
		f.mu.Lock()
		for f.mode == deaf {
			f.woken.Wait()
		}
		f.mu.Unlock()
		n, err := unix.Read(int(f.dev.Fd()), buf)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return
		}
		f.mu.Lock()
		if f.mode == answering {
			f.answer(buf[:n])
		} else {
			f.held = append(f.held, append([]byte(nil), buf[:n]...))
		}
		f.mu.Unlock()
	}
}
