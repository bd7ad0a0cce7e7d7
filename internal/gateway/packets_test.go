package gateway

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/namepool"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
	"github.com/bothy-dev/bothy/spec"
)

// TestA16RefusedPacketsAreTold checks that packets other than TCP, and packets to unused ports of the
// gateway, are refused whatever the rules, and that the log has the name that they were for (A16).
func TestA16RefusedPacketsAreTold(t *testing.T) {
	w := start(t, rules(t, 3, "allow **", "allow 203.0.113.0/24"), nil)
	pool, _, err := w.names.Addresses("quic.example.com")
	must(t, err)
	for to, name := range map[netip.AddrPort]string{
		netip.AddrPortFrom(pool, 443):                  "quic.example.com",
		netip.MustParseAddrPort("203.0.113.9:53"):      "",
		netip.AddrPortFrom(namepool.Host4, 5353):       spec.HostName,
		netip.MustParseAddrPort("[2606:4700::1]:3478"): "",
	} {
		must(t, w.in.Send(to, []byte("hello")))
		r := w.record(t, "a datagram", func(r spec.NetworkRecord) bool { return r.Protocol == spec.ProtocolUDP && r.Port == to.Port() })
		if r.Event != spec.NetworkFlow || r.Verdict != spec.VerdictDeny || r.Name != name || (name == "") != (r.Addr == to.Addr()) || r.Generation != 3 || r.Suggest != "" {
			t.Errorf("of %v the record is %+v", to, r)
		}
	}
	w.packets.addRefusal(netstack.Refusal{Protocol: spec.ProtocolICMP, To: netip.MustParseAddrPort("203.0.113.9:0")})
	w.record(t, "an echo", func(r spec.NetworkRecord) bool {
		return r.Protocol == spec.ProtocolICMP && r.Verdict == spec.VerdictDeny
	})
	for _, x := range []struct {
		number   uint8
		form, in string
	}{{132, "", "protocol 132 of IP (SCTP)"}, {254, "", "protocol 254 of IP never"}, {17, "a fragment", "a fragment never"}} {
		w.packets.addRefusal(netstack.Refusal{Protocol: spec.ProtocolIP, To: netip.AddrPortFrom(pool, 0), Number: x.number, Form: x.form})
		r := w.record(t, x.in, func(r spec.NetworkRecord) bool {
			return r.Protocol == spec.ProtocolIP && strings.Contains(r.Reason, x.in)
		})
		if r.Verdict != spec.VerdictDeny || r.Name != "quic.example.com" || r.Suggest != "" || !r.IsPacket() {
			t.Errorf("the record is %+v", r)
		}
	}
	if c, err := w.in.Dial(t.Context(), netip.AddrPortFrom(namepool.Gateway4, 22)); err == nil {
		c.Close()
		t.Error("the gateway answers at port 22")
	}
	w.record(t, "it", func(r spec.NetworkRecord) bool {
		return r.Addr == namepool.Gateway4 && r.Port == 22 && r.Verdict == spec.VerdictDeny
	})
}

// TestRefusedPacketsAreCounted checks that all of any number of refused packets are counted.
func TestRefusedPacketsAreCounted(t *testing.T) {
	w := start(t, rules(t, 1), nil)
	sent, told := int64(0), int64(0)
	send := func() {
		w.packets.addRefusal(netstack.Refusal{Protocol: spec.ProtocolUDP, To: netip.MustParseAddrPort("203.0.113.9:53")})
		sent++
	}
	for range 100 * maxUntold {
		send()
	}
	for range 500 {
		w.mu.Lock()
		told = 0
		for _, r := range w.records {
			told += max(1, r.Suppressed)
		}
		w.mu.Unlock()
		if told == sent {
			return
		}
		send() // a packet that was counted a moment too late is reported with the next
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d of %d are told", told, sent)
}
