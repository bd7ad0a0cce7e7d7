package session

import (
	"time"

	"github.com/bothy-dev/bothy/internal/wire"
)

// resize gives the program the largest size that every viewer can show.
func (s *Session) resize() {
	s.sizing.Lock() // the last size sent must be the current one
	defer s.sizing.Unlock()
	if w := s.sizeForAll(); w.Rows > 0 && s.stream != nil {
		_ = s.stream.Resize(w)
	}
}

// sizeForAll returns the size that fits every viewer. It is slightly smaller while the program is to
// redraw: some programs only do so if their width has changed.
func (s *Session) sizeForAll() wire.Winsize {
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

func (s *Session) smallest() (w wire.Winsize) {
	for v := range s.viewers {
		if v.size.Rows == 0 || v.size.Cols == 0 {
			continue
		}
		if w.Rows == 0 || v.size.Rows < w.Rows { // the pixels of the terminal with the smallest size
			w.Rows, w.Height = v.size.Rows, v.size.Height
		}
		if w.Cols == 0 || v.size.Cols < w.Cols {
			w.Cols, w.Width = v.size.Cols, v.size.Width
		}
	}
	return w
}

// drawing is a program that was told of a smaller terminal, so that it redraws.
type drawing struct {
	timer *time.Timer // ends the drawing
	wrote bool
}

const (
	// drawTime is how long a program may take to notice its new size. A program that ignores it
	// lacks a line and a column for that long.
	drawTime = 5 * time.Second
	// drawnTime is how long after its first output the program gets its size back: that output
	// may be older than the change.
	drawnTime = 100 * time.Millisecond
)

// redraw makes a full-screen program or a line editor redraw for a new terminal: it shrinks the
// size slightly, and restores it once the program has written something. An earlier restore
// could go unnoticed: a busy program would then find its old size.
func (s *Session) redraw(within time.Duration) {
	s.mu.Lock()
	if s.drawing == nil { // else the program will redraw for both
		s.drawing = &drawing{timer: time.AfterFunc(within, s.restoreSize)}
	}
	s.mu.Unlock()
	s.resize()
}

// noteOutput is called for all output of the program.
func (s *Session) noteOutput() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.drawing; d != nil && !d.wrote {
		d.wrote = true
		d.timer.Reset(drawnTime)
	}
}

// restoreSize restores the program's size, if it was reduced.
func (s *Session) restoreSize() {
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
