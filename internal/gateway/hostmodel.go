package gateway

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/bothy-dev/bothy/internal/gateway/inject"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/upstream"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// This file inspects traffic to ports of the host: questions to models there, and the secrets that
// are lent for them.

// isOwnServer reports whether a host is the model server that the sandbox was made for.
func (m *models) isOwnServer(h upstream.Host) bool { return m.own != nil && m.own.At == h.String() }

// target returns a host as the secrets see it: a port of the host counts as one of its loopback.
// Requests to the sandbox's own model server there stay on this host, so a secret may go to it in
// clear. No other port gets one in clear.
func (m *models) target(h upstream.Host) inject.Target {
	to := inject.Target{Name: h.Name, Addr: h.Addr, Port: h.Port, Secure: h.TLS}
	if spec.IsHostName(h.Name) {
		to.Name, to.Addr, to.Local = "", loopback[0], true
		to.Secure = h.TLS || m.isOwnServer(h)
	}
	return to
}

// serverName returns the host's name for the sandbox's own model server: some servers answer only to the
// name they know.
func (m *models) serverName(h upstream.Host) string {
	if spec.IsHostName(h.Name) && m.isOwnServer(h) {
		return m.own.Named
	}
	return ""
}

// judgeRequest decides about a request to a port of the host.
func (p *hostPorts) judgeRequest(h upstream.Host) policy.Decision {
	d := policy.Decision{Action: policy.Deny, MaxBody: policy.NoLimit}
	if slices.Contains(p.openPorts(), h.Port) {
		d.Action, d.Cause = policy.Allow, policy.CauseDefault
	}
	return d
}

// logHostRequest completes the record of a request to a port of the host. The port is open by its
// number.
func (g *Gateway) logHostRequest(r spec.NetworkRecord) {
	r.Addr = netip.Addr{}
	if r.Verdict == "" {
		r.Verdict = spec.VerdictAllow
	}
	r.Rule, r.Source = fmt.Sprintf("--allow-host-port %d", r.Port), "sandbox"
	g.journal.record(r)
}
