package keeper

import (
	"time"

	"github.com/bothy-dev/bothy/internal/wire"
)

// resize gives the program the largest size every viewer can show.
func (s *session) resize() {
	s.sizing.Lock() // what is told last is what is true
	defer s.sizing.Unlock()
	if w := s.size(); w.Rows > 0 && s.st != nil {
		_ = s.st.l.send(wire.ResizeFrame(s.st.id, w))
	}
}

// size is the one that fits into every viewer's, and a bit less while the
// program shall draw itself: some only do so if their width has changed.
func (s *session) size() wire.Winsize {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.smallest()
	if s.drawing != nil && w.Rows > 1 && w.Cols > 1 {
		w.Width, w.Height = w.Width/w.Cols*(w.Cols-1), w.Height/w.Rows*(w.Rows-1)
		w.Rows--
		w.Cols--
	}
	return w
}

func (s *session) smallest() (w wire.Winsize) {
	for v := range s.viewers {
		if v.size.Rows == 0 || v.size.Cols == 0 {
			continue
		}
		if w.Rows == 0 || v.size.Rows < w.Rows { // the pixels are those of the terminal that decides
			w.Rows, w.Height = v.size.Rows, v.size.Height
		}
		if w.Cols == 0 || v.size.Cols < w.Cols {
			w.Cols, w.Width = v.size.Cols, v.size.Width
		}
	}
	return w
}

// drawing is a program that is told of a smaller terminal, so that it draws itself.
type drawing struct {
	timer *time.Timer // ends it
	wrote bool
}

const (
	// drawTime is how long a program may take to notice its new size. One that
	// does nothing about it misses a line and a column for that long.
	drawTime = 5 * time.Second
	// drawnTime is how long after its first words it gets its size back: they
	// may have been on their way before.
	drawnTime = 100 * time.Millisecond
)

// redraw makes a full-screen program or a line editor draw itself for a
// terminal that has just come: a bit smaller, and back once it has written
// something. Were it sooner, a program that has no time to look meanwhile would
// find its size as it was.
func (s *session) redraw(within time.Duration) {
	s.mu.Lock()
	if s.drawing == nil { // else it will draw itself for both
		s.drawing = &drawing{timer: time.AfterFunc(within, s.drawn)}
	}
	s.mu.Unlock()
	s.resize()
}

// wrote is called for everything the program says.
func (s *session) wrote() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.drawing; d != nil && !d.wrote {
		d.wrote = true
		d.timer.Reset(drawnTime)
	}
}

// drawn gives the program its size back, if something was taken of it.
func (s *session) drawn() {
	s.mu.Lock()
	d := s.drawing
	s.drawing = nil
	s.mu.Unlock()
	if d == nil {
		return
	}
	d.timer.Stop()
	s.resize()
}
