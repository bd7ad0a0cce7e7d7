package cmdline

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/spec"
)

// streams are the three standard streams of a program inside. A stream that is a pipe is reopened
// and handed over, so that its bytes bypass us. Any other stream, a terminal, a file or a socket,
// stays outside: the program gets a pipe of ours, and we copy.
type Streams struct {
	Theirs [3]*os.File
	copies []*copying
	wg     sync.WaitGroup
}

// copying is one stream that we copy.
type copying struct {
	dst    *os.File
	src    headless.HeldPipe
	input  bool
	moved  chan struct{}         // signaled after each write
	failed atomic.Pointer[error] // why output was lost; set while src holds the output
}

// OpenStreams returns the streams of a program inside. With noStdin the program has an empty input.
func OpenStreams(a *App, noStdin bool) (*Streams, error) {
	s := &Streams{}
	for i, f := range []*os.File{a.In, a.Out, a.Err} {
		if err := s.openStream(i, f, noStdin && i == 0); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

func (s *Streams) openStream(i int, f *os.File, none bool) error {
	if !none {
		if direct := headless.ReopenPipe(f, i); direct != nil {
			s.Theirs[i] = direct
			return nil
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	switch {
	case none:
		w.Close()
		s.Theirs[i] = r
	case i == 0:
		s.Theirs[i] = r
		s.copies = append(s.copies, &copying{dst: w, src: headless.HeldPipe{File: f}, input: true})
	default:
		s.Theirs[i] = w
		s.copies = append(s.copies, &copying{dst: f, src: headless.HeldPipe{File: r}, moved: make(chan struct{}, 1)})
	}
	return nil
}

// Start closes our copies of the program's ends and begins copying.
func (s *Streams) Start() {
	for i, f := range s.Theirs {
		f.Close()
		s.Theirs[i] = nil
	}
	for _, c := range s.copies {
		if c.input {
			go c.copyAll() // may block on a terminal forever, so drain does not wait for it
			continue
		}
		s.wg.Go(c.copyAll)
	}
}

func (c *copying) copyAll() {
	if c.input {
		_, _ = io.Copy(c.dst, c.src.File)
		c.dst.Close()
		return
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := c.src.ReadHeld(buf)
		if n > 0 && !c.passBytes(buf[:n]) || err != nil {
			return
		}
	}
}

// passBytes writes the bytes read, and reports whether copying can continue.
func (c *copying) passBytes(read []byte) bool {
	defer c.src.Release()
	if _, err := c.dst.Write(read); err != nil {
		c.src.Close() // the program inside gets SIGPIPE
		c.failed.Store(&err)
		return false
	}
	select {
	case c.moved <- struct{}{}:
	default:
	}
	return true
}

// quiet is how long a stream must be silent after the program's end before it counts as finished
// although a child still holds it open.
const quiet = 150 * time.Millisecond

// Drain waits for the last output, and returns an error if some of it was lost. If the reader closed
// the stream, nothing is lost: it has read all that it wanted. For a reader that does not read,
// drain waits until a signal arrives.
func (s *Streams) Drain() error {
	enough := make(chan os.Signal, 1)
	console.Notify(enough, Leaving...)
	defer signal.Stop(enough)
	done := make(chan struct{})
	go func() { s.wg.Wait(); close(done) }()
	for {
		select {
		case <-done:
			return s.lostOutput()
		case sig := <-enough:
			return &spec.Exited{Code: spec.ExitSignal + int(sig.(unix.Signal))}
		case <-time.After(quiet):
			if !s.isMoving() {
				return s.lostOutput()
			}
		}
	}
}

func (s *Streams) lostOutput() error {
	for _, c := range s.copies {
		if err := c.failed.Load(); err != nil && !errors.Is(*err, unix.EPIPE) {
			return &spec.Error{Op: "pass on what the program prints", Err: *err}
		}
	}
	return nil
}

// isMoving reports whether output has moved since the last call, or is still to be moved: on a busy
// machine the copying goroutine may lag.
func (s *Streams) isMoving() bool {
	alive := false
	for _, c := range s.copies {
		alive = alive || !c.input && c.src.IsPending()
		select {
		case <-c.moved:
			alive = true
		default:
		}
	}
	return alive
}

func (s *Streams) Close() {
	for _, f := range s.Theirs {
		if f != nil {
			f.Close()
		}
	}
}

// Leaving are the signals that tell a command to end.
var Leaving = []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT}
