package netstack

import (
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/rawfile"
)

const (
	// headMax is more than the headers of a packet take, in bytes. They are stored apart: the stack
	// copies a piece of memory in which it reads headers.
	headMax = 128
	// bodyMax is more than the largest packet of IP has after its headers.
	bodyMax = 1 << 16
	// batch is how many packets are read at once.
	batch = 8
)

// source reads packets of a link that does not block.
type source struct {
	fd    int
	card  bool // a socket, of which several packets can be read at once
	never int  // always readable: a poll that includes it never waits
	slots []slot
	into  []rawfile.MMsgHdr // the slots, as the kernel wants them
}

// slot is room for a packet.
type slot struct {
	head, body *buffer.View
	parts      [2]unix.Iovec
}

func newSource(fd int, card bool) (source, error) {
	n := 1
	s := source{fd: fd, card: card, never: -1}
	if card {
		var err error
		if s.never, err = unix.Eventfd(1, unix.EFD_CLOEXEC); err != nil {
			return s, err
		}
		n = batch
	}
	s.slots, s.into = make([]slot, n), make([]rawfile.MMsgHdr, n)
	for i := range s.slots {
		slot := &s.slots[i]
		slot.renewHead()
		slot.renewBody()
		s.into[i].Msg.Iov = &slot.parts[0]
		s.into[i].Msg.SetIovlen(len(slot.parts))
	}
	return s, nil
}

func (s *source) close() {
	if s.card {
		unix.Close(s.never)
	}
}

func (s *slot) renewHead() {
	s.head = buffer.NewViewSize(headMax)
	s.parts[0] = rawfile.IovecFromBytes(s.head.AsSlice())
}

func (s *slot) renewBody() {
	s.body = buffer.NewViewSize(bodyMax)
	s.parts[1] = rawfile.IovecFromBytes(s.body.AsSlice())
}

// read reads some packets, and reports whether more may be waiting.
func (s *source) read() (n int, more bool) {
	if s.card {
		n, errno := rawfile.BlockingRecvMMsgUntilStopped(s.never, s.fd, s.into)
		return max(n, 0), n == batch && errno == 0
	}
	size, err := unix.Readv(s.fd, [][]byte{s.slots[0].head.AsSlice(), s.slots[0].body.AsSlice()})
	if err != nil || size <= 0 {
		return 0, false
	}
	s.into[0].Len = uint32(size)
	return 1, true
}

// takePacket returns one of the packets that were read.
func (s *source) takePacket(i int) (packet buffer.Buffer) {
	slot, size := &s.slots[i], int(s.into[i].Len)
	head := slot.head
	head.CapLength(min(size, headMax))
	slot.renewHead()
	_ = packet.Append(head)
	switch rest := size - headMax; {
	case rest <= 0:
	case rest > bodyMax/2:
		slot.body.CapLength(rest)
		_ = packet.Append(slot.body)
		slot.renewBody()
	default: // a small packet must not hold much memory while it waits
		_ = packet.Append(buffer.NewViewWithData(slot.body.AsSlice()[:rest]))
	}
	return packet
}
