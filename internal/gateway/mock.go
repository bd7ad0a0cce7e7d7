package gateway

import (
	"context"
	"net/http"
	"slices"

	"github.com/bothy-dev/bothy/internal/gateway/inspect/upstream"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// mockReason is why something about a played server is allowed.
const mockReason = "the sandbox's mock answers it, and nothing of it leaves this host"

// Mock plays servers: the gateway answers requests to them here, at any port, whatever the policy
// says.
type Mock struct {
	Hosts  []string // their names, clean
	Player http.Handler
}

// playsHost reports whether the server of a name is played.
func (m *Mock) playsHost(name string) bool {
	return m != nil && slices.Contains(m.Hosts, name)
}

// player returns the handler that plays the server of a host, or nil.
func (m *Mock) player(h upstream.Host) http.Handler {
	if !m.playsHost(h.Name) {
		return nil
	}
	return m.Player
}

// hostNames are the names whose servers are played.
func (m *Mock) hostNames() []string {
	if m == nil {
		return []string{}
	}
	return m.Hosts
}

// toMock answers an attempt to reach a played server. It asks no policy, dials nothing, and
// replaces no placeholder by a secret. It refuses everything but HTTP.
func (g *Gateway) toMock(a *netstack.Attempt, s policy.Flow) {
	r := spec.NetworkRecord{
		Event: spec.NetworkFlow, Name: s.Name, Port: s.Port, Protocol: "tcp",
		Verdict: spec.VerdictAllow, Reason: mockReason, Mocked: true,
	}
	s.Seen = true // nothing of it passes unseen
	f := &flow{kind: toMock, subject: s, looked: true}
	g.tracks.trackFlow(f, r, func(ctx context.Context, r *spec.NetworkRecord) error {
		return g.lookInto(ctx, a, f, r, true)
	})
}
