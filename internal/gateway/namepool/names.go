// Package namepool gives each name that the inside may reach its own address. So every connection,
// whatever its protocol, shows the name that it is for.
//
// The addresses come from ranges without other uses: 198.18.0.0/15, which is reserved for benchmarks,
// and a private range of IPv6. They mean nothing outside or in another sandbox.
package namepool

import (
	"encoding/binary"
	"net/netip"
	"sync"

	"github.com/bothy-dev/bothy/spec"
)

// The network of every sandbox.
var (
	Network4 = netip.MustParsePrefix("198.18.0.0/15")
	Network6 = netip.MustParsePrefix("fd62:6f74:6879::/64")
	Gateway4 = netip.MustParseAddr("198.18.0.1") // the name server, and other services for the inside
	Gateway6 = netip.MustParseAddr("fd62:6f74:6879::1")
	Inside4  = netip.MustParseAddr("198.18.0.2") // the sandbox itself
	Inside6  = netip.MustParseAddr("fd62:6f74:6879::2")
	Host4    = netip.MustParseAddr("198.18.0.3") // stands for the host's loopback
	Host6    = netip.MustParseAddr("fd62:6f74:6879::3")
)

// first is the number of the first address that stands for a name: lower ones belong to the network
// itself.
const first = 256

// Max is how many names one sandbox may reach in its life. No program needs as many; it bounds memory.
const Max = 1 << 16

// ErrFull says that a sandbox has used up its names.
var ErrFull = spec.Errorf(spec.ErrDenied, "this sandbox asked for %d different names", Max)

// Pool maps the names of one sandbox to addresses. A name keeps its address forever: programs remember
// addresses longer than they should.
type Pool struct {
	mu    sync.RWMutex
	names []string
	index map[string]int
}

// New returns an empty pool.
func New() *Pool { return &Pool{index: map[string]int{}} }

// Resume returns a pool with these names, in this order.
func Resume(list []string) *Pool {
	p := New()
	for _, name := range list[:min(len(list), Max)] {
		_, _ = p.addName(name) // there is room
	}
	return p
}

// Addresses returns the addresses of a name, and chooses them at the first call. The name is in lower
// case, without a dot at its end.
func (p *Pool) Addresses(name string) (v4, v6 netip.Addr, err error) {
	p.mu.RLock()
	i, ok := p.index[name]
	p.mu.RUnlock()
	if !ok {
		if i, err = p.addName(name); err != nil {
			return v4, v6, err
		}
	}
	v4, v6 = addresses(i)
	return v4, v6, nil
}

func (p *Pool) addName(name string) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i, ok := p.index[name]; ok {
		return i, nil
	}
	if len(p.names) == Max {
		return 0, ErrFull
	}
	p.index[name] = len(p.names)
	p.names = append(p.names, name)
	return len(p.names) - 1, nil
}

// Name returns the name that an address stands for.
func (p *Pool) Name(a netip.Addr) (string, bool) {
	n, ok := number(a)
	if !ok {
		return "", false
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if n >= len(p.names) {
		return "", false
	}
	return p.names[n], true
}

// Names returns all names in the order of their numbers.
func (p *Pool) Names() []string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return append([]string(nil), p.names...)
}

// Own reports whether an address is in the sandbox's own network.
func Own(a netip.Addr) bool { return Network4.Contains(a) || Network6.Contains(a) }

// addresses returns the addresses of the n-th name.
func addresses(n int) (v4, v6 netip.Addr) {
	b4, b6 := Network4.Addr().As4(), Network6.Addr().As16()
	binary.BigEndian.PutUint32(b4[:], binary.BigEndian.Uint32(b4[:])+first+uint32(n))
	binary.BigEndian.PutUint32(b6[12:], first+uint32(n))
	return netip.AddrFrom4(b4), netip.AddrFrom16(b6)
}

// number is the inverse of addresses.
func number(a netip.Addr) (int, bool) {
	var n uint32
	switch {
	case a.Is4() && Network4.Contains(a):
		b, base := a.As4(), Network4.Addr().As4()
		n = binary.BigEndian.Uint32(b[:]) - binary.BigEndian.Uint32(base[:])
	case a.Is6() && !a.Is4In6() && a.Zone() == "" && Network6.Contains(a):
		b := a.As16()
		if binary.BigEndian.Uint32(b[8:]) != 0 {
			return 0, false
		}
		n = binary.BigEndian.Uint32(b[12:])
	}
	if n < first || n >= first+Max {
		return 0, false
	}
	return int(n - first), true
}
