package gateway

import (
	"net/netip"
	"testing"

	"github.com/bothy-dev/bothy/internal/gateway/names"
	"github.com/bothy-dev/bothy/spec"
)

// What is no TCP, and what nobody answers at the gateway itself, is refused whatever the
// rules, and the log tells, by the name that it was for (A16).
func TestA16RefusedPacketsAreTold(t *testing.T) {
	w := start(t, rules(t, 3, "allow **", "allow 203.0.113.0/24"), nil)
	pool, _, err := w.names.Addresses("quic.example.com")
	must(t, err)
	for to, name := range map[netip.AddrPort]string{
		netip.AddrPortFrom(pool, 443):                  "quic.example.com",
		netip.MustParseAddrPort("203.0.113.9:53"):      "",
		netip.AddrPortFrom(names.Host4, 5353):          hostName,
		netip.MustParseAddrPort("[2606:4700::1]:3478"): "",
	} {
		must(t, w.in.Send(to, []byte("hello")))
		r := w.record(t, "a datagram", func(r spec.NetworkRecord) bool { return r.Protocol == spec.ProtocolUDP && r.Port == to.Port() })
		if r.Event != spec.NetworkFlow || r.Verdict != spec.VerdictDeny || r.Name != name || (name == "") != (r.Addr == to.Addr()) || r.Generation != 3 || r.Suggest != "" {
			t.Errorf("of %v the record is %+v", to, r)
		}
	}
	w.dropped(spec.ProtocolICMP, netip.MustParseAddrPort("203.0.113.9:0"))
	w.record(t, "an echo", func(r spec.NetworkRecord) bool {
		return r.Protocol == spec.ProtocolICMP && r.Verdict == spec.VerdictDeny
	})
	if c, err := w.in.Dial(t.Context(), netip.AddrPortFrom(names.Gateway4, 22)); err == nil {
		c.Close()
		t.Error("the gateway answers at port 22")
	}
	w.record(t, "it", func(r spec.NetworkRecord) bool {
		return r.Addr == names.Gateway4 && r.Port == 22 && r.Verdict == spec.VerdictDeny
	})
}
