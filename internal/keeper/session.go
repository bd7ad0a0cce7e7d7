package keeper

import (
	"context"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Kinds of session.
const (
	kindAgent = "agent"
	kindExec  = "exec"
)

// session is one program somebody started, and who watches it.
type session struct {
	info spec.Session
	st   *stream        // under init: with a terminal, or detached
	proc driver.Running // started by the wall: with the caller's own descriptors
	why  func() error   // what became of the sandbox, when it is gone
	fell <-chan struct{}
	log  io.Writer // where a detached session's output goes; may be nil
	hush *hush     // of the agent at its terminal; else nil

	sizing  sync.Mutex // while a size is found and told
	mu      sync.Mutex
	viewers map[*viewer]bool
	drawing *drawing        // while it shall draw itself; else nil
	life    context.Context // ends with the program; exit and err are set then
	end     context.CancelFunc
	exit    wire.Ended
	err     error
	late    error         // why it had to end, if its time was over, or the sandbox's
	limit   time.Duration // how long it may take; 0: as long as it likes
	until   time.Time     // when that is over
	mark    string        // what it hands down to all that it starts
	notes   []string      // what the person should know about the end
}

// viewer is a terminal attached to a session.
type viewer struct {
	conn *unixconn.Conn
	size wire.Winsize
}

// sessions is the table of what runs now.
type sessions struct {
	mu   sync.Mutex
	next int
	live map[string]*session
}

func (t *sessions) add(s *session, kind string, c wire.Command, pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next++
	t.enter(s, spec.Session{
		ID: strconv.Itoa(t.next), Kind: kind, Command: c.Args, TTY: c.TTY, PID: pid, Started: time.Now().UTC(),
	})
}

// put is add for a program that has a number already.
func (t *sessions) put(s *session, info spec.Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.enter(s, info)
}

func (t *sessions) enter(s *session, info spec.Session) {
	s.info = info
	s.viewers = map[*viewer]bool{}
	s.life, s.end = context.WithCancel(context.Background())
	t.live[s.info.ID] = s
}

func (t *sessions) remove(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.live, s.info.ID)
}

// agent is the main session, if it runs.
func (t *sessions) agent() *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.live {
		if s.info.Kind == kindAgent && s.st != nil {
			return s
		}
	}
	return nil
}

func (t *sessions) list() []spec.Session {
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

// pump carries a session's output to its viewers and its log until it ends.
// A slow viewer slows the program, as a slow terminal does; without viewers
// output is only logged.
func (s *session) pump() {
	for {
		f, ok := s.st.output()
		if !ok {
			s.finish(wire.Ended{}, s.why())
			return
		}
		if f.Kind == wire.Exit {
			ended, err := f.Ended()
			s.finish(ended, err)
			return
		}
		if s.hush != nil {
			s.hush.heard()
		}
		s.wrote()
		if s.log != nil {
			_, _ = s.log.Write(f.Payload)
		}
		for _, v := range s.watching() {
			if v.conn.Send(wire.Frame{Kind: f.Kind, Payload: f.Payload}) != nil {
				s.detach(v)
			}
		}
		s.st.grant(f)
	}
}

// wait collects a session that the wall started.
func (s *session) wait() {
	exit, err := s.proc.Wait()
	if err != nil || exit.Signal == int(unix.SIGKILL) && s.fallen() {
		err = s.why()
	}
	s.finish(wire.Ended{Code: exit.Code, Signal: exit.Signal}, err)
}

// fallenTime is how long after a program was killed its sandbox may be noticed
// to be falling.
const fallenTime = 100 * time.Millisecond

func (s *session) fallen() bool {
	select {
	case <-s.fell:
		return true
	case <-time.After(fallenTime):
		return false
	}
}

func (s *session) finish(exit wire.Ended, err error) {
	s.mu.Lock()
	if s.late != nil {
		err = s.late
	}
	s.exit, s.err = exit, err
	viewers := s.viewers
	s.viewers = map[*viewer]bool{}
	s.end()
	s.mu.Unlock()
	for v := range viewers {
		_ = s.tellEnd(v.conn)
	}
}

// tellEnd tells a caller how the program ended.
func (s *session) tellEnd(c *unixconn.Conn) error {
	s.mu.Lock()
	notes := slices.Clone(s.notes)
	s.mu.Unlock()
	for _, n := range notes {
		if err := c.Send(wire.Frame{Kind: wire.Note, Payload: []byte(n)}); err != nil {
			return err
		}
	}
	if s.err != nil {
		return c.SendError(s.err)
	}
	return c.Send(wire.ExitFrame(0, s.exit))
}

// hangUp does to every session with a terminal what pulling its plug would.
func (t *sessions) hangUp() {
	t.mu.Lock()
	live := slices.Collect(maps.Values(t.live))
	t.mu.Unlock()
	for _, s := range live {
		if s.info.TTY {
			_ = s.signal(int(unix.SIGHUP))
		}
	}
}

// maxNotes is how many notes are kept, the last ones: what is told of may happen again and again
// while a program runs.
const maxNotes = 100

// tell notes something for the end of every program that runs now.
func (t *sessions) tell(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.live {
		s.mu.Lock()
		s.notes = append(s.notes[max(0, len(s.notes)+1-maxNotes):], text)
		s.mu.Unlock()
	}
}

// fail has every program that runs now end with an error.
func (t *sessions) fail(err error) {
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

func (s *session) watching() []*viewer {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*viewer, 0, len(s.viewers))
	for v := range s.viewers {
		out = append(out, v)
	}
	return out
}

// attach adds a viewer. It is false when the session has ended.
func (s *session) attach(v *viewer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return false
	}
	s.viewers[v] = true
	return true
}

func (s *session) detach(v *viewer) {
	s.drawn() // without viewers it keeps the size it has
	s.mu.Lock()
	delete(s.viewers, v)
	s.mu.Unlock()
	s.resize()
}

// signal sends a signal to the program, with all of its process group.
func (s *session) signal(sig int) error {
	if s.proc != nil {
		return s.proc.Signal(sig)
	}
	return s.st.l.send(wire.SignalFrame(s.st.id, sig))
}
