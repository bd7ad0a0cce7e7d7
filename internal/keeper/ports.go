package keeper

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// ports are the published ports. The listeners belong to this process, which is in the host's
// network: they close with the process, however it ends.
type ports struct {
	mu     sync.Mutex
	open   []*published
	last   []spec.Port // host ports of the sandbox's last run
	closed bool        // the sandbox is ending: it publishes nothing any more
}

// published is a requested port with its listeners. A request without an address has listeners on
// both loopback addresses.
type published struct {
	wish      spec.Port
	listeners []*net.TCPListener
	ends      []func() // set once it takes connections
}

// at returns its places on the host.
func (p *published) at() []spec.Port {
	var list []spec.Port
	for _, l := range p.listeners {
		a := l.Addr().(*net.TCPAddr).AddrPort()
		list = append(list, spec.Port{HostIP: a.Addr().Unmap(), HostPort: a.Port(), Port: p.wish.Port, Protocol: p.wish.Protocol})
	}
	return list
}

// serve starts to take connections.
func (p *published) serve(g Gateway) {
	for _, l := range p.listeners {
		p.ends = append(p.ends, g.Publish(l, p.wish.Port))
	}
}

// end closes the listeners and their connections.
func (p *published) end() {
	for _, end := range p.ends {
		end()
	}
	for _, l := range p.listeners {
		_ = l.Close()
	}
}

// claim binds all ports of the spec. It takes no connections yet.
func (t *ports) claim(wishes []spec.Port) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, wish := range wishes {
		p, err := bind(wish, t.last)
		if err != nil {
			return err
		}
		t.open = append(t.open, p)
	}
	return nil
}

// serve starts to take connections on all of them.
func (t *ports) serve(g Gateway) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.open {
		p.serve(g)
	}
}

// list returns the places of the ports.
func (t *ports) list() []spec.Port {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := []spec.Port{}
	for _, p := range t.open {
		list = append(list, p.at()...)
	}
	return list
}

// set publishes these ports and no others. If one fails the old ports are published again, but
// connections to ports that were to be closed have ended.
func (t *ports) set(wishes []spec.Port, g Gateway) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return spec.Errorf(spec.ErrStopping, "the sandbox is stopping")
	}
	var kept, gone, added []*published
	for _, p := range t.open {
		if slices.Contains(wishes, p.wish) {
			kept = append(kept, p)
			continue
		}
		gone = append(gone, p)
		t.last = append(p.at(), t.last[:min(len(t.last), maxLast)]...)
		p.end()
	}
	open := func(wish spec.Port) error {
		p, err := bind(wish, t.last)
		if err == nil {
			added = append(added, p)
		}
		return err
	}
	for _, wish := range wishes {
		if slices.ContainsFunc(kept, func(p *published) bool { return p.wish == wish }) {
			continue
		}
		if err := open(wish); err != nil {
			for _, p := range added {
				p.end()
			}
			added = nil
			for _, p := range gone {
				err = errors.Join(err, open(p.wish))
			}
			t.open = t.begin(kept, added, g)
			return err
		}
	}
	t.open = t.begin(kept, added, g)
	return nil
}

// close closes all of them, for good.
func (t *ports) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.open {
		p.end()
	}
	t.open, t.closed = nil, true
}

func (t *ports) begin(kept, added []*published, g Gateway) []*published {
	for _, p := range added {
		p.serve(g)
	}
	return append(kept, added...)
}

// maxLast bounds the remembered places of ports.
const maxLast = 256

// freeTries is how often bind looks for a port that is free on both loopback addresses.
const freeTries = 20

// bind listens for a published port. A request without a host port gets its former one if that is
// free, otherwise any free one.
func bind(wish spec.Port, before []spec.Port) (*published, error) {
	if wish.HostPort != 0 {
		p, err := bindAt(wish, wish.HostPort)
		if err != nil {
			return nil, unpublishable(wish, err)
		}
		return p, nil
	}
	for _, b := range before {
		if b.Port == wish.Port && (b.HostIP == wish.HostIP || !wish.HostIP.IsValid() && b.HostIP.IsLoopback()) {
			if p, err := bindAt(wish, b.HostPort); err == nil {
				return p, nil
			}
		}
	}
	for try := 1; ; try++ {
		p, err := bindAt(wish, 0)
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, unix.EADDRINUSE) || try == freeTries {
			return nil, unpublishable(wish, err)
		}
	}
}

func bindAt(wish spec.Port, port uint16) (*published, error) {
	p := &published{wish: wish}
	addresses := []netip.Addr{wish.HostIP}
	if !wish.HostIP.IsValid() {
		addresses = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	}
	for i, a := range addresses {
		l, err := listenAt(netip.AddrPortFrom(a, port))
		if i > 0 && (errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT)) {
			continue // a host without IPv6
		}
		if err != nil {
			p.end()
			return nil, err
		}
		p.listeners = append(p.listeners, l)
		port = l.Addr().(*net.TCPAddr).AddrPort().Port()
	}
	return p, nil
}

// listenAt listens on one address of the host.
func listenAt(at netip.AddrPort) (*net.TCPListener, error) {
	network := "tcp4"
	if at.Addr().Is6() {
		network = "tcp6" // and not IPv4 as well
	}
	return net.ListenTCP(network, net.TCPAddrFromAddrPort(at))
}

// unpublishable explains to a person why a port cannot be published.
func unpublishable(wish spec.Port, err error) error {
	at := wish.String()
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Addr != nil {
		at = op.Addr.String()
	}
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return spec.Errorf(spec.ErrConflict, "publish port %d: %s of the host is in use", wish.Port, at).
			WithHint("choose another port of the host, or see who has it: ss -ltnp 'sport = :%d'", wish.HostPort)
	case errors.Is(err, unix.EACCES):
		return spec.Errorf(spec.ErrDenied, "publish port %d: %s needs a privilege that no keeper has, not even root's", wish.Port, at).
			WithHint("choose a port of the host from 1024 on")
	case errors.Is(err, unix.EADDRNOTAVAIL), errors.Is(err, unix.EAFNOSUPPORT):
		return spec.Errorf(spec.ErrConflict, "publish port %d: the host has no address %s", wish.Port, wish.HostIP).
			WithHint("ip addr tells which it has; without an address a port is published on the loopback")
	}
	return fmt.Errorf("publish port %d: %w", wish.Port, err)
}

// answerPorts publishes ports and opens host ports for a caller.
func (k *Keeper) answerPorts(c *unixconn.Conn, want wire.Ports) error {
	if err := k.begin(); err != nil {
		return err
	}
	defer k.end()
	<-k.recorded
	err := k.ports.set(want.Published, k.gateway)
	if errors.Is(err, spec.ErrStopping) {
		return err
	}
	at := k.ports.list()
	k.status.update(func(st *spec.Status) { st.Ports = at })
	if err != nil {
		return err
	}
	k.gateway.SetHostPorts(want.Host)
	k.event("ports", map[string]any{"published": want.Published, "host": want.Host})
	return c.SendJSON(wire.Reply, wire.Ports{Published: at, Host: want.Host})
}

// busyPort adds a hint how an existing sandbox can give a port up.
func (k *Keeper) busyPort(err error) error {
	said, ok := errors.AsType[*spec.Error](err)
	if ok && k.ranBefore && errors.Is(err, spec.ErrConflict) {
		said.Hint += fmt.Sprintf("; bothy ports %s --unpublish PORT gives it up", k.spec.Name)
	}
	return err
}
