// Package status keeps the file of a sandbox's status up to date.
package status

import (
	"log/slog"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// File keeps status.json up to date. Only the keeper writes it while the keeper lives.
type File struct {
	dir store.Sandbox
	log *slog.Logger

	mu   sync.Mutex // guards all below; also held while the file is written, so that the last write has the last state
	st   spec.Status
	soon *time.Timer // writes it; nil: nothing to write
}

// New starts from a status that is not written yet.
func New(dir store.Sandbox, log *slog.Logger, st spec.Status) *File {
	return &File{dir: dir, log: log, st: st}
}

// Get returns the status as of now.
func (s *File) Get() spec.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.st
}

// Update changes the status and writes it. A failed write is only logged: the status file is
// advice, the lock is the truth.
func (s *File) Update(change func(*spec.Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.st)
	if err := store.WriteJSON(s.dir.Status(), s.st); err != nil {
		s.log.Warn("write status", "err", err)
	}
}

// Note changes the status in memory; the next update writes it. Callers that ask the keeper see it
// at once, and the change is not worth a sync.
func (s *File) Note(change func(*spec.Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.st)
}

// NoteUsed notes that the sandbox is in use now; every exec does so.
func (s *File) NoteUsed() {
	now := time.Now().UTC()
	s.Note(func(st *spec.Status) { st.UsedAt = &now })
}

// NoteWaiting notes since when the agent waits for a person. The agent's next output must not wait for
// a disk: the file is written soon, with only the latest value.
func (s *File) NoteWaiting(since *time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.st.WaitingSince = since
	if s.soon == nil {
		s.soon = time.AfterFunc(writeSoon, func() {
			s.mu.Lock()
			s.soon = nil
			s.mu.Unlock()
			s.Update(func(*spec.Status) {})
		})
	}
}

// writeSoon is how long a change that is not urgent waits for others.
const writeSoon = 500 * time.Millisecond
