package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/namepool"
	"github.com/bothy-dev/bothy/spec"
)

func opened(ports ...uint16) func(*Config, *world) {
	return func(c *Config, _ *world) { c.HostPorts = ports }
}

// TestHostName checks that the host's name is known only if a port is open, and that no resolver is
// asked for it.
func TestHostName(t *testing.T) {
	wide := []string{"allow **", "allow 127.0.0.0/8", "allow [::1]"}
	hosts := map[string][]string{"host.bothy": here, "host.docker.internal": here}
	w := start(t, rules(t, 1, wide...), hosts)
	for _, name := range []string{"host.bothy.", "HOST.bothy.", "host.docker.internal.", "x.host.bothy.", "bothy."} {
		if a, err := w.in.Resolver(false).LookupHost(t.Context(), name); err == nil {
			t.Errorf("%s is at %v", name, a)
		}
	}
	r := w.record(t, "the refusal", func(r spec.NetworkRecord) bool { return r.Name == "host.bothy" })
	if r.Verdict != spec.VerdictDeny || r.Suggest != "bothy ports box --allow-host-port PORT" {
		t.Errorf("it says %+v", r)
	}
	w.SetHostPorts([]uint16{5432})
	for _, name := range []string{"host.bothy.", "Host.Docker.Internal."} {
		a, err := w.in.Resolver(false).LookupNetIP(t.Context(), "ip", name)
		must(t, err)
		for _, a := range a {
			if a = a.Unmap(); a != namepool.Host4 && a != namepool.Host6 {
				t.Errorf("%s is at %s", name, a)
			}
		}
	}
	if back, err := w.in.Resolver(false).LookupAddr(t.Context(), namepool.Host4.String()); err != nil || back[0] != "host.bothy." {
		t.Errorf("back: %v, %v", back, err)
	}
	if asked := w.asked(); len(asked) > 0 {
		t.Errorf("the host's resolver was asked for %v", asked)
	}
}

