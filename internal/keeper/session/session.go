// Package session holds the running programs of a sandbox: their terminals, output, input and ends.
package session

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/keeper/initlink"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Kinds of session: the agent, and any other command.
const (
	KindAgent = "agent"
	KindExec  = "exec"
)

// Session is one running program and its viewers.
type Session struct {
	info   spec.Session
	stream *initlink.Stream // under init: with a terminal, or detached
	proc   driver.Running   // started by the wall: with the caller's own descriptors
	ending Ending
	log    io.Writer // output of a detached session; may be nil
	idle   *idle     // of the agent at its terminal; else nil

	sizing  sync.Mutex // held while a size is determined and sent
	mu      sync.Mutex // guards all below, and the sizes of the viewers
	viewers map[*Viewer]bool
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

// Ending tells programs that end with the sandbox how it ended.
type Ending struct {
	Explain func() error    // explains the end; waits for it a little
	Fell    <-chan struct{} // closed when the sandbox has ended
}

// UnderInit makes a session of a program under init. Its output goes to log, too, unless that is nil.
func UnderInit(st *initlink.Stream, log io.Writer, e Ending) *Session {
	return &Session{stream: st, log: log, ending: e}
}

// Direct makes a session of a program that the wall started with its caller's own descriptors.
func Direct(proc driver.Running, e Ending) *Session {
	return &Session{proc: proc, ending: e}
}

// Info returns the session as it was entered into a table.
func (s *Session) Info() spec.Session { return s.info }

// Done is closed when the program has ended.
func (s *Session) Done() <-chan struct{} { return s.life.Done() }

// Result returns how the program ended, once it has.
func (s *Session) Result() (exit wire.Ended, err error) { return s.exit, s.err }

// ReportIdle makes the session call tell with the time since which the program waits for a person, or
// nil when it does not wait. runs says that the program has run for a while: before its first output a
// new one only starts up.
func (s *Session) ReportIdle(tell func(since *time.Time), runs bool) {
	s.idle = newIdle(idleTime, tell)
	if runs {
		s.idle.noteOutput()
	}
}

// Viewer is a terminal attached to a session.
type Viewer struct {
	conn *unixconn.Conn
	size wire.Winsize
}

// NewViewer makes a viewer of a caller's terminal.
func NewViewer(c *unixconn.Conn, size wire.Winsize) *Viewer { return &Viewer{conn: c, size: size} }

// CarryOutput carries a session's output to its viewers and its log until the session ends. A slow viewer
// slows the program, like a slow terminal. Without viewers output is only logged.
func (s *Session) CarryOutput() {
	for {
		f, ok := s.stream.Output()
		if !ok {
			s.finish(wire.Ended{}, s.ending.Explain())
			return
		}
		if f.Kind == wire.Exit {
			ended, err := f.Ended()
			s.finish(ended, err)
			return
		}
		if s.idle != nil {
			s.idle.noteOutput()
		}
		s.noteOutput()
		if s.log != nil {
			_, _ = s.log.Write(f.Payload)
		}
		for _, v := range s.watching() {
			if v.conn.Send(wire.Frame{Kind: f.Kind, Payload: f.Payload}) != nil {
				s.detach(v)
			}
		}
		s.stream.Grant(f)
	}
}

// AwaitEnd waits for the end of a session that the wall started.
func (s *Session) AwaitEnd() {
	exit, err := s.proc.Wait()
	if err != nil || exit.Signal == int(unix.SIGKILL) && s.hasFallen() {
		err = s.ending.Explain()
	}
	s.finish(wire.Ended{Code: exit.Code, Signal: exit.Signal}, err)
}

// fallenTime is how long after a program was killed the fall of its sandbox may be noticed.
const fallenTime = 100 * time.Millisecond

func (s *Session) hasFallen() bool {
	select {
	case <-s.ending.Fell:
		return true
	case <-time.After(fallenTime):
		return false
	}
}

func (s *Session) finish(exit wire.Ended, err error) {
	s.mu.Lock()
	if s.late != nil {
		err = s.late
	}
	s.exit, s.err = exit, err
	viewers := s.viewers
	s.viewers = map[*Viewer]bool{}
	s.end()
	s.mu.Unlock()
	for v := range viewers {
		_ = s.TellEnd(v.conn)
	}
}

// TellEnd tells a caller how the program ended.
func (s *Session) TellEnd(c *unixconn.Conn) error {
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

func (s *Session) watching() []*Viewer {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*Viewer, 0, len(s.viewers))
	for v := range s.viewers {
		out = append(out, v)
	}
	return out
}

// Attach adds a viewer. It is false if the session has ended.
func (s *Session) Attach(v *Viewer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return false
	}
	s.viewers[v] = true
	return true
}

func (s *Session) detach(v *Viewer) {
	s.restoreSize() // without viewers it keeps its size
	s.mu.Lock()
	delete(s.viewers, v)
	s.mu.Unlock()
	s.resize()
}

// sendSignal sends a signal to the program and all of its process group.
func (s *Session) sendSignal(sig int) error {
	if s.proc != nil {
		return s.proc.Signal(sig)
	}
	return s.stream.Signal(sig)
}
