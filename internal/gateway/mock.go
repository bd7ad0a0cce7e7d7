package gateway

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/bothy-dev/bothy/internal/gateway/inspect"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// mockReason is why something about a played server is allowed.
const mockReason = "the sandbox's mock answers it, and nothing of it leaves this host"

// mock is who plays the server of a host; nil: nobody.
func (g *Gateway) mock(h inspect.Host) http.Handler { return g.conf.Mocked[h.Name] }

// isMocked tells whether a name is played, at every port: what was left out
// would reach the server that is not to be reached.
func (g *Gateway) isMocked(name string) bool { return g.conf.Mocked[name] != nil }

// mockedNames are the names that are played, in order.
func (g *Gateway) mockedNames() []string { return slices.Sorted(maps.Keys(g.conf.Mocked)) }

// toMock answers an attempt to reach a server that is played. The policy is not
// asked, nothing is dialled, and no secret takes a placeholder's place. What is
// not HTTP is refused.
func (g *Gateway) toMock(a *netstack.Attempt, s policy.Flow) {
	r := spec.NetworkRecord{
		Event: spec.NetworkFlow, Name: s.Name, Port: s.Port, Protocol: "tcp",
		Verdict: spec.VerdictAllow, Reason: mockReason, Mocked: true,
	}
	s.Seen = true // nothing of it passes unseen
	f := &flow{kind: toMock, subject: s, looked: true}
	g.track(f, r, func(ctx context.Context, r *spec.NetworkRecord) error {
		return g.look(ctx, a, f, r, true)
	})
}