func TestHostPort(t *testing.T) {
	four, _ := echo(t, "")
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("skipped: this host has no IPv6 loopback:", err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
	six := uint16(l.Addr().(*net.TCPAddr).Port)
	w := startWith(t, rules(t, 1, "deny **"), nil, opened(four, six))
	for _, to := range []netip.AddrPort{
		netip.AddrPortFrom(namepool.Host4, four), netip.AddrPortFrom(namepool.Host6, four), netip.AddrPortFrom(namepool.Host4, six),
	} {
		c, err := w.in.Dial(t.Context(), to)
		must(t, err)
		_, err = io.WriteString(c, "to the host")
		must(t, err)
		must(t, c.CloseWrite())
		if got, err := io.ReadAll(c); err != nil || string(got) != "to the host" {
			t.Errorf("%s: %q, %v", to, got, err)
		}
		_ = c.Close()
	}
	for port, addr := range map[uint16]string{four: "127.0.0.1", six: "::1"} {
		r := w.record(t, "the flow", func(r spec.NetworkRecord) bool { return r.Port == port })
		if r.Verdict != spec.VerdictAllow || r.State != spec.FlowClosed || r.Name != "host.bothy" || r.Addr.String() != addr || r.Up != 11 || r.Down != 11 ||
			!strings.HasPrefix(r.Rule, "--allow-host-port ") || r.Direction != "" {
			t.Errorf("it says %+v", r)
		}
	}
}

// TestHostPortClosed checks that all other ports of the host are closed: by the host's names, by names
// that resolve to the loopback, and by address, with the widest possible policy (A20, B9).
func TestHostPortClosed(t *testing.T) {
	closed, seen := echo(t, "")
	open, openSeen := echo(t, "")
	hosts := map[string][]string{"rebound.example": here, "six.example": {"::1"}, "mapped.example": {"::ffff:127.0.0.1"}, "zero.example": {"0.0.0.0"}}
	w := startWith(t, rules(t, 1, "allow **"), hosts, opened(open))
	for _, to := range []string{
		namepool.Host4.String(), "[" + namepool.Host6.String() + "]",
		namepool.Gateway4.String(), "[" + namepool.Gateway6.String() + "]", "127.0.0.1", "127.8.9.10", "[::1]", "0.0.0.0", "[::]",
		"[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "198.18.0.4", "198.19.255.255", "169.254.169.254",
	} {
		port := closed
		if !strings.Contains(to, namepool.Host4.String()) && !strings.Contains(to, namepool.Host6.String()) {
			port = open // not even that port, by any other address
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // the inside's own stack drops some without an answer
		if c, err := w.in.Dial(ctx, netip.AddrPortFrom(netip.MustParseAddr(strings.Trim(to, "[]")), port)); err == nil {
			_ = c.Close()
			t.Errorf("%s was reached", to)
		}
		cancel()
	}
	for name := range hosts {
		if c, err := w.in.DialName(t.Context(), name, open); err == nil {
			_ = c.Close()
			t.Errorf("%s was reached", name)
		}
	}
	if seen() > 0 || openSeen() > 0 {
		t.Errorf("servers of the host saw %d and %d callers", seen(), openSeen())
	}
	r := w.record(t, "the refusal", func(r spec.NetworkRecord) bool { return r.Name == "host.bothy" })
	if r.Verdict != spec.VerdictDeny || r.Reason == "" || !strings.HasPrefix(r.Suggest, "bothy ports box --allow-host-port ") || r.Rule != "" {
		t.Errorf("it says %+v", r)
	}
}

// TestHostPortTakenBack checks that closing a port ends its connections, and that a change of the policy
// does not.
func TestHostPortTakenBack(t *testing.T) {
	one, _ := echo(t, "")
	two, _ := echo(t, "")
	w := startWith(t, rules(t, 1), nil, opened(one, two))
	dialled := func(port uint16) func() error {
		c, err := w.in.Dial(t.Context(), netip.AddrPortFrom(namepool.Host4, port))
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return func() error {
			_ = c.SetDeadline(time.Now().Add(patience))
			if _, err := c.Write([]byte("x")); err != nil {
				return err
			}
			_, err := io.ReadFull(c, make([]byte, 1))
			return err
		}
	}
	a, b := dialled(one), dialled(two)
	must(t, errors.Join(a(), b()))
	w.SetPolicy(rules(t, 2, "deny **"))
	must(t, errors.Join(a(), b()))
	w.SetHostPorts([]uint16{two})
	if a() == nil {
		t.Error("the connection goes on")
	}
	must(t, b())
	if c, err := w.in.Dial(t.Context(), netip.AddrPortFrom(namepool.Host4, one)); err == nil {
		_ = c.Close()
		t.Error("the port is still open")
	}
	w.record(t, "the end", func(r spec.NetworkRecord) bool {
		return r.Port == one && r.Up == 2 && r.Verdict == spec.VerdictDeny && strings.Contains(r.Reason, "not allowed")
	})
}

// TestPausedPorts checks that a paused gateway lets no new connection to the host's ports through.
func TestPausedPorts(t *testing.T) {
	port, seen := echo(t, "")
	w := startWith(t, rules(t, 1), nil, opened(port))
	w.serve(t, at4(3000), repeat)
	l := listen(t)
	w.Publish(l, 3000)
	w.Pause("the log is full")
	if c, err := w.in.Dial(t.Context(), netip.AddrPortFrom(namepool.Host4, port)); err == nil {
		_ = c.Close()
		t.Error("the host was reached")
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil { // the reset may come before the client sees the connection
		defer c.Close()
		if said, err := io.ReadAll(c); err == nil {
			t.Errorf("the inside was reached: %q", said)
		}
	}
	for _, direction := range []string{"", spec.DirectionIn} {
		r := w.record(t, "the refusal", func(r spec.NetworkRecord) bool { return r.Event == spec.NetworkFlow && r.Direction == direction })
		if r.Verdict != spec.VerdictDeny || r.Reason != "the log is full" || r.Rule != "" {
			t.Errorf("it says %+v", r)
		}
	}
	if seen() > 0 {
		t.Error("the server saw somebody")
	}
	w.Pause("")
	c, err := w.in.Dial(t.Context(), netip.AddrPortFrom(namepool.Host4, port))
	must(t, err)
	_ = c.Close()
}

// TestHostPortNobodyThere checks that a port without a listener does not answer.
func TestHostPortNobodyThere(t *testing.T) {
	l := listen(t)
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	_ = l.Close()
	w := startWith(t, rules(t, 1), nil, opened(port))
	if c, err := w.in.Dial(t.Context(), netip.AddrPortFrom(namepool.Host4, port)); err == nil {
		_ = c.Close()
		t.Error("it was reached")
	}
	if r := w.record(t, "the failure", func(r spec.NetworkRecord) bool { return r.Port == port }); r.Verdict != spec.VerdictError {
		t.Errorf("it says %+v", r)
	}
}
