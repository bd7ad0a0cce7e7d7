package sshserver

import (
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/bothy-dev/bothy/internal/headless"
)

// outflow carries a stream of a program to the client.
type outflow struct {
	src   headless.HeldPipe // holds bytes that the client does not have
	dst   io.Writer
	done  chan struct{} // closed when the stream has ended
	moved atomic.Int64  // number of writes
	once  sync.Once
}

func newOutflow(src *os.File, dst io.Writer) *outflow {
	o := &outflow{src: headless.HeldPipe{File: src}, dst: dst, done: make(chan struct{})}
	go o.carryAll()
	return o
}

func (o *outflow) carryAll() {
	defer close(o.done)
	defer o.closeStream() // the program gets SIGPIPE if it writes more
	buf := make([]byte, 64<<10)
	for {
		n, err := o.src.ReadHeld(buf)
		if n > 0 {
			_, werr := o.dst.Write(buf[:n])
			o.moved.Add(1)
			o.src.Release()
			if werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// closeStream closes the stream at our end.
func (o *outflow) closeStream() { o.once.Do(func() { o.src.Close() }) }

func (o *outflow) isOver() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}
