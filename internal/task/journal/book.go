// Package journal keeps the tasks of a project on the disk, in one file to which
// every change is appended as a line and made durable before it is acknowledged.
//
// A line begins with the checksum of the rest and holds whole tasks; what a task
// is last is what it is. So a change is there or it is not, and what a crash leaves
// at the end is known for what it is and dropped. When most of the file is past, it
// is written anew and renamed. Whoever changes tasks holds a lock meanwhile.
//
// The file lies in the state directory, where no sandbox can write, and not in the
// project, where all of them can.
package journal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// Book is the tasks of one project.
type Book struct {
	dir     string // of its files; need not exist
	project string // real path
}

var _ task.Store = (*Book)(nil)

// Names of a book's files.
const (
	fileName = "journal"
	lockName = "lock"
)

// Open gives the book of a project, which is a directory called by its real path.
// root is where all books are. Nothing is made before the first change.
func Open(root, project string) *Book {
	return &Book{filepath.Join(root, nameOf(project)), project}
}

// Nearest gives the book of a directory or, if that has none, of the nearest one
// above it that has; if none has, of the directory itself.
func Nearest(root, dir string) *Book {
	for at := dir; ; at = filepath.Dir(at) {
		b := Open(root, at)
		if _, err := os.Lstat(b.file()); err == nil {
			return b
		}
		if at == filepath.Dir(at) {
			return Open(root, dir)
		}
	}
}

// Projects counts the projects that have tasks.
func Projects(root string) (int, error) {
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("count the projects with tasks: %w", err)
	}
	n := 0
	for _, e := range entries {
		if _, err := os.Lstat(filepath.Join(root, e.Name(), fileName)); err == nil {
			n++
		}
	}
	return n, nil
}

// Project is the directory whose tasks these are.
func (b *Book) Project() string { return b.project }

func (b *Book) file() string { return filepath.Join(b.dir, fileName) }

// nameOf is what a project's directory of files is called: as much of its name as
// is plain, for people, and a hash of its path.
func nameOf(project string) string {
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, filepath.Base(project))
	sum := sha256.Sum256([]byte(project))
	return plain[:min(len(plain), 40)] + "-" + hex.EncodeToString(sum[:8])
}

// View gives the tasks as they are.
func (b *Book) View(ctx context.Context) (*task.Graph, error) {
	if _, err := os.Lstat(b.file()); errors.Is(err, fs.ErrNotExist) {
		return task.NewGraph(), nil
	}
	held, err := store.ShareLock(filepath.Join(b.dir, lockName))
	if err != nil {
		return nil, err
	}
	defer held.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l, err := b.load()
	if err != nil {
		return nil, err
	}
	return l.graph, nil
}

// Change changes tasks; see task.Store.
func (b *Book) Change(ctx context.Context, f func(*task.Graph) error) error {
	held, err := b.lock()
	if err != nil {
		return err
	}
	defer held.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	store.SweepTemp(b.dir, 0) // nobody else writes here: the lock is ours
	l, err := b.load()
	if errors.Is(err, fs.ErrNotExist) {
		l, err = &loaded{graph: task.NewGraph()}, nil
	}
	if err != nil {
		return err
	}
	if err := f(l.graph); err != nil {
		return err
	}
	changed := l.graph.Changed()
	if len(changed) == 0 {
		return nil
	}
	if err := b.keep(l, changed); err != nil {
		return (&spec.Error{Op: "keep the change of tasks", Err: err}).
			WithHint("nothing was changed; make room on the disk of %s", b.dir)
	}
	return nil
}

// lock makes the directory, if it has to, and takes the lock.
func (b *Book) lock() (*store.Lock, error) {
	root := filepath.Dir(b.dir)
	_, err := os.Lstat(b.dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.MkdirAll(b.dir, 0o700)
		for _, dir := range []string{root, filepath.Dir(root)} { // their names must survive, too
			if err == nil {
				err = store.SyncDir(dir)
			}
		}
	}
	if err != nil {
		return nil, &spec.Error{Op: "open the tasks of " + b.project, Err: err}
	}
	return store.WaitLock(filepath.Join(b.dir, lockName))
}

// keep makes changed tasks durable.
func (b *Book) keep(l *loaded, changed []*task.Task) error {
	if l.size == 0 {
		return b.rewrite(l.graph, 0)
	}
	line, err := record(l.seq+1, changed)
	if err != nil {
		return err
	}
	size := l.size + int64(len(line))
	if size > maxFile { // it could not be read again
		return spec.Errorf(spec.ErrConflict, "the tasks of %s would take more than %d MiB", b.project, maxFile>>20).
			WithHint("export them, and begin anew with those that are open")
	}
	if err := b.append(l, line); err != nil {
		return err
	}
	if size > rewriteFrom && size > rewriteFactor*l.live || size > maxFile/2 {
		// The change is kept. If this fails the next change tries again.
		_ = b.rewrite(l.graph, l.seq+1)
	}
	return nil
}

// The file is written anew when it is larger than so many bytes, and so many times
// as large as what counts of it.
const (
	rewriteFrom   = 256 << 10
	rewriteFactor = 4
)

// append puts a line behind the last one that counts.
func (b *Book) append(l *loaded, line []byte) (err error) {
	f, err := os.OpenFile(b.file(), os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil { // what was not acknowledged is no longer there, or known as torn
			_ = f.Truncate(l.size)
			_ = f.Sync()
		}
		_ = f.Close()
	}()
	if err := f.Truncate(l.size); err != nil { // what a crash left
		return err
	}
	if _, err := f.WriteAt(line, l.size); err != nil {
		return err
	}
	return f.Sync()
}

// rewrite replaces the file by one that holds nothing past.
func (b *Book) rewrite(g *task.Graph, seq int64) error {
	data, err := head(b.project, seq)
	if err != nil {
		return err
	}
	const perLine = 64
	for list := g.All(); len(list) > 0; {
		n := min(len(list), perLine)
		seq++
		line, err := record(seq, list[:n])
		if err != nil {
			return err
		}
		data, list = append(data, line...), list[n:]
	}
	return store.WriteFile(b.file(), data)
}

// load reads the file.
func (b *Book) load() (*loaded, error) {
	data, err := store.ReadFile(b.file(), unix.O_NOFOLLOW, maxFile)
	if err != nil {
		return nil, (&spec.Error{Op: "read the tasks of " + b.project, Err: err})
	}
	l, err := parse(data, b.project)
	if err != nil {
		hint := fmt.Sprintf("%s is left as it is; move it away, and import what was exported last", b.file())
		if bad, ok := errors.AsType[*damaged](err); ok && bad.line > 1 {
			hint = fmt.Sprintf("%s is left as it is; what stands before the damage is had by: cp FILE FILE.damaged; head -n %d FILE.damaged > FILE", b.file(), bad.line-1)
		}
		return nil, (&spec.Error{Op: "read the tasks of " + b.project, Err: err}).WithHint("%s", hint)
	}
	return l, nil
}

// maxFile bounds what is read, in bytes.
const maxFile = 1 << 30
