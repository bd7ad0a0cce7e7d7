package drivertest

import (
	"bytes"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
)

// network checks the packets that leave a sandbox's network card: they are whole, have its own
// address, and may go to any destination.
func network(t *testing.T, s Subject, dir string) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("skipped: bash is not here, which can send datagrams")
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	mine, theirs := pair[0], os.NewFile(uintptr(pair[1]), "card")
	defer unix.Close(mine)
	defer theirs.Close()
	s.Machine = withNetwork(s.Machine, &driver.Network{
		Card: theirs, MTU: 9000,
		Addresses: []netip.Prefix{netip.MustParsePrefix("198.18.0.2/15"), netip.MustParsePrefix("fd62:6f74:6879::2/64")},
		Gateways:  []netip.Addr{netip.MustParseAddr("198.18.0.1"), netip.MustParseAddr("fd62:6f74:6879::1")},
	})
	b := s.start(t, dir, "0a0b0c0d0e0f", "")
	for _, c := range []struct{ to, from string }{
		{"203.0.113.9", "198.18.0.2"},
		{"198.18.77.1", "198.18.0.2"},
		{"2001:db8::9", "fd62:6f74:6879::2"},
	} {
		p := b.process("")
		p.Args = []string{"bash", "-c", "echo hello > /dev/udp/" + c.to + "/9"}
		if out := b.exec(t, p, ""); out.exit.Code != 0 {
			t.Errorf("%s: %+v", c.to, out)
			continue
		}
		from, to, payload := datagram(t, mine)
		if from != netip.MustParseAddr(c.from) || to != netip.MustParseAddr(c.to) || payload != "hello\n" {
			t.Errorf("a packet from %v to %v with %q, want %s, %s", from, to, payload, c.from, c.to)
		}
	}
	if out := b.exec(t, b.process("cat /proc/net/dev"), ""); !bytes.Contains([]byte(out.stdout), []byte("lo:")) {
		t.Errorf("no loopback: %s", out.stdout)
	}
}

func withNetwork(machine func(*testing.T, string, string) driver.Machine, n *driver.Network) func(*testing.T, string, string) driver.Machine {
	return func(t *testing.T, dir, id string) driver.Machine {
		m := machine(t, dir, id)
		m.Network = n
		return m
	}
}

// datagram reads packets until it gets a UDP packet.
func datagram(t *testing.T, card int) (from, to netip.Addr, payload string) {
	t.Helper()
	const udp = 17
	limit := unix.Timeval{Sec: int64(deadline / time.Second)}
	if err := unix.SetsockoptTimeval(card, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1<<16)
	for {
		n, err := unix.Read(card, buf)
		if err != nil {
			t.Fatalf("read the card: %v", err)
		}
		switch ip := buf[:n]; {
		case n > 28 && ip[0]>>4 == 4 && ip[9] == udp:
			head := int(ip[0]&15) * 4
			from, _ = netip.AddrFromSlice(ip[12:16])
			to, _ = netip.AddrFromSlice(ip[16:20])
			return from, to, string(ip[head+8:])
		case n > 48 && ip[0]>>4 == 6 && ip[6] == udp:
			from, _ = netip.AddrFromSlice(ip[8:24])
			to, _ = netip.AddrFromSlice(ip[24:40])
			return from, to, string(ip[48:])
		}
	}
}
