package session

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Table is the table of running programs.
type Table struct {
	mu   sync.Mutex          // guards all below; a session's own mutex is taken after it
	next int                 // the number of the last session
	live map[string]*Session // by number
}

// NewTable returns an empty table.
func NewTable() *Table { return &Table{live: map[string]*Session{}} }

// Add enters a program that was just started, and numbers it.
func (t *Table) Add(s *Session, kind string, c wire.Command, pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next++
	t.enterLocked(s, spec.Session{
		ID: strconv.Itoa(t.next), Kind: kind, Command: c.Args, TTY: c.TTY, PID: pid, Started: time.Now().UTC(),
	})
}

// Put is Add for a program that already has a number.
func (t *Table) Put(s *Session, info spec.Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.enterLocked(s, info)
}

func (t *Table) enterLocked(s *Session, info spec.Session) {
	s.info = info
	s.viewers = map[*Viewer]bool{}
	s.life, s.end = context.WithCancel(context.Background())
	t.live[s.info.ID] = s
}

// Remove forgets a session that has ended.
func (t *Table) Remove(s *Session) {
	t.mu.Lock()
	delete(t.live, s.info.ID)
	t.mu.Unlock()
	if s.idle != nil {
		s.idle.stopTimer()
	}
}

// Agent returns the main session, if it runs.
func (t *Table) Agent() *Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.live {
		if s.info.Kind == KindAgent && s.stream != nil {
			return s
		}
	}
	return nil
}

// List describes the running programs.
func (t *Table) List() []spec.Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]spec.Session, 0, len(t.live))
	for _, s := range t.live {
		info := s.info
		s.mu.Lock()
		info.Attached = len(s.viewers)
		if s.proc != nil {
			info.Attached = 1
		}
		s.mu.Unlock()
		out = append(out, info)
	}
	return out
}

// HangUp hangs up every session with a terminal, as if its line was cut.
func (t *Table) HangUp() {
	t.mu.Lock()
	live := slices.Collect(maps.Values(t.live))
	t.mu.Unlock()
	for _, s := range live {
		if s.info.TTY {
			_ = s.sendSignal(int(unix.SIGHUP))
		}
	}
}

// maxNotes is how many notes are kept, the latest ones: an event may repeat while a program runs.
const maxNotes = 100

// NoteAll adds a note to the end of every running program.
func (t *Table) NoteAll(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.live {
		s.mu.Lock()
		s.notes = append(s.notes[max(0, len(s.notes)+1-maxNotes):], text)
		s.mu.Unlock()
	}
}

// FailAll makes every running program end with an error.
func (t *Table) FailAll(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.live {
		s.mu.Lock()
		if s.late == nil {
			s.late = err
		}
		s.mu.Unlock()
	}
}
