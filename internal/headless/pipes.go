package headless

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// pipes are the standard streams of a program inside whose only peer is this package.
type pipes struct {
	theirs, ours [3]*os.File
	once         sync.Once
}

// openPipes opens the pipes. With joined, both streams of output are one pipe.
func openPipes(joined bool) (*pipes, error) {
	p := &pipes{}
	for i := range p.theirs {
		if joined && i == 2 {
			p.theirs[i] = p.theirs[1]
			break
		}
		r, w, err := os.Pipe()
		if err != nil {
			p.close()
			return nil, fmt.Errorf("make a pipe: %w", err)
		}
		p.theirs[i], p.ours[i] = w, r
		if i == 0 {
			p.theirs[i], p.ours[i] = r, w
		}
	}
	return p, nil
}

// copyStreams closes the program's ends here, sends the input, and reads the output. The channel is closed
// when the output has ended.
func (p *pipes) copyStreams(st Streams) <-chan struct{} {
	for _, f := range p.theirs {
		f.Close()
	}
	go func() {
		if st.In != nil {
			_, _ = io.Copy(p.ours[0], st.In) // a program may ignore its input
		}
		p.ours[0].Close()
	}()
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(st.Out, p.ours[1]) })
	if p.ours[2] != nil {
		both.Go(func() { _, _ = io.Copy(st.Err, p.ours[2]) })
	}
	ended := make(chan struct{})
	go func() { both.Wait(); close(ended) }()
	return ended
}

func (p *pipes) close() {
	p.once.Do(func() {
		for _, f := range []*os.File{p.theirs[0], p.theirs[1], p.theirs[2], p.ours[0], p.ours[1], p.ours[2]} {
			if f != nil {
				f.Close()
			}
		}
	})
}
