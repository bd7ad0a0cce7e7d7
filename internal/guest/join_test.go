package guest

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/wire"
)

// sides returns the two connections that init makes: to a server, and back to the gateway.
func sides(t *testing.T, network, loopback string) (server, gateway *net.TCPConn) {
	t.Helper()
	listen := func(network, at string) net.Listener {
		l, err := net.Listen(network, at)
		if err != nil && network == "tcp6" {
			t.Skip("skipped: this host has no IPv6 loopback:", err)
		}
		must(t, err)
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	inside, outside := listen(network, loopback), listen("tcp4", "127.0.0.1:0")
	accept := func(l net.Listener) *net.TCPConn {
		c, err := l.Accept()
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		must(t, c.SetDeadline(time.Now().Add(time.Minute)))
		return c.(*net.TCPConn)
	}
	must(t, joinServer(wire.Join{
		Port: uint16(inside.Addr().(*net.TCPAddr).Port), To: netip.MustParseAddrPort(outside.Addr().String()), Key: "the key",
	}))
	server, gateway = accept(inside), accept(outside)
	key := make([]byte, len("the key"))
	if _, err := io.ReadFull(gateway, key); err != nil || string(key) != "the key" {
		t.Fatalf("the key is %q, %v", key, err)
	}
	return server, gateway
}

// TestJoin checks that a half-closed connection stays open in the other direction.
func TestJoin(t *testing.T) {
	for network, at := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0"} {
		t.Run(network, func(t *testing.T) {
			server, gateway := sides(t, network, at)
			asked := strings.Repeat("question ", 1<<17)
			go func() { _, _ = io.WriteString(gateway, asked); _ = gateway.CloseWrite() }()
			if got, err := io.ReadAll(server); err != nil || string(got) != asked {
				t.Errorf("the server hears %d bytes, %v", len(got), err)
			}
			_, err := io.WriteString(server, "answer")
			must(t, err)
			must(t, server.CloseWrite())
			if got, err := io.ReadAll(gateway); err != nil || string(got) != "answer" {
				t.Errorf("the gateway hears %q, %v", got, err)
			}
		})
	}
}

// TestJoinReset checks that a reset of either side reaches the other.
func TestJoinReset(t *testing.T) {
	for _, first := range []string{"server", "gateway"} {
		server, gateway := sides(t, "tcp4", "127.0.0.1:0")
		one, other := server, gateway
		if first == "gateway" {
			one, other = gateway, server
		}
		must(t, one.SetLinger(0))
		must(t, one.Close())
		if _, err := other.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after the %s's reset: %v", first, err)
		}
	}
}

func TestJoinNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	to := netip.MustParseAddrPort(l.Addr().String())
	must(t, l.Close())
	if err := joinServer(wire.Join{Port: to.Port(), To: to}); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("without a server: %v", err)
	}
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	defer server.Close()
	port := netip.MustParseAddrPort(server.Addr().String()).Port()
	if err := joinServer(wire.Join{Port: port, To: to}); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("without a gateway: %v", err)
	}
	c, err := server.Accept()
	must(t, err)
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := c.Read(make([]byte, 1)); err != io.EOF && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the server is left with a connection: %v", err)
	}
}
