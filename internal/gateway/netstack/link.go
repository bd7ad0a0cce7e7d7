package netstack

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// link is the gateway's end of a card. Packets are written as gVisor does it, but read here.
// gVisor's own reader sleeps in a system call, which holds a thread, and makes Go's runtime check
// every 20 microseconds whether it still does. This reader waits as all connections do.
type link struct {
	*fdbased.InjectableEndpoint
	in       source
	unsummed bool            // packets come without checksums
	foreign  func()          // called for packets of no version of IP
	wake     *os.File        // readable when there are packets
	raw      syscall.RawConn // of wake

	reader sync.WaitGroup
	ended  atomic.Bool
	closed sync.Once
}

var _ stack.LinkEndpoint = (*link)(nil)

// openLink makes a link of a socket or a device. unsummed is Config.Unsummed. foreign is called for
// each packet that is of no version of IP.
func openLink(fd int, unsummed bool, foreign func()) (*link, error) {
	socket, err := fdbased.IsSocketFD(fd)
	if err != nil {
		return nil, fmt.Errorf("look at the sandbox's link: %w", err)
	}
	var caps stack.LinkEndpointCapabilities
	if unsummed {
		caps = stack.CapabilityRXChecksumOffload | stack.CapabilityTXChecksumOffload
	}
	out, err := fdbased.NewInjectable(fd, MTU, caps) // from here on fd does not block
	if err != nil {
		return nil, fmt.Errorf("open the sandbox's link: %w", err)
	}
	wake, err := pollFile(fd)
	if err != nil {
		return nil, fmt.Errorf("wait for the sandbox's link: %w", err)
	}
	raw, err := wake.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("wait for the sandbox's link: %w", err)
	}
	in, err := newSource(fd, socket)
	if err != nil {
		_ = wake.Close()
		return nil, fmt.Errorf("read the sandbox's link: %w", err)
	}
	return &link{InjectableEndpoint: out, in: in, unsummed: unsummed, foreign: foreign, wake: wake, raw: raw}, nil
}

// pollFile returns a file for Go's runtime that is readable when packets wait. The link itself would
// also wake its reader each time that the other end has taken a packet.
func pollFile(fd int) (*os.File, error) {
	events, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		unix.EpollCtl(events, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET}),
		unix.SetNonblock(events, true), // else Go would not wait for it
	)
	if err != nil {
		unix.Close(events)
		return nil, err
	}
	return os.NewFile(uintptr(events), "packets of the sandbox"), nil
}

// past is a deadline that is over.
var past = time.Unix(1, 0)

// Attach begins to deliver packets. Without a dispatcher it ends the delivery, and returns when no
// packet is being delivered.
func (l *link) Attach(d stack.NetworkDispatcher) {
	l.InjectableEndpoint.Attach(d)
	if d == nil {
		l.ended.Store(true)
		_ = l.wake.SetReadDeadline(past)
		l.reader.Wait()
		l.closed.Do(func() { _ = l.wake.Close(); l.in.close() })
		return
	}
	l.reader.Go(func() { _ = l.raw.Read(func(uintptr) bool { l.drainPackets(); return false }) })
}

// Wait returns when the reader has ended.
func (l *link) Wait() { l.reader.Wait() }

// drainPackets delivers packets until none are left, or delivery ends. The reader of a packet delivers it:
// packets that the stack has no time for stay on the card, which is bounded.
func (l *link) drainPackets() {
	for !l.ended.Load() {
		n, more := l.in.read()
		for i := range n {
			l.deliver(l.in.takePacket(i))
		}
		if !more {
			return
		}
	}
}

// deliver hands a packet over, if it is a packet of IP.
func (l *link) deliver(packet buffer.Buffer) {
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: packet})
	defer pkt.DecRef()
	pkt.RXChecksumValidated = l.unsummed
	first, _ := pkt.Data().PullUp(1)
	switch header.IPVersion(first) {
	case header.IPv4Version:
		pkt.NetworkProtocolNumber = header.IPv4ProtocolNumber
	case header.IPv6Version:
		pkt.NetworkProtocolNumber = header.IPv6ProtocolNumber
	default:
		l.foreign()
		return
	}
	l.InjectInbound(pkt.NetworkProtocolNumber, pkt)
}
