package keeper

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
)

// view attaches a terminal to a program that runs already.
func (k *Keeper) view(c *unixconn.Conn, s *session, v *viewer) error {
	if !s.attach(v) {
		return s.tellEnd(c)
	}
	if err := c.SendJSON(wire.Reply, wire.Started{Session: s.info.ID, PID: s.info.PID, Existing: true}); err != nil {
		s.detach(v)
		return nil
	}
	s.redraw(drawTime)
	return k.watch(c, s, v)
}

// watch carries an attached terminal's input to its program, until either goes. The agent's session
// outlives its terminals. Another program is hung up if its last terminal vanishes without
// detaching, as on any machine.
func (k *Keeper) watch(c *unixconn.Conn, s *session, v *viewer) error {
	k.status.used()
	defer s.detach(v)
	ended := context.AfterFunc(s.life, func() {
		time.Sleep(lastWords)
		c.Close()
	})
	defer ended()
	for {
		f, err := c.Receive()
		if err == nil && f.Kind == wire.Detach {
			return nil
		}
		if err == nil {
			err = s.command(f, v)
		}
		if err != nil {
			if s.info.Kind != kindAgent && len(s.watching()) == 1 {
				_ = s.signal(int(unix.SIGHUP))
			}
			return nil
		}
	}
}

// lastWords is how long a terminal may take to hang up after its program ended.
const lastWords = time.Second

// command handles one frame of an attached terminal.
func (s *session) command(f wire.Frame, v *viewer) error {
	switch f.Kind {
	case wire.Data:
		s.drawn() // the program sees its true size before it gets input
		return s.st.Input(f.Payload)
	case wire.EOF:
		return s.st.CloseInput()
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
		return s.signal(sig)
	}
	return nil
}
