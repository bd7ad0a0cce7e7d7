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
	"github.com/bothy-dev/bothy/internal/keeper/initlink"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Kinds of session.
const (
	kindAgent = "agent"
	kindExec  = "exec"
)

// session is one running program and its viewers.
type session struct {
	info spec.Session
	st   *initlink.Stream // under init: with a terminal, or detached
	proc driver.Running   // started by the wall: with the caller's own descriptors
	why  func() error     // explains the sandbox's end, once it has ended
	fell <-chan struct{}
	log  io.Writer // output of a detached session; may be nil
	hush *hush     // of the agent at its terminal; else nil

	sizing  sync.Mutex // held while a size is determined and sent
	mu      sync.Mutex
	viewers map[*viewer]bool
	drawing *drawing        // while the program is to redraw; else nil
	life    context.Context // ends with the program; exit and err are set then
	end     context.CancelFunc
	exit    wire.Ended
	err     error
	late    error         // why it had to end, if its time or the sandbox's was over
	limit   time.Duration // its time limit; 0: none
	until   time.Time     // when the limit is reached
	mark    string        // handed down to all processes that it starts
	notes   []string      // for the person, about the end
}

// viewer is a terminal attached to a session.
type viewer struct {
	conn *unixconn.Conn
	size wire.Winsize
}

// sessions is the table of running programs.
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

// put is add for a program that already has a number.
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

// agent returns the main session, if it runs.
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

// pump carries a session's output to its viewers and its log until the session ends. A slow viewer
// slows the program, like a slow terminal. Without viewers output is only logged.
func (s *session) pump() {
	for {
		f, ok := s.st.Output()
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
		s.st.Grant(f)
	}
}

// wait waits for the end of a session that the wall started.
func (s *session) wait() {
	exit, err := s.proc.Wait()
	if err != nil || exit.Signal == int(unix.SIGKILL) && s.fallen() {
		err = s.why()
	}
	s.finish(wire.Ended{Code: exit.Code, Signal: exit.Signal}, err)
}

// fallenTime is how long after a program was killed the fall of its sandbox may be noticed.
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

// hangUp hangs up every session with a terminal, as if its line was cut.
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

// maxNotes is how many notes are kept, the latest ones: an event may repeat while a program runs.
const maxNotes = 100

// tell adds a note to the end of every running program.
func (t *sessions) tell(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.live {
		s.mu.Lock()
		s.notes = append(s.notes[max(0, len(s.notes)+1-maxNotes):], text)
		s.mu.Unlock()
	}
}

// fail makes every running program end with an error.
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

// attach adds a viewer. It is false if the session has ended.
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
	s.drawn() // without viewers it keeps its size
	s.mu.Lock()
	delete(s.viewers, v)
	s.mu.Unlock()
	s.resize()
}

// signal sends a signal to the program and all of its process group.
func (s *session) signal(sig int) error {
	if s.proc != nil {
		return s.proc.Signal(sig)
	}
	return s.st.Signal(sig)
}
