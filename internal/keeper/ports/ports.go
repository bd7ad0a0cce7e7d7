// Package ports publishes ports of a sandbox on the host.
package ports

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// Table holds the published ports. The listeners belong to this process, which is in the host's
// network: they close with the process, however it ends.
type Table struct {
	mu        sync.Mutex   // guards all below; held while listeners open and close
	published []*published // those with listeners
	last      []spec.Port  // host ports of the sandbox's last run
	closed    bool         // the sandbox is ending: it publishes nothing any more
}

// New publishes nothing yet. before are the ports of the sandbox's last run: a request without
// a host port gets its former one if that is free.
func New(before []spec.Port) *Table { return &Table{last: before} }

// Gateway carries connections inside.
type Gateway interface {
	// Publish carries connections to a listener to a port inside. The returned function closes the
	// listener and ends those connections.
	Publish(l *net.TCPListener, port uint16) (end func())
}

// published is a requested port with its listeners. A request without an address has listeners on
// both loopback addresses.
type published struct {
	request   spec.Port
	listeners []*net.TCPListener
	ends      []func() // set once it takes connections
}

// hostPorts returns its places on the host.
func (p *published) hostPorts() []spec.Port {
	var list []spec.Port
	for _, l := range p.listeners {
		a := l.Addr().(*net.TCPAddr).AddrPort()
		list = append(list, spec.Port{HostIP: a.Addr().Unmap(), HostPort: a.Port(), Port: p.request.Port, Protocol: p.request.Protocol})
	}
	return list
}

// acceptAll starts to take connections.
func (p *published) acceptAll(g Gateway) {
	for _, l := range p.listeners {
		p.ends = append(p.ends, g.Publish(l, p.request.Port))
	}
}

// closeListeners closes the listeners and their connections.
func (p *published) closeListeners() {
	for _, end := range p.ends {
		end()
	}
	for _, l := range p.listeners {
		_ = l.Close()
	}
}

// Claim binds all ports of the spec. It takes no connections yet.
func (t *Table) Claim(wishes []spec.Port) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, wish := range wishes {
		p, err := listenFor(wish, t.last)
		if err != nil {
			return err
		}
		t.published = append(t.published, p)
	}
	return nil
}

// Serve starts to take connections on all of them.
func (t *Table) Serve(g Gateway) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.published {
		p.acceptAll(g)
	}
}

// List returns the places of the ports.
func (t *Table) List() []spec.Port {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := []spec.Port{}
	for _, p := range t.published {
		list = append(list, p.hostPorts()...)
	}
	return list
}

// Set publishes these ports and no others. If one fails the old ports are published again, but
// connections to ports that were to be closed have ended.
func (t *Table) Set(wishes []spec.Port, g Gateway) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return spec.Errorf(spec.ErrStopping, "the sandbox is stopping")
	}
	var kept, gone, added []*published
	for _, p := range t.published {
		if slices.Contains(wishes, p.request) {
			kept = append(kept, p)
			continue
		}
		gone = append(gone, p)
		t.last = append(p.hostPorts(), t.last[:min(len(t.last), maxLast)]...)
		p.closeListeners()
	}
	open := func(wish spec.Port) error {
		p, err := listenFor(wish, t.last)
		if err == nil {
			added = append(added, p)
		}
		return err
	}
	for _, wish := range wishes {
		if slices.ContainsFunc(kept, func(p *published) bool { return p.request == wish }) {
			continue
		}
		if err := open(wish); err != nil {
			for _, p := range added {
				p.closeListeners()
			}
			added = nil
			for _, p := range gone {
				err = errors.Join(err, open(p.request))
			}
			t.published = t.serveAdded(kept, added, g)
			return err
		}
	}
	t.published = t.serveAdded(kept, added, g)
	return nil
}

// Close closes all of them, for good.
func (t *Table) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.published {
		p.closeListeners()
	}
	t.published, t.closed = nil, true
}

func (t *Table) serveAdded(kept, added []*published, g Gateway) []*published {
	for _, p := range added {
		p.acceptAll(g)
	}
	return append(kept, added...)
}

// maxLast bounds the remembered places of ports.
const maxLast = 256

// freeTries is how often listenFor looks for a port that is free on both loopback addresses.
const freeTries = 20

// listenFor listens for a published port. A request without a host port gets its former one if that is
// free, otherwise any free one.
func listenFor(wish spec.Port, before []spec.Port) (*published, error) {
	if wish.HostPort != 0 {
		p, err := listenOn(wish, wish.HostPort)
		if err != nil {
			return nil, unpublishable(wish, err)
		}
		return p, nil
	}
	for _, b := range before {
		if b.Port == wish.Port && (b.HostIP == wish.HostIP || !wish.HostIP.IsValid() && b.HostIP.IsLoopback()) {
			if p, err := listenOn(wish, b.HostPort); err == nil {
				return p, nil
			}
		}
	}
	for try := 1; ; try++ {
		p, err := listenOn(wish, 0)
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, unix.EADDRINUSE) || try == freeTries {
			return nil, unpublishable(wish, err)
		}
	}
}

func listenOn(wish spec.Port, port uint16) (*published, error) {
	p := &published{request: wish}
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
			p.closeListeners()
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
			WithHint("choose another port of the host, or find its owner: ss -ltnp 'sport = :%d'", wish.HostPort)
	case errors.Is(err, unix.EACCES):
		return spec.Errorf(spec.ErrDenied, "publish port %d: %s needs a privilege that no keeper has, not even root's", wish.Port, at).
			WithHint("choose a port of the host from 1024 on")
	case errors.Is(err, unix.EADDRNOTAVAIL), errors.Is(err, unix.EAFNOSUPPORT):
		return spec.Errorf(spec.ErrConflict, "publish port %d: the host has no address %s", wish.Port, wish.HostIP).
			WithHint("ip addr tells which it has; without an address a port is published on the loopback")
	}
	return fmt.Errorf("publish port %d: %w", wish.Port, err)
}
