package netstack

import (
	"errors"
	"sync"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

// buffers is how much a connection may hold in each direction, in bytes.
type buffers struct{ usual, most int } // the stack lets busy connections grow

const bufferLeast = 4 << 10

// buffersFor gives less to each connection when there are many: programs with thousands of them
// leave most idle, and one whose reader has stopped keeps its buffers full. A thousand connections
// hold less than 128 MiB in sum, the allowed 4096 less than 200 MiB.
func buffersFor(conns int) buffers {
	switch {
	case conns < 16:
		return buffers{usual: 64 << 10, most: 1 << 20}
	case conns < 64:
		return buffers{usual: 64 << 10, most: 128 << 10}
	case conns < 512:
		return buffers{usual: 64 << 10, most: 64 << 10}
	case conns < 2048:
		return buffers{usual: 16 << 10, most: 16 << 10}
	}
	return buffers{usual: 8 << 10, most: 8 << 10}
}

// beginBuffer is the receive buffer of a connection that is not accepted yet. It is the same for
// all, so it is the size that the last of many may have.
const beginBuffer = 16 << 10

// fitBuffers gives a just accepted connection the current size for connections. It makes the stack
// announce the larger window at once: otherwise a program that has filled the first one would wait
// for its retransmission timer, a fifth of a second.
func (s *Stack) fitBuffers(ep tcpip.Endpoint) {
	s.conns.mu.Lock()
	most := s.conns.last.most
	s.conns.mu.Unlock()
	if most > beginBuffer {
		ep.SocketOptions().SetReceiveBufferSize(int64(most), true)
	}
}

// conns counts the inside's connections to a stack.
type conns struct {
	mu   sync.Mutex
	n    int
	last buffers
}

// countOpened counts a connection, which gets the current buffer sizes.
func (s *Stack) countOpened() {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	s.conns.n++
	s.adjust()
}

// countEnded is opens for a connection that has ended.
func (s *Stack) countEnded() {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	s.conns.n--
	s.adjust()
}

// adjust changes the sizes for new connections, and how much the others may still grow.
func (s *Stack) adjust() {
	if b := buffersFor(s.conns.n); b != s.conns.last {
		_ = s.setBuffers(b) // these sizes were set before
		s.conns.last = b
	}
}

func (s *Stack) setBuffers(b buffers) error {
	receive := tcpip.TCPReceiveBufferSizeRangeOption{Min: bufferLeast, Default: b.usual, Max: b.most}
	send := tcpip.TCPSendBufferSizeRangeOption{Min: bufferLeast, Default: b.usual, Max: b.most}
	for _, o := range []tcpip.SettableTransportProtocolOption{&receive, &send} {
		if err := s.stack.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return errors.New(err.String())
		}
	}
	return nil
}
