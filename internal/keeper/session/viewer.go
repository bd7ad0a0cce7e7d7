package session

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
)

// View attaches a terminal to a program that runs already, until either goes.
func (s *Session) View(v *Viewer) error {
	if !s.Attach(v) {
		return s.TellEnd(v.conn)
	}
	if err := v.conn.SendJSON(wire.Reply, wire.Started{Session: s.info.ID, PID: s.info.PID, Existing: true}); err != nil {
		s.detach(v)
		return nil
	}
	s.redraw(drawTime)
	s.Watch(v)
	return nil
}

// Watch carries an attached terminal's input to its program, until either goes. The agent's session
// outlives its terminals. Another program is hung up if its last terminal vanishes without
// detaching, as on any machine.
func (s *Session) Watch(v *Viewer) {
	c := v.conn
	defer s.detach(v)
	ended := context.AfterFunc(s.life, func() {
		time.Sleep(lastWords)
		c.Close()
	})
	defer ended()
	for {
		f, err := c.Receive()
		if err == nil && f.Kind == wire.Detach {
			return
		}
		if err == nil {
			err = s.command(f, v)
		}
		if err != nil {
			if s.info.Kind != KindAgent && len(s.watching()) == 1 {
				_ = s.sendSignal(int(unix.SIGHUP))
			}
			return
		}
	}
}

// lastWords is how long a terminal may take to hang up after its program ended.
const lastWords = time.Second

// CloseInput tells the program that no input comes any more.
func (s *Session) CloseInput() error { return s.stream.CloseInput() }

// command handles one frame of an attached terminal.
func (s *Session) command(f wire.Frame, v *Viewer) error {
	switch f.Kind {
	case wire.Data:
		s.restoreSize() // the program sees its true size before it gets input
		return s.stream.Input(f.Payload)
	case wire.EOF:
		return s.stream.CloseInput()
	case wire.Resize:
		w, err := f.Winsize()
		if err != nil {
			return err
		}
		s.mu.Lock()
		v.size = w
		s.mu.Unlock()
		s.resize()
	case wire.Signal:
		sig, err := f.SignalValue()
		if err != nil {
			return err
		}
		return s.sendSignal(sig)
	}
	return nil
}

// Obey carries out the requests of a caller without a terminal for its program, until the program
// has ended. It is true if the caller goes away before.
func (s *Session) Obey(c *unixconn.Conn) (abandoned bool) {
	for {
		f, err := c.Receive()
		if err != nil {
			select {
			case <-s.life.Done():
				return false
			default:
				return true
			}
		}
		if f.Kind == wire.Signal {
			if sig, err := f.SignalValue(); err == nil {
				_ = s.proc.Signal(sig)
			}
		}
	}
}
