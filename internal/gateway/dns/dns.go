// Package dns answers the inside's questions for names. It sends no query anywhere: an allowed name
// has an address from the sandbox's own pool, and its real address is looked up only when a program
// connects to it. So no question can carry data out, whatever it is for.
package dns

import (
	"errors"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/bothy-dev/bothy/internal/gateway/namepool"
)

// Zone answers the questions that the server passes on.
type Zone interface {
	// Lookup returns the addresses of a name that the inside may reach. The error is the reason why
	// it may not; ErrNoName means that the name does not exist.
	Lookup(name string) (v4, v6 netip.Addr, err error)
	// Reverse returns the name of one of those addresses.
	Reverse(a netip.Addr) (name string, ok bool)
	// Refused is called with questions that get no further. The name is as the inside wrote it;
	// empty, if the message cannot be read.
	Refused(name, why string)
}

// ErrNoName is for names that do not exist, rather than being refused.
var ErrNoName = errors.New("no such name")

// Times to live, in seconds. Addresses never change; a refusal may, by the next
// policy.
const (
	ttl         = 300
	negativeTTL = 1
)

// Size limits in bytes: without EDNS, and the most that this server ever sends or announces to take
// in a datagram.
const (
	plainSize = 512
	ednsSize  = 1232
)

// Server answers messages.
type Server struct{ Zone Zone }

// Answer returns the answer to a message, nil if it deserves none. overTCP lifts the limit on its
// size.
func (s *Server) Answer(message []byte, overTCP bool) []byte {
	q, rcode := parse(message)
	if q == nil {
		s.Zone.Refused("", "a message that is not a DNS question")
		return nil
	}
	if rcode != dnsmessage.RCodeSuccess {
		s.Zone.Refused("", "a question of DNS that cannot be read")
	}
	r := &reply{query: q, rcode: rcode}
	if rcode == dnsmessage.RCodeSuccess {
		s.resolve(r)
	}
	return r.packAnswer(overTCP)
}

// resolve fills in the answer to a well-formed question.
func (s *Server) resolve(r *reply) {
	asked := strings.TrimSuffix(r.query.question.Name.String(), ".")
	name := namepool.Lower(asked)
	switch {
	case r.query.question.Class != dnsmessage.ClassINET:
		s.Zone.Refused(asked, "a question for another class than IN")
		r.rcode = dnsmessage.RCodeRefused
	case r.query.question.Type == dnsmessage.TypePTR:
		s.reverse(r, name)
	case name == "localhost" || strings.HasSuffix(name, ".localhost"):
		r.addresses(netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback())
	case !wellFormed(name):
		s.Zone.Refused(asked, "not a name that hosts have")
		r.rcode = dnsmessage.RCodeNameError
	default:
		s.forward(r, name)
	}
}

func (s *Server) forward(r *reply, name string) {
	v4, v6, err := s.Zone.Lookup(name)
	if err != nil {
		r.rcode = dnsmessage.RCodeNameError
		if !errors.Is(err, ErrNoName) {
			r.why = err.Error()
		}
		return
	}
	r.addresses(v4, v6)
}

// reverse answers for the pool's own addresses. It knows no others.
func (s *Server) reverse(r *reply, name string) {
	a, ok := reverseAddress(name)
	if ok && a.IsLoopback() {
		r.pointer("localhost")
		return
	}
	if ok {
		if target, found := s.Zone.Reverse(a); found {
			r.pointer(target)
			return
		}
	}
	r.rcode = dnsmessage.RCodeNameError
}

// wellFormed admits names as hosts and services have them.
func wellFormed(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return false
			}
		}
	}
	return true
}

// reverseAddress reads 1.0.18.198.in-addr.arpa and its like.
func reverseAddress(name string) (netip.Addr, bool) {
	if rest, ok := strings.CutSuffix(name, ".in-addr.arpa"); ok {
		parts := strings.Split(rest, ".")
		if len(parts) != 4 {
			return netip.Addr{}, false
		}
		a, err := netip.ParseAddr(parts[3] + "." + parts[2] + "." + parts[1] + "." + parts[0])
		return a, err == nil && a.Is4()
	}
	rest, ok := strings.CutSuffix(name, ".ip6.arpa")
	if !ok || len(rest) != 63 {
		return netip.Addr{}, false
	}
	var b strings.Builder
	for i := len(rest) - 1; i >= 0; i -= 2 {
		if i > 0 && rest[i-1] != '.' {
			return netip.Addr{}, false
		}
		b.WriteByte(rest[i])
		if b.Len()%5 == 4 && i > 0 {
			b.WriteByte(':')
		}
	}
	a, err := netip.ParseAddr(b.String())
	return a, err == nil && a.Is6()
}
