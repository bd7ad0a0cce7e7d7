package stage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/test/harness"
)

// Capture holds every packet that was sent on a stage.
type Capture struct {
	mu      sync.Mutex
	packets [][]byte
	fences  int
}

// The ring that stores packets until they are read. A socket's buffer would suffice only for root, as
// only root may make it large.
const (
	frameSize  = 4 << 10 // bytes; the beginning of a packet is stored
	frameCount = 32 << 10
	blockSize  = 64 << 10
)

// openCapture returns a socket that receives all packets.
func openCapture() (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return -1, err
	}
	all := binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL})
	for _, step := range []func() error{
		func() error { return unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2) },
		func() error {
			return unix.SetsockoptTpacketReq(fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &unix.TpacketReq{
				Block_size: blockSize, Block_nr: frameCount * frameSize / blockSize, Frame_size: frameSize, Frame_nr: frameCount,
			})
		},
		func() error { return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all}) },
	} {
		if err := step(); err != nil {
			unix.Close(fd)
			return -1, err
		}
	}
	return fd, nil
}

func newCapture(t *testing.T) *Capture {
	t.Helper()
	unix.CloseOnExec(captureFD)
	ring, err := unix.Mmap(captureFD, 0, frameCount*frameSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	c := &Capture{}
	go c.read(ring)
	t.Cleanup(func() {
		stats, err := unix.GetsockoptTpacketStats(captureFD, unix.SOL_PACKET, unix.PACKET_STATISTICS)
		if err != nil || stats.Drops > 0 {
			t.Errorf("the capture is not complete: %+v %v", stats, err)
		}
	})
	return c
}

// read takes packets out of the ring, for as long as the process lives.
func (c *Capture) read(ring []byte) {
	const address = (unix.SizeofTpacket2Hdr + unix.TPACKET_ALIGNMENT - 1) &^ (unix.TPACKET_ALIGNMENT - 1)
	for i := 0; ; i = (i + 1) % frameCount {
		frame := ring[i*frameSize : (i+1)*frameSize]
		head := (*unix.Tpacket2Hdr)(unsafe.Pointer(&frame[0]))
		for atomic.LoadUint32(&head.Status)&unix.TP_STATUS_USER == 0 {
			_, err := unix.Poll([]unix.PollFd{{Fd: captureFD, Events: unix.POLLIN}}, -1)
			if err != nil && err != unix.EINTR {
				return
			}
		}
		from := (*unix.RawSockaddrLinklayer)(unsafe.Pointer(&frame[address]))
		if from.Pkttype == unix.PACKET_OUTGOING {
			packet := frame[head.Net:][:min(int(head.Snaplen), keptBytes)]
			c.mu.Lock()
			c.packets = append(c.packets, bytes.Clone(packet))
			c.mu.Unlock()
		}
		atomic.StoreUint32(&head.Status, unix.TP_STATUS_KERNEL)
	}
}

// keptBytes is the number of bytes stored of a packet.
const keptBytes = 2048

// Fence returns when every packet sent before is in the capture.
func (c *Capture) Fence(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	c.fences++
	word := fmt.Sprintf("fence %d.", c.fences)
	seen := len(c.packets)
	c.mu.Unlock()
	s, err := net.Dial("udp", "127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Write([]byte(word)); err != nil {
		t.Fatal(err)
	}
	harness.WaitFor(t, harness.Timeout, "the capture", func() bool { return carries(c.since(seen), word) })
}

// since returns the packets from a number on. The reader continues meanwhile: it only ever adds to them.
func (c *Capture) since(n int) [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.packets[n:len(c.packets):len(c.packets)]
}

// Carries reports whether a text is in any packet.
func (c *Capture) Carries(text string) bool {
	return carries(c.since(0), text)
}

func carries(packets [][]byte, text string) bool {
	return slices.ContainsFunc(packets, func(p []byte) bool { return bytes.Contains(bytes.ToLower(p), []byte(text)) })
}

// Forget discards the packets so far.
func (c *Capture) Forget(t *testing.T) {
	t.Helper()
	c.Fence(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.packets = nil
}

// Left lists the packets sent since, each once: attempts to connect as "tcp ADDRESS:PORT",
// questions as "dns NAME", other datagrams as "udp ADDRESS:PORT", and other packets by their
// protocol.
func (c *Capture) Left(t *testing.T) []string {
	t.Helper()
	c.Fence(t)
	var list []string
	for _, p := range c.since(0) {
		if what := describe(p); what != "" {
			list = append(list, what)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// describe names the conversation that a packet starts; "" if it starts none.
func describe(p []byte) string {
	var from, to netip.Addr
	var protocol byte
	var body []byte
	switch {
	case len(p) >= 20 && p[0]>>4 == 4 && len(p) >= int(p[0]&15)*4:
		from, to = netip.AddrFrom4([4]byte(p[12:16])), netip.AddrFrom4([4]byte(p[16:20]))
		protocol, body = p[9], p[int(p[0]&15)*4:]
	case len(p) >= 40 && p[0]>>4 == 6:
		from, to = netip.AddrFrom16([16]byte(p[8:24])), netip.AddrFrom16([16]byte(p[24:40]))
		protocol, body = p[6], p[40:]
	default:
		return fmt.Sprintf("no IP: %x", p)
	}
	const synAck, syn = 0x12, 0x02
	switch {
	case protocol == unix.IPPROTO_TCP && len(body) >= 20:
		if body[13]&synAck != syn {
			return ""
		}
		return "tcp " + netip.AddrPortFrom(to, binary.BigEndian.Uint16(body[2:])).String()
	case protocol == unix.IPPROTO_UDP && len(body) >= 8:
		return datagram(from, binary.BigEndian.Uint16(body), to, binary.BigEndian.Uint16(body[2:]), body[8:])
	case protocol == unix.IPPROTO_ICMP && len(body) > 0 && body[0] == 3,
		protocol == unix.IPPROTO_ICMPV6 && len(body) > 0 && (body[0] == 1 || body[0] >= 130 && body[0] <= 143):
		return "" // a closed port; neighbours
	case protocol == unix.IPPROTO_ICMP || protocol == unix.IPPROTO_ICMPV6:
		return "icmp " + to.String()
	}
	return fmt.Sprintf("protocol %d to %s", protocol, to)
}

func datagram(from netip.Addr, fromPort uint16, to netip.Addr, port uint16, body []byte) string {
	switch {
	case from == Resolver && fromPort == 53, to.IsLoopback() && port == 9:
		return ""
	case to == Resolver && port == 53:
		var p dnsmessage.Parser
		if _, err := p.Start(body); err == nil {
			if q, err := p.Question(); err == nil {
				return "dns " + strings.TrimSuffix(strings.ToLower(q.Name.String()), ".")
			}
		}
	}
	return "udp " + netip.AddrPortFrom(to, port).String()
}

// OnlyLeft reports everything that left except the listed entries.
func (c *Capture) OnlyLeft(t *testing.T, want ...string) {
	t.Helper()
	got := c.Left(t)
	slices.Sort(want)
	if !slices.Equal(got, slices.Compact(want)) {
		t.Errorf("the host sent\n  %s\nand should have sent\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}
