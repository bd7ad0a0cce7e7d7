package ports

import (
	"errors"
	"net"
	"slices"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// door is a gateway that records published ports.
type door struct {
	open map[string]uint16 // by address
}

func (d *door) Publish(l *net.TCPListener, port uint16) func() {
	at := l.Addr().String()
	d.open[at] = port
	return func() { delete(d.open, at); _ = l.Close() }
}

func wished(t *testing.T, texts ...string) []spec.Port {
	t.Helper()
	var list []spec.Port
	for _, text := range texts {
		p, err := spec.ParsePort(text)
		must(t, err)
		list = append(list, p)
	}
	return list
}

// taken listens on some loopback port, and returns the address as text.
func taken(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	return port
}

func TestPorts(t *testing.T) {
	d := &door{open: map[string]uint16{}}
	var ps Table
	defer func() { _ = ps.Set(nil, d) }()
	must(t, ps.Claim(wished(t, "3000", "127.0.0.1::3001")))
	if len(d.open) != 0 {
		t.Error("somebody is answered before the wall stands")
	}
	ps.Serve(d)
	list := ps.List()
	if len(list) != len(d.open) || len(list) < 2 {
		t.Fatalf("published is %+v, answered %+v", list, d.open)
	}
	for _, p := range list {
		if d.open[net.JoinHostPort(p.HostIP.String(), port(p))] != p.Port || !p.HostIP.IsLoopback() || p.HostPort == 0 {
			t.Errorf("%+v is not among %+v", p, d.open)
		}
	}
	// Both have the same host port, if both addresses exist.
	if list[0].HostIP.Is4() && list[1].HostIP.Is6() && list[0].HostPort != list[1].HostPort {
		t.Errorf("one port is at %+v", list)
	}

	// Unchanged ports stay open; a republished port gets its former place.
	must(t, ps.Set(wished(t, "127.0.0.1::3001"), d))
	if got := ps.List(); len(got) != 1 || !slices.Contains(list, got[0]) {
		t.Errorf("left of %+v is %+v", list, got)
	}
	must(t, ps.Set(wished(t, "3000", "127.0.0.1::3001"), d))
	for _, p := range ps.List() {
		if !slices.Contains(list, p) {
			t.Errorf("%+v was not among %+v", p, list)
		}
	}
	must(t, ps.Set(nil, d))
	if len(ps.List())+len(d.open) != 0 {
		t.Errorf("still there: %+v, %+v", ps.List(), d.open)
	}
	for _, p := range list {
		if c, err := net.Dial("tcp", net.JoinHostPort(p.HostIP.String(), port(p))); err == nil {
			_ = c.Close()
			t.Errorf("%+v answers", p)
		}
	}
}

func port(p spec.Port) string { return (spec.Port{Port: p.HostPort}).String() }

// TestPortsClose checks that an ending sandbox publishes nothing any more.
func TestPortsClose(t *testing.T) {
	d := &door{open: map[string]uint16{}}
	var ps Table
	must(t, ps.Set(wished(t, "3000"), d))
	ps.Close()
	if err := ps.Set(wished(t, "3001"), d); !errors.Is(err, spec.ErrStopping) {
		t.Errorf("at the end: %v", err)
	}
	if len(d.open)+len(ps.List()) != 0 {
		t.Errorf("still there: %+v, %+v", ps.List(), d.open)
	}
}

// TestPortsTaken checks that a busy port is a conflict, and changes nothing.
func TestPortsTaken(t *testing.T) {
	busy := taken(t) + ":3000"
	d := &door{open: map[string]uint16{}}
	var ps Table
	if err := ps.Claim(wished(t, busy)); !errors.Is(err, spec.ErrConflict) || spec.Hint(err) == "" {
		t.Errorf("at a start: %v", err)
	}
	ps = Table{}
	must(t, ps.Set(wished(t, "4000", "4001"), d))
	defer func() { _ = ps.Set(nil, d) }()
	before := ps.List()
	if err := ps.Set(wished(t, "4001", "4002", busy), d); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("at a change: %v", err)
	}
	after := ps.List()
	if len(after) != len(before) || len(d.open) != len(before) {
		t.Errorf("before %+v, after %+v, answered %+v", before, after, d.open)
	}
	for _, p := range before {
		if !slices.Contains(after, p) {
			t.Errorf("%+v is gone: %+v", p, after)
		}
	}

	// Also if only the IPv6 address is busy.
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Log("not tried: this host has no IPv6 loopback:", err)
		return
	}
	defer l.Close()
	_, six, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	if p, err := listenFor(wished(t, six+":3000")[0], nil); err == nil {
		p.closeListeners()
		t.Error("half of the loopback is enough")
	}
}

func TestPortsUnpublishable(t *testing.T) {
	for text, class := range map[string]error{
		"192.0.2.77:8080:3000": spec.ErrConflict, "[2001:db8::77]::3000": spec.ErrConflict,
	} {
		if p, err := listenFor(wished(t, text)[0], nil); err == nil {
			p.closeListeners()
			t.Errorf("%s is published", text)
		} else if !errors.Is(err, class) || spec.Hint(err) == "" {
			t.Errorf("%s: %v", text, err)
		}
	}
}
