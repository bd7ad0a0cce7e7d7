// Package book gives programs access to the tasks of projects. A separate process keeps the database
// (package database); a book starts that process on the first use. So no program that serves a sandbox
// opens a database.
//
// The database is in the state directory, where no sandbox can write, and not in the project,
// where all of them can.
package book

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// FileName is the name of the database in the directory of all tasks.
const FileName = "tasks.db"

// Book is the tasks of one project. It is safe for concurrent use.
type Book struct {
	project string // real path
	clerk   *clerk
}

var _ task.Store = (*Book)(nil)

// Open returns the book of a project, which is a directory named by its real path. root is the
// directory of the tasks of all projects. No file is made before the first change.
func Open(root, project string) *Book { return OpenBy(self, root, project) }

// OpenBy is Open for a program that cannot keep tasks itself: it starts the given program for that.
func OpenBy(program, root, project string) *Book { return &Book{project, newClerk(program, root)} }

// NearestTo returns the book of a directory. If that has no tasks, it returns the book of the nearest
// parent directory that has some, or else the directory's own.
func NearestTo(ctx context.Context, root, dir string) (*Book, error) {
	b := Open(root, dir)
	if ok, err := b.mayHaveTasks(); !ok {
		return b, err
	}
	err := b.clerk.serveCaller(ctx, func(d *desk) error {
		a, err := d.askOrder(ctx, Nearest, dir, nil)
		if len(a.Project) > 0 {
			b.project = string(a.Project)
		}
		return err
	})
	if err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// CountProjects counts the projects that have tasks.
func CountProjects(ctx context.Context, root string) (n int, err error) {
	b := Open(root, "")
	if ok, err := b.mayHaveTasks(); !ok {
		return 0, err
	}
	defer b.Close()
	err = b.clerk.serveCaller(ctx, func(d *desk) error {
		a, err := d.askOrder(ctx, Projects, "", nil)
		n = a.Count
		return err
	})
	return n, err
}

// Check reads all of the database, and returns an error if it is damaged.
func Check(ctx context.Context, root string) error {
	b := Open(root, "")
	if ok, err := b.mayHaveTasks(); !ok {
		return err
	}
	defer b.Close()
	return b.clerk.serveCaller(ctx, func(d *desk) error {
		_, err := d.askOrder(ctx, CheckAll, "", nil)
		return err
	})
}

// Project returns the directory of the project.
func (b *Book) Project() string { return b.project }

// Close ends the process behind the book, if one runs, and waits for it. The book can be used
// again.
func (b *Book) Close() { b.clerk.close() }

// mayHaveTasks reports whether any project can have tasks.
func (b *Book) mayHaveTasks() (bool, error) {
	_, err := os.Lstat(filepath.Join(b.clerk.root, FileName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, noJournals(b.clerk.root)
	}
	return true, nil
}

// View returns the current tasks.
func (b *Book) View(ctx context.Context) (g *task.Graph, err error) {
	if ok, err := b.mayHaveTasks(); !ok {
		return task.NewGraph(), err
	}
	err = b.clerk.serveCaller(ctx, func(d *desk) error {
		g, err = d.askGraph(ctx, View, b.project)
		return err
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Change changes tasks; see task.Store. ctx bounds the wait for others. After f was called, its
// changes are kept.
func (b *Book) Change(ctx context.Context, f func(*task.Graph) error) error {
	return b.clerk.serveCaller(ctx, func(d *desk) error {
		g, err := d.askGraph(ctx, Change, b.project)
		if err != nil {
			return err
		}
		if err := f(g); err != nil {
			if d.abortChange() != nil {
				err = &broken{err}
			}
			return err
		}
		changed := g.Changed()
		if len(changed) == 0 {
			return d.abortChange()
		}
		return d.sendChanges(changed)
	})
}

// askGraph asks for the tasks of a project.
func (d *desk) askGraph(ctx context.Context, k Kind, project string) (*task.Graph, error) {
	g, n := task.NewGraph(), 0
	_, err := d.askOrder(ctx, k, project, func(doc []byte) error {
		t, err := task.Decode(doc)
		if err == nil {
			g.Load(t)
			n++
		}
		return err
	})
	if err == nil && g.Len() != n {
		err = &broken{errors.New("two rows of the database have a task of the same ID")}
	}
	if errors.As(err, new(*broken)) && ctx.Err() == nil && !errors.Is(err, errGone) {
		err = &spec.Error{Op: "read the tasks of " + project, Err: err}
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// sendChanges sends changed tasks to be written. A task that cannot be encoded undoes the whole change.
func (d *desk) sendChanges(changed []*task.Task) error {
	for _, t := range changed {
		doc, err := t.Encode()
		if err == nil {
			err = d.Say(Document, doc)
		}
		if err != nil {
			return &broken{&spec.Error{Op: "keep task " + t.ID, Err: err}}
		}
	}
	return d.finish(Commit)
}

func (d *desk) abortChange() error { return d.finish(Abort) }

// finish commits or aborts a change.
func (d *desk) finish(k Kind) error {
	err := d.Say(k, nil)
	if err == nil {
		err = d.Flush()
	}
	if err == nil {
		var a Answer
		if a, err = d.HearAll(nil); err == nil || a.Error != nil {
			return err
		}
	}
	if k == Abort {
		return &broken{err}
	}
	return &broken{spec.Errorf(nil, "%s has ended while it kept a change of tasks: %w", Argv0, err).
		WithHint("the change is kept as a whole, or not at all: look at the tasks before you do it again")}
}
