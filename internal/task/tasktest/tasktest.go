// Package tasktest keeps tasks in memory, for tests of their users.
package tasktest

import (
	"context"
	"sync"

	"github.com/bothy-dev/bothy/internal/task"
)

// Store is a task.Store that is gone with the test.
type Store struct {
	mu   sync.Mutex
	docs map[string][]byte
}

var _ task.Store = (*Store)(nil)

func (s *Store) loadGraph() (*task.Graph, error) {
	g := task.NewGraph()
	for _, doc := range s.docs {
		t, err := task.Decode(doc)
		if err != nil {
			return nil, err
		}
		g.Load(t)
	}
	return g, nil
}

// View returns the current tasks.
func (s *Store) View(ctx context.Context) (*task.Graph, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.loadGraph()
}

// Change changes tasks; see task.Store.
func (s *Store) Change(ctx context.Context, f func(*task.Graph) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	g, err := s.loadGraph()
	if err != nil {
		return err
	}
	if err := f(g); err != nil {
		return err
	}
	if s.docs == nil {
		s.docs = map[string][]byte{}
	}
	for _, t := range g.Changed() {
		if s.docs[t.ID], err = t.Encode(); err != nil {
			return err
		}
	}
	return nil
}
