package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
	"github.com/bothy-dev/bothy/internal/gateway/sshagent"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// maxAgents bounds the conversations with the host's SSH agent: each takes a file descriptor of the
// host.
const maxAgents = 32

// agentDial is how long the host's SSH agent may take to answer.
const agentDial = 5 * time.Second

// agents lends the host's SSH agent to the inside.
type agents struct {
	loans      atomic.Pointer[[]wire.Loan] // as it is lent
	talks      atomic.Int32                // conversations with it
	life       *lifetime
	journal    *journal
	pause      *pause
	flows      *table
	knownHosts []string
	held       *held.Budget
}

// splitLoans separates loans that go into requests from loans of the host's SSH agent.
func splitLoans(loans []wire.Loan) (requests, agents []wire.Loan) {
	for _, l := range loans {
		if l.Place.IsAgent() {
			agents = append(agents, l)
		} else {
			requests = append(requests, l)
		}
	}
	return requests, agents
}

// loanFor returns the lease that allows logins, or signatures, by the host's SSH agent now. It
// returns nil without such a lease.
func (h *agents) loanFor(kind spec.PlaceKind) *wire.Loan {
	list := h.loans.Load()
	if list == nil {
		return nil
	}
	i := slices.IndexFunc(*list, func(l wire.Loan) bool { return l.Place.Kind == kind && isAgentLent(&l) })
	if i < 0 {
		return nil
	}
	return &(*list)[i]
}

// isAgentLent reports whether a lease counts now.
func isAgentLent(l *wire.Loan) bool { return !l.Taken && len(l.Value) > 0 && l.Live(time.Now()) }

// serveAttempt lets a program inside talk to the host's SSH agent.
func (h *agents) serveAttempt(a *netstack.Attempt) {
	defer h.talks.Add(-1)
	l := cmp.Or(h.loanFor(spec.PlaceAgent), h.loanFor(spec.PlaceSignature))
	switch {
	case h.talks.Add(1) > maxAgents:
		h.journal.refuseLocal(a, fmt.Sprintf("%d programs talk to the host's SSH agent already", maxAgents))
		return
	case l == nil:
		h.journal.refuseLocal(a, "the host's SSH agent is not lent")
		return
	}
	c, err := a.Accept()
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	socket := string(l.Value)
	lent := func(kind spec.PlaceKind) func() bool {
		return func() bool { // by that agent: each may be lent one of its own
			l := h.loanFor(kind)
			return l != nil && string(l.Value) == socket && h.pause.reason() == nil
		}
	}
	f := &sshagent.Filter{
		Dial:   func(ctx context.Context) (net.Conn, error) { return dialAgent(ctx, socket) },
		Logins: lent(spec.PlaceAgent), Signatures: lent(spec.PlaceSignature),
		Reached: h.connected, Known: h.knownHosts, Log: h.recordUse, Held: h.held,
	}
	if err := f.Serve(h.life.ctx, c); err != nil && h.life.ctx.Err() == nil {
		h.recordUse(sshagent.Use{Err: err})
	}
}

func dialAgent(ctx context.Context, socket string) (net.Conn, error) {
	if err := hostpath.Answers(filepath.Dir(socket)); err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: agentDial}
	return d.DialContext(ctx, "unix", socket)
}

// dialLogins connects to the host's SSH agent for a login that the gateway makes.
func (h *agents) dialLogins(ctx context.Context) (net.Conn, error) {
	l := h.loanFor(spec.PlaceAgent)
	if l == nil {
		return nil, errors.New("it is not lent any more")
	}
	return dialAgent(ctx, string(l.Value))
}

// connected returns the servers that the inside is connected to. The policy allows them: the
// gateway would have ended the connection otherwise. Servers whose whole traffic is judged are left
// out: the gateway speaks to them itself, and no program inside logs in there.
func (h *agents) connected() (list []sshagent.Server) {
	for _, f := range h.flows.listFlows() {
		s := f.asJudged()
		if f.kind != judged || s.Seen || f.endReason() != nil {
			continue
		}
		name := s.Name
		if name == "" {
			name = s.Addr.Unmap().String()
		}
		list = append(list, sshagent.Server{Name: name, Port: s.Port})
	}
	return list
}

func (h *agents) recordUse(u sshagent.Use) {
	r := spec.NetworkRecord{Event: spec.NetworkSecret, Verdict: spec.VerdictAllow, Name: u.Server.Name, Port: u.Server.Port, Protocol: "ssh"}
	kind := spec.PlaceAgent
	if u.Signature || h.loanFor(kind) == nil {
		kind = spec.PlaceSignature
	}
	if l := h.loanFor(kind); l != nil {
		r.Secret, r.Lease = l.Secret, l.ID
	}
	r.Reason = "key " + u.Key + " signed the login of " + u.User
	if u.Signature {
		r.Reason = "key " + u.Key + " signed for git"
	}
	if u.Err != nil {
		r.Verdict, r.Reason = spec.VerdictDeny, "the SSH agent did not sign: "+u.Err.Error()
	}
	h.journal.record(r)
}
