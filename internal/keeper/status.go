package keeper

import (
	"log/slog"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// status keeps status.json up to date. Only the keeper writes it while the keeper lives.
type status struct {
	dir store.Sandbox
	log *slog.Logger

	mu   sync.Mutex
	st   spec.Status
	soon *time.Timer // writes it; nil: nothing to write
}

func (s *status) get() spec.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.st
}

// update changes the status and writes it. A failed write is only logged: the status file is
// advice, the lock is the truth.
func (s *status) update(change func(*spec.Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.st)
	if err := store.WriteJSON(s.dir.Status(), s.st); err != nil {
		s.log.Warn("write status", "err", err)
	}
}

// note changes the status in memory; the next update writes it. Callers that ask the keeper see it
// at once, and the change is not worth a sync.
func (s *status) note(change func(*spec.Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.st)
}

// used notes that the sandbox is in use now; every exec does so.
func (s *status) used() {
	now := time.Now().UTC()
	s.note(func(st *spec.Status) { st.UsedAt = &now })
}

// waiting notes since when the agent waits for a person. The agent's next output must not wait for
// a disk: the file is written soon, with only the latest value.
func (s *status) waiting(since *time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.st.WaitingSince = since
	if s.soon == nil {
		s.soon = time.AfterFunc(writeSoon, func() {
			s.mu.Lock()
			s.soon = nil
			s.mu.Unlock()
			s.update(func(*spec.Status) {})
		})
	}
}

// writeSoon is how long a change that is not urgent waits for others.
const writeSoon = 500 * time.Millisecond
