package keeper

import (
	"log/slog"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// status keeps status.json true. Only the keeper writes it while it lives.
type status struct {
	dir store.Sandbox
	log *slog.Logger

	mu   sync.Mutex
	st   spec.Status
	soon *time.Timer // that writes it; nil: there is nothing to write
}

func (s *status) get() spec.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.st
}

// update changes the status and writes it down. A disk that refuses is logged:
// the status file is advice, the lock is the truth.
func (s *status) update(change func(*spec.Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.st)
	if err := store.WriteJSON(s.dir.Status(), s.st); err != nil {
		s.log.Warn("write status", "err", err)
	}
}

// note changes the status, which is written with the next update: whoever asks the
// keeper hears of it at once, and it is not worth a sync.
func (s *status) note(change func(*spec.Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.st)
}

// used notes that somebody uses the sandbox now, which every exec does.
func (s *status) used() {
	now := time.Now().UTC()
	s.note(func(st *spec.Status) { st.UsedAt = &now })
}

// waiting notes since when the agent waits for a person. What it says next must
// not wait for a disk: it is written soon, and only the last word of it.
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

// writeSoon is how long a change that is no hurry waits for others.
const writeSoon = 500 * time.Millisecond
