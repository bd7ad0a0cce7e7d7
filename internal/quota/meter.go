// Package quota measures how much disk space trees take, and decides when to measure again.
//
// Programs in sandboxes write the trees, also during a count. They choose the names and links, and how
// many and how deep they are. So a [Meter] bounds its memory, and does not follow anything out of a
// tree. Counting is expensive, while asking a file system for its free space costs nothing. So a [Watch]
// counts trees only if the free space has shrunk enough since the last count to matter.
package quota

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"
)

// Use is the disk usage of trees, or a limit for it.
type Use struct {
	Bytes int64 // allocated, as du counts: neither file lengths nor holes
	Files int64 // names of files, directories, links: a file with two names is two
}

// Plus returns the sum of two.
func (u Use) Plus(v Use) Use { return Use{u.Bytes + v.Bytes, u.Files + v.Files} }

// Minus returns the difference of two. It may be negative.
func (u Use) Minus(v Use) Use { return Use{u.Bytes - v.Bytes, u.Files - v.Files} }

// Within reports whether neither exceeds its limit.
func (u Use) Within(most Use) bool { return u.Bytes <= most.Bytes && u.Files <= most.Files }

// ErrMany reports more names than [Meter.Most]: not all were counted.
var ErrMany = errors.New("too many files to count")

// Meter adds up the disk usage of trees. A file with several names counts for the tree it
// is seen in first. The zero value is ready.
type Meter struct {
	// Most ends counting with ErrMany beyond this many names. Default: no limit.
	Most int64
	// Pace is called regularly during a count. It may wait, and ends the count with an
	// error. Default: the count does not wait.
	Pace func(context.Context) error
	// Unread counts the directories that could not be read, or were moved away during the read: their
	// contents are not counted.
	Unread int

	files int64 // names seen
	seen  map[fileID]struct{}
	left  map[fileID]struct{}
}

type fileID struct{ dev, ino uint64 }

// maxSeen bounds how many files with several names are remembered, about 16 MiB of memory. For files
// beyond, each name counts for its share, which gives the same sum if all their names are seen.
const maxSeen = 1 << 18

// blockSize is the unit of stat's block count on every file system.
const blockSize = 512

// Leave makes a directory count without its content, which the caller knows to be empty.
func (m *Meter) Leave(path string) {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return
	}
	if m.left == nil {
		m.left = map[fileID]struct{}{}
	}
	m.left[identify(&st)] = struct{}{}
}

func (m *Meter) leaves(st *unix.Stat_t) bool {
	_, left := m.left[identify(st)]
	return left
}

// Add measures a file or a tree, in bytes.
func (m *Meter) Add(path string) int64 {
	u, _ := m.Count(context.Background(), path)
	return u.Bytes
}

// Count measures a file or a tree. It follows no link; a missing file counts as nothing.
// With an error, it returns the count so far.
func (m *Meter) Count(ctx context.Context, path string) (Use, error) {
	w := walk{meter: m}
	defer w.closeAll()
	if err := w.visitName(ctx, unix.AT_FDCWD, path); err != nil {
		return w.use, err
	}
	for len(w.levels) > 0 {
		if err := w.visitNext(ctx); err != nil {
			return w.use, err
		}
	}
	return w.use, nil
}

// weighFile returns the bytes that a file counts for.
func (m *Meter) weighFile(st *unix.Stat_t) int64 {
	size := st.Blocks * blockSize
	if st.Nlink < 2 || st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return size
	}
	if len(m.seen) >= maxSeen {
		if _, again := m.seen[identify(st)]; again {
			return 0
		}
		return size / int64(st.Nlink)
	}
	if m.seenBefore(identify(st)) {
		return 0
	}
	return size
}

// seenBefore reports whether a file was seen before, and remembers it unless there are too many.
func (m *Meter) seenBefore(id fileID) bool {
	if _, again := m.seen[id]; again {
		return true
	}
	if m.seen == nil {
		m.seen = map[fileID]struct{}{}
	}
	if len(m.seen) < maxSeen {
		m.seen[id] = struct{}{}
	}
	return false
}

func identify(st *unix.Stat_t) fileID {
	return fileID{uint64(st.Dev), st.Ino} //nolint:unconvert // its type differs between machines
}
