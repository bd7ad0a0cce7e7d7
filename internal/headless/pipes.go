package headless

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// pipes are the standard streams of a program inside whose only peer is this package. An input that is a
// pipe of the caller has no end of ours.
type pipes struct {
	theirs, ours [3]*os.File
	file         *fileInput // nil: the input is not a file, or the program has it
	sending      bool
	sent         chan struct{} // closed when the input was sent
	failed       [3]error      // of the writers, once the output has ended
	once         sync.Once
}

// openPipes opens the pipes for a program with an input, or without one if in is nil. With joined, both streams of
// output are one pipe.
func openPipes(in io.Reader, joined bool) (*pipes, error) {
	p := &pipes{sent: make(chan struct{})}
	err := p.openInput(in)
	for i := 1; i < len(p.theirs) && err == nil; i++ {
		if joined && i == 2 {
			p.theirs[i] = p.theirs[1]
			break
		}
		p.ours[i], p.theirs[i], err = makePipe()
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func makePipe() (r, w *os.File, err error) {
	if r, w, err = os.Pipe(); err != nil {
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	return r, w, nil
}

func (p *pipes) openInput(in io.Reader) (err error) {
	f, isFile := in.(*os.File)
	if isFile {
		if p.theirs[0] = ReopenPipe(f, 0); p.theirs[0] != nil {
			return nil
		}
		if p.file, err = openFileInput(f); err != nil {
			return err
		}
	}
	p.theirs[0], p.ours[0], err = makePipe()
	return err
}

// copyStreams closes the program's ends here, sends the input, and reads the output. The channel is closed
// when the output has ended.
func (p *pipes) copyStreams(st Streams) <-chan struct{} {
	for _, f := range p.theirs {
		f.Close()
	}
	in := st.In
	p.sending = true
	if p.file != nil {
		in = p.file
	}
	go func() {
		defer close(p.sent)
		if p.ours[0] == nil {
			return
		}
		if in != nil {
			_, _ = io.Copy(p.ours[0], in) // a program may ignore its input
		}
		p.ours[0].Close()
		if p.file != nil {
			p.file.closeFiles()
		}
	}()
	var both sync.WaitGroup
	both.Go(func() { p.copyOutput(1, st.Out) })
	if p.ours[2] != nil {
		both.Go(func() { p.copyOutput(2, st.Err) })
	}
	ended := make(chan struct{})
	go func() { both.Wait(); close(ended) }()
	return ended
}

// copyOutput copies a stream until it ends or its writer fails. Then the program inside gets SIGPIPE, and
// does not wait for a reader.
func (p *pipes) copyOutput(i int, to io.Writer) {
	_, p.failed[i] = io.Copy(to, untilClosed{p.ours[i]})
	p.ours[i].Close()
}

// untilClosed reads a pipe that may be closed meanwhile. It has no errors, so those of a copy are the
// writer's.
type untilClosed struct{ f *os.File }

func (u untilClosed) Read(b []byte) (int, error) {
	n, err := u.f.Read(b)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// lostOutput returns why a writer did not take all of the output. The output must have ended.
func (p *pipes) lostOutput() error {
	for _, err := range p.failed {
		if err != nil {
			return &spec.Error{Op: "pass on what the program prints", Err: err}
		}
	}
	return nil
}

// endInput stops the reading of a file: from now on its bytes belong to the next program.
func (p *pipes) endInput() {
	if p.file == nil {
		return
	}
	p.file.stop.Close()
	p.ours[0].Close()
	select {
	case <-p.sent:
	case <-time.After(outputPatience): // another reader took the bytes just before we read
	}
}

func (p *pipes) close() {
	p.once.Do(func() {
		for _, f := range []*os.File{p.theirs[0], p.theirs[1], p.theirs[2], p.ours[0], p.ours[1], p.ours[2]} {
			if f != nil {
				f.Close()
			}
		}
		if p.file == nil {
			return
		}
		p.file.stop.Close()
		if !p.sending {
			p.file.closeFiles()
		}
	})
}
