package netstack

import (
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/rawfile"
)

const (
	// packetMax is more than the largest packet of IP, in bytes.
	packetMax = 1 << 16
	// batch is how many packets are read at once.
	batch = 8
)

// source reads packets of a link that does not block.
type source struct {
	fd    int
	card  bool // a socket, of which several packets can be read at once
	never int  // can always be read: who waits for that, too, never waits
	rooms []*buffer.View
	parts []unix.Iovec
	heads []rawfile.MMsgHdr
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
	s.rooms, s.parts, s.heads = make([]*buffer.View, n), make([]unix.Iovec, n), make([]rawfile.MMsgHdr, n)
	for i := range s.rooms {
		s.heads[i].Msg.Iov = &s.parts[i]
		s.heads[i].Msg.SetIovlen(1)
		s.renew(i)
	}
	return s, nil
}

func (s *source) close() {
	if s.card {
		unix.Close(s.never)
	}
}

// renew makes room for a packet.
func (s *source) renew(i int) {
	s.rooms[i] = buffer.NewViewSize(packetMax)
	s.parts[i] = rawfile.IovecFromBytes(s.rooms[i].AsSlice())
}

// read reads some packets, and tells whether there may be more.
func (s *source) read() (n int, more bool) {
	if s.card {
		n, errno := rawfile.BlockingRecvMMsgUntilStopped(s.never, s.fd, s.heads)
		return max(n, 0), n == batch && errno == 0
	}
	size, err := unix.Read(s.fd, s.rooms[0].AsSlice())
	if err != nil || size <= 0 {
		return 0, false
	}
	s.heads[0].Len = uint32(size)
	return 1, true
}

// take gives one of the packets that were read.
func (s *source) take(i int) *buffer.View {
	size := int(s.heads[i].Len)
	room := s.rooms[i]
	if size > packetMax/2 {
		s.renew(i)
		room.CapLength(size)
		return room
	}
	// A small packet must not hold much memory while it waits.
	packet := buffer.NewViewSize(max(size, 1))
	packet.CapLength(copy(packet.AsSlice(), room.AsSlice()[:size]))
	return packet
}
