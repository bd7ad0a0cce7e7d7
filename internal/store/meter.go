package store

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Meter adds up what trees take of the disk. A file with several names counts for
// the tree it is seen in first. The zero value is ready.
type Meter struct {
	// Unread counts the directories that could not be looked into: what they hold is
	// in no sum.
	Unread int

	seen map[fileID]bool
}

type fileID struct{ dev, ino uint64 }

// meterDepth bounds the directories that are open at a time: how deep a tree is, is
// for whoever is inside to say.
const meterDepth = 200

// meterBatch is how many names of a directory are read at a time.
const meterBatch = 256

// blockSize is that of what stat counts, whatever the file system's.
const blockSize = 512

// Add measures a file or a tree, in bytes. No link is followed; what is gone is
// nothing.
func (m *Meter) Add(path string) int64 { return m.add(unix.AT_FDCWD, path, 0) }

func (m *Meter) add(parent int, name string, depth int) int64 {
	var st unix.Stat_t
	if err := unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return 0
	}
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if !isDir && st.Nlink > 1 && m.again(fileID{uint64(st.Dev), st.Ino}) { //nolint:unconvert // its type differs between machines
		return 0
	}
	size := st.Blocks * blockSize
	if isDir {
		size += m.within(parent, name, depth)
	}
	return size
}

// again tells whether a file was seen before.
func (m *Meter) again(id fileID) bool {
	if m.seen[id] {
		return true
	}
	if m.seen == nil {
		m.seen = map[fileID]bool{}
	}
	m.seen[id] = true
	return false
}

// within measures what a directory holds.
func (m *Meter) within(parent int, name string, depth int) (size int64) {
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENOENT) {
		return 0
	}
	if err != nil || depth >= meterDepth {
		if err == nil {
			unix.Close(fd)
		}
		m.Unread++
		return 0
	}
	d := os.NewFile(uintptr(fd), name)
	defer d.Close()
	for {
		names, err := d.Readdirnames(meterBatch)
		for _, n := range names {
			size += m.add(fd, n, depth+1)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				m.Unread++
			}
			return size
		}
	}
}
