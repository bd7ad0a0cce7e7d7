package gateway

import (
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/namepool"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// TestRefusalsOfTheGatewayAreTold checks that each refusal that the gateway makes without the policy has
// one record.
func TestRefusalsOfTheGatewayAreTold(t *testing.T) {
	w := start(t, rules(t, 1, "allow **"), nil)
	for _, c := range []struct {
		name, say, reason string
		port              uint16
	}{
		{"a question that breaks off in its length", "\x00", "that breaks off", 53},
		{"a question that breaks off", "\x00\x20abc", "that breaks off", 53},
		{"a question of no bytes", "\x00\x00", "not a DNS question", 53},
		{"a long question", "\xff\xff", "more than 4096 bytes", 53},
		{"an agent that is not lent", "", "agent is not lent", wire.AgentPort},
		{"another port", "", "the sandbox's own gateway", 2222},
	} {
		conn, err := w.in.Dial(t.Context(), netip.AddrPortFrom(namepool.Gateway4, c.port))
		if err == nil {
			_, _ = io.WriteString(conn, c.say)
			_ = conn.CloseWrite()
			_ = conn.SetReadDeadline(time.Now().Add(patience))
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
		told := func(r spec.NetworkRecord) bool {
			return r.Verdict == spec.VerdictDeny && strings.Contains(r.Reason, c.reason)
		}
		w.record(t, c.name, told)
		w.mu.Lock()
		n := 0
		for _, r := range w.records {
			if told(r) {
				n++
			}
		}
		w.records = nil
		w.mu.Unlock()
		if n != 1 {
			t.Errorf("%s has %d records", c.name, n)
		}
	}
}
