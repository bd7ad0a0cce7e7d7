package session

import (
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/wire"
)

// sized returns a session with a terminal and its viewer, and the sizes that the program is told.
func sized(t *testing.T) (s *Session, v *Viewer, told func() wire.Winsize) {
	t.Helper()
	l, in := connectInit(t)
	s = &Session{stream: l.ResumeStream(3, wire.Window)}
	NewTable().Add(s, KindAgent, wire.Command{TTY: true}, 7)
	v = &Viewer{size: wire.Winsize{Rows: 24, Cols: 80}}
	s.Attach(v)
	return s, v, func() wire.Winsize {
		t.Helper()
		w, err := in.Hear().Winsize()
		must(t, err)
		return w
	}
}

var (
	whole = wire.Winsize{Rows: 24, Cols: 80}
	less  = wire.Winsize{Rows: 23, Cols: 79}
)

// TestRedraw checks that a new terminal makes the program see a smaller size until it has written
// something, or its viewer has typed, or left.
func TestRedraw(t *testing.T) {
	for name, then := range map[string]func(*Session, *Viewer){
		"it wrote":        func(s *Session, _ *Viewer) { s.noteOutput(); s.noteOutput() },
		"something typed": func(s *Session, v *Viewer) { _ = s.command(wire.Frame{Kind: wire.Data}, v) },
		"it left":         func(s *Session, v *Viewer) { s.detach(v) },
	} {
		t.Run(name, func(t *testing.T) {
			s, v, told := sized(t)
			s.redraw(time.Hour)
			if w := told(); w != less {
				t.Fatalf("it is told of %v first", w)
			}
			s.resize() // as when another one leaves
			if w := told(); w != less {
				t.Errorf("it was told of %v before it wrote", w)
			}
			then(s, v)
			if w := told(); w != whole {
				t.Errorf("in the end it was told of %v", w)
			}
		})
	}
}

// TestRedrawSilent checks that a program that ignores its size gets it back anyway.
func TestRedrawSilent(t *testing.T) {
	s, _, told := sized(t)
	s.redraw(time.Millisecond)
	for told() != whole {
	}
}
