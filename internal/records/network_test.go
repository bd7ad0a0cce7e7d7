package records

import (
	"net/netip"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// TestRefusedCanBeAllowed checks that a hint names only hosts that can be allowed. It leaves out a
// host that is allowed already, to which a datagram was sent.
func TestRefusedCanBeAllowed(t *testing.T) {
	st, err := store.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	sb := &spec.Sandbox{Version: spec.Version, ID: store.NewID(), Name: "box", Agent: "shell", Template: spec.TemplateHost}
	_, err = st.Create(sb)
	must(t, err)
	began := time.Now().Add(-time.Minute)
	log, err := audit.Open(st.Sandbox(sb.ID).NetworkLog(), audit.Options{})
	must(t, err)
	for _, r := range []spec.NetworkRecord{
		{Event: spec.NetworkFlow, Verdict: spec.VerdictDeny, Name: "quic.example.com", Port: 443, Protocol: spec.ProtocolUDP},
		{Event: spec.NetworkFlow, Verdict: spec.VerdictDeny, Name: "ping.example.com", Protocol: spec.ProtocolICMP},
		{Event: spec.NetworkFlow, Verdict: spec.VerdictDeny, Addr: netip.MustParseAddr("192.0.2.1"), Port: 443, Protocol: "tcp"},
		{Event: spec.NetworkLookup, Verdict: spec.VerdictDeny, Name: "new.example.com"},
		{Event: spec.NetworkFlow, Verdict: spec.VerdictAllow, Name: "fine.example.com", Port: 443, Protocol: "tcp"},
	} {
		must(t, log.Write(r.Event, r))
	}
	must(t, log.Close())
	if got := Refused(st, sb, began); !reflect.DeepEqual(got, []string{"new.example.com"}) {
		t.Errorf("%q", got)
	}
}
