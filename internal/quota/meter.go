// Package quota tells how much of the disk trees take, and when that has to be looked
// at again.
//
// What is in the trees is written by programs in sandboxes, also while it is counted:
// names and links are theirs, and how many there are, and how deep. A [Meter] bounds
// what it holds for that, and follows nothing out of a tree. To count is expensive, to
// ask a file system what is free costs nothing: a [Watch] has trees counted only if so
// much has gone since that it matters.
package quota

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"
)

// Use is what trees take of a disk, or may take.
type Use struct {
	Bytes int64 // allocated, as du counts: neither the length of files nor what of them is a hole
	Files int64 // names of files, directories, links: a file with two names is two
}

// Plus is the sum of two.
func (u Use) Plus(v Use) Use { return Use{u.Bytes + v.Bytes, u.Files + v.Files} }

// Minus is what is left of one without another. It may be negative.
func (u Use) Minus(v Use) Use { return Use{u.Bytes - v.Bytes, u.Files - v.Files} }

// Within tells whether neither is more than allowed.
func (u Use) Within(most Use) bool { return u.Bytes <= most.Bytes && u.Files <= most.Files }

// ErrMany says that there are more names than [Meter.Most]: not all were counted.
var ErrMany = errors.New("too many files to count")

// Meter adds up what trees take of the disk. What a file with several names takes
// counts for the tree it is seen in first. The zero value is ready.
type Meter struct {
	// Most ends counting with ErrMany beyond so many names. Default: there may be any
	// number.
	Most int64
	// Pace is called again and again while it counts; it may wait, and ends it with an
	// error. Default: nobody is waited for.
	Pace func(context.Context) error
	// Unread counts the directories that could not be looked into, or were moved away
	// while they were: what they hold is in no sum.
	Unread int

	files int64 // names seen
	seen  map[fileID]struct{}
	left  map[fileID]struct{}
}

type fileID struct{ dev, ino uint64 }

// maxSeen bounds how many files with several names are remembered, about 16 MiB of
// memory. Of those beyond, each name counts for its share, which comes to the same if
// all of their names are seen.
const maxSeen = 1 << 18

// blockSize is that of what stat counts, whatever the file system's.
const blockSize = 512

// Leave has a directory count without what is in it, which is known to be nothing.
func (m *Meter) Leave(path string) {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return
	}
	if m.left == nil {
		m.left = map[fileID]struct{}{}
	}
	m.left[idOf(&st)] = struct{}{}
}

func (m *Meter) leaves(st *unix.Stat_t) bool {
	_, left := m.left[idOf(st)]
	return left
}

// Add measures a file or a tree, in bytes.
func (m *Meter) Add(path string) int64 {
	u, _ := m.Count(context.Background(), path)
	return u.Bytes
}

// Count measures a file or a tree. No link is followed; what is gone is nothing. With
// an error, what was counted until then is given.
func (m *Meter) Count(ctx context.Context, path string) (Use, error) {
	w := walk{meter: m}
	defer w.end()
	if err := w.visit(ctx, unix.AT_FDCWD, path); err != nil {
		return w.use, err
	}
	for len(w.levels) > 0 {
		if err := w.next(ctx); err != nil {
			return w.use, err
		}
	}
	return w.use, nil
}

// weigh gives what a file counts for.
func (m *Meter) weigh(st *unix.Stat_t) int64 {
	size := st.Blocks * blockSize
	if st.Nlink < 2 || st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return size
	}
	if len(m.seen) >= maxSeen {
		if _, again := m.seen[idOf(st)]; again {
			return 0
		}
		return size / int64(st.Nlink)
	}
	if m.again(idOf(st)) {
		return 0
	}
	return size
}

// again tells whether a file was seen before, and remembers it as long as there are not
// too many.
func (m *Meter) again(id fileID) bool {
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

func idOf(st *unix.Stat_t) fileID {
	return fileID{uint64(st.Dev), st.Ino} //nolint:unconvert // its type differs between machines
}
