package gateway

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// TestHostsOwnAddressHasItsCommand checks that names that resolve to the host's own address are
// refused. The refusal told outside has the command that opens the address, and the command works.
func TestHostsOwnAddressHasItsCommand(t *testing.T) {
	own := netip.MustParseAddrPort("93.184.216.7:5432")
	for _, host := range []string{"home.example.com", "{host: home.example.com, methods: [GET]}"} {
		w := start(t, document(t, 1, "allow: ["+host+", 0.0.0.0/0]\n"), map[string][]string{"home.example.com": {own.Addr().String()}})
		w.judge.host.mu.Lock()
		w.judge.host.set, w.judge.host.at = map[netip.Addr]bool{own.Addr(): true}, time.Now().Add(time.Hour)
		w.judge.host.mu.Unlock()
		event := spec.NetworkFlow
		if strings.Contains(host, "methods") {
			event = spec.NetworkRequest
			fetch(t, w.client(t, false), "GET", "http://home.example.com:5432/", nil)
		} else if c, err := w.in.DialName(t.Context(), "home.example.com", own.Port()); err == nil {
			c.Close()
			t.Error("it was reached")
		}
		r := w.record(t, "the refusal", func(r spec.NetworkRecord) bool { return r.Event == event })
		if r.Verdict != spec.VerdictDeny || r.Addr != own.Addr() || !strings.Contains(r.Reason, "an address of the host itself") || r.Suggest != "bothy policy allow 93.184.216.7:5432 --sandbox box" {
			t.Errorf("it says %+v", r)
		}
		if w.judge.notHost(own) == nil {
			t.Error("a rule for everything opens it")
		}
		w.SetPolicy(document(t, 2, "allow: [home.example.com, 93.184.216.7:5432]\n"))
		if err := w.judge.notHost(own); err != nil {
			t.Errorf("with that rule: %v", err)
		}
	}
}

// TestHostsOwnAddressIsClosedOtherwise checks that a host address that is closed for another reason
// is refused for that reason, with that reason's command, if any: the host's owning it opens
// nothing.
func TestHostsOwnAddressIsClosedOtherwise(t *testing.T) {
	w := start(t, document(t, 1, "allow: [198.51.100.0/24]\ndeny: [93.184.216.8]\n"), map[string][]string{})
	metadata, denied, none := netip.MustParseAddrPort("169.254.169.254:80"), netip.MustParseAddrPort("93.184.216.8:80"), netip.MustParseAddrPort("93.184.216.9:80")
	w.judge.host.mu.Lock()
	w.judge.host.set, w.judge.host.at = map[netip.Addr]bool{metadata.Addr(): true, denied.Addr(): true, none.Addr(): true}, time.Now().Add(time.Hour)
	w.judge.host.mu.Unlock()
	for to, want := range map[netip.AddrPort]struct {
		cause   policy.Cause
		command string
	}{
		metadata: {policy.CauseSpecial, ""},
		denied:   {policy.CauseRule, "bothy policy rm --id "},
		none:     {policy.CauseSpecial, "bothy policy allow 93.184.216.9:80 --sandbox box"},
	} {
		err := w.judge.notHost(to)
		d, ok := errors.AsType[*policy.Denied](err)
		if !ok || d.Decision.Cause != want.cause {
			t.Errorf("%s: %v", to, err)
			continue
		}
		s := d.Decision.Suggest()
		if got := s.Command("box"); got != want.command && (want.cause != policy.CauseRule || !strings.HasPrefix(got, want.command)) {
			t.Errorf("%s: %q", to, got)
		}
	}
}
