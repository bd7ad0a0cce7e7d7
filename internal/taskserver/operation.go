package taskserver

import (
	"context"

	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// Commands and tools share these operations. Each reads its own arguments. said is all text from inside,
// which counts towards the limits, and f says how tasks are printed.

func (s *Server) showTask(ctx context.Context, id string, f *flags) (string, error) {
	return s.readTasks(ctx, func(g *task.Graph) (string, error) {
		t, err := g.Find(id)
		switch {
		case err != nil:
			return "", err
		case f.json:
			return f.printTasks([]*task.Task{t})
		}
		return s.taskPage(g, t), nil
	})
}

func (s *Server) addTask(ctx context.Context, t task.Task, parent string, links []task.Link, said []string, f *flags) (string, error) {
	var made *task.Task
	err := s.change(ctx, spec.TasksAdd, said, func(g *task.Graph) (err error) {
		made, err = g.Add(t, parent, links, s.Who, s.timeNow())
		return err
	})
	if err != nil {
		return "", err
	}
	s.added++
	s.written += perLink * len(links)
	if !f.json {
		return f.printTasks([]*task.Task{made})
	}
	doc, err := made.Encode() // one document and not a list, as in Beads: scripts read .id
	return string(doc) + "\n", err
}

// change is the effect of an update on a task.
type change struct {
	claim, release bool
	status         string           // empty: unchanged
	write          func(*task.Task) // sets its other fields
}

func (s *Server) updateTask(ctx context.Context, id string, c change, said []string, f *flags) (string, error) {
	if err := maySet(c.status); err != nil {
		return "", err
	}
	var t *task.Task
	err := s.change(ctx, spec.TasksWrite, said, func(g *task.Graph) (err error) {
		now := s.timeNow()
		switch {
		case c.claim || c.status == string(task.InProgress):
			if t, err = g.Claim(id, s.Who, task.UsualLease, now); err != nil {
				return err
			}
		case c.release:
			if t, err = g.Release(id, s.Who, false, now); err != nil {
				return err
			}
		}
		t, err = g.Update(id, s.Who, false, now, func(t *task.Task) error {
			if c.status != "" && c.status != string(task.InProgress) {
				t.Status = task.Status(c.status)
			}
			c.write(t)
			return nil
		})
		return err
	})
	if err != nil {
		return "", err
	}
	return f.printTasks([]*task.Task{t})
}

func (s *Server) linkTask(ctx context.Context, id string, to task.Link, said []string, f *flags) (string, error) {
	var t *task.Task
	err := s.change(ctx, spec.TasksWrite, said, func(g *task.Graph) (err error) {
		t, err = g.Link(id, to, s.Who, s.timeNow())
		return err
	})
	if err != nil {
		return "", err
	}
	return f.printTasks([]*task.Task{t})
}

func (s *Server) closeTasks(ctx context.Context, ids []string, end task.End, said []string, f *flags) (string, error) {
	return s.changeEach(ctx, ids, said, f, func(g *task.Graph, id string) (*task.Task, error) { return g.Finish(id, s.Who, end, s.timeNow()) })
}
