package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/inject"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/upstream"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// judge decides by the rules, the leases and the budgets in force. It judges active flows again when
// those change.
type judge struct {
	policy  *atomic.Pointer[policy.Policy]
	secrets *atomic.Pointer[inject.Set]
	capture *Capture
	host    host
	ports   *hostPorts
	models  *models
	uploads *uploads
	agents  *agents
}

// judgeRequest decides about a request on an inspected connection.
func (j *judge) judgeRequest(h upstream.Host, r *policy.Request) policy.Decision {
	if spec.IsHostName(h.Name) {
		return j.ports.judgeRequest(h)
	}
	return j.policy.Load().Decide(policy.Query{
		Stage: policy.StageRequest, Name: h.Name, Addr: h.Addr, Port: h.Port, Request: r, Now: time.Now(),
	})
}

// admitRequest is judgeRequest for a new request: it refuses the request if the rule's budget is
// used up.
func (j *judge) admitRequest(h upstream.Host, r *policy.Request) policy.Decision {
	d := j.judgeRequest(h, r)
	j.uploads.afford(&d)
	return d
}

// judgeGit decides about a git command on an inspected connection.
func (j *judge) judgeGit(s policy.Flow, asked *policy.GitRequest) policy.Decision {
	q := policy.Query{Stage: policy.StageGit, Name: s.Name, Addr: s.Addr, Port: s.Port, Git: asked, Now: time.Now()}
	if s.Name != "" {
		q.Addr = netip.Addr{}
	}
	return j.policy.Load().Decide(q)
}

// judgeRenewal asks the sandbox's rules whether the gateway may ask a server for tokens. No rule
// needs to allow it, since the inside has no influence on it, but a rule may deny it.
func (j *judge) judgeRenewal(u *url.URL) error {
	port, err := strconv.ParseUint(cmp.Or(u.Port(), "443"), 10, 16)
	if err != nil {
		return err
	}
	d := j.policy.Load().Decide(policy.Query{
		Stage: policy.StageRequest, Name: u.Hostname(), Port: uint16(port), Now: time.Now(),
		Request: &policy.Request{Method: http.MethodPost, Host: u.Host, Path: u.EscapedPath(), Query: u.RawQuery, Body: -1},
	})
	if !d.Allowed() && d.Cause == policy.CauseRule {
		return &policy.Denied{Decision: d}
	}
	return nil
}

// mayFlow judges a flow again.
func (j *judge) mayFlow(f *flow) error {
	if f.kind == toHost {
		return j.mayReachHost(f)
	}
	now, s := time.Now(), f.asJudged()
	d := j.policy.Load().Still(s, now)
	if !d.Allowed() {
		return changed(d)
	}
	if f.isElsewhere() {
		if err := j.mayResolveElsewhere(s.Port); err != nil {
			return err
		}
	}
	if err := j.mayGoUnseen(f); err != nil {
		return err
	}
	if err := j.agents.mayLogIn(f); err != nil {
		return err
	}
	m := f.outflow
	switch {
	case s.Git != nil:
		m = f.gitMeter()
	case s.Seen: // its requests are counted, each by its own rule
		return nil
	}
	return recount(m, d.Budget)
}

// mayGoUnseen returns why a flow may not go on without inspection.
func (j *judge) mayGoUnseen(f *flow) error {
	s := f.asJudged()
	switch {
	case f.looked:
		return nil
	case j.isLent(hostOf(s)):
		return errors.New("a secret is lent for it now, and this connection was not inspected: connect again")
	case j.models.hasBudget():
		return errUnmetered
	}
	return nil
}

// isLent reports whether a secret is lent for a host now.
func (j *judge) isLent(h upstream.Host) bool {
	to := j.models.target(h)
	return j.secrets.Load().Bound(to.Name, to.Addr, to.Port, time.Now())
}

// mayReachHost judges a flow to a port of the host again.
func (j *judge) mayReachHost(f *flow) error {
	if port := f.asJudged().Port; !slices.Contains(j.ports.openPorts(), port) {
		return &advised{errHostPort(port), j.ports.suggest(fmt.Sprint(port))}
	}
	return j.mayGoUnseen(f)
}

// mayGoOn judges a connection to a server again.
func (j *judge) mayGoOn(h upstream.Host, addr netip.Addr) bool {
	if spec.IsHostName(h.Name) {
		d := j.ports.judgeRequest(h)
		return d.Allowed()
	}
	if !addr.IsValid() && j.mayResolveElsewhere(h.Port) != nil {
		return false
	}
	d := j.policy.Load().Still(policy.Flow{Name: h.Name, Addr: addr, Port: h.Port, Seen: true}, time.Now())
	return d.Allowed()
}

// mayResolveElsewhere decides whether the host's proxy may resolve an allowed name. The gateway
// does not see the address then, so no rule may deny addresses at that port.
func (j *judge) mayResolveElsewhere(port uint16) error {
	r, ok := j.policy.Load().DeniedAddresses(port, time.Now())
	if !ok {
		return nil
	}
	return fmt.Errorf("only the host's proxy can find its address, and rule %q (%s) denies some addresses", r.String(), r.Source)
}

// unseen suggests a rule by which connections like the recorded one pass without inspection.
func (j *judge) unseen(r *spec.NetworkRecord) policy.Suggestion {
	now := time.Now()
	switch {
	case r.Mocked, spec.IsHostName(r.Name):
		return policy.Suggestion{}
	case j.secrets.Load().Bound(r.Name, r.Addr, r.Port, now):
		return policy.Suggestion{Note: "as long as a secret is lent for it, it is looked into, whatever the rules say"}
	case j.logsInAt(r.Name, r.Port):
		return policy.Suggestion{Note: "it is inspected because logins made there are kept on the host"}
	case j.models.hasBudget():
		return policy.Suggestion{Note: "as long as the sandbox has a budget for models, it is looked into, whatever the rules say"}
	}
	q := policy.Query{Stage: policy.StageConnect, Name: r.Name, Addr: r.Addr, Port: r.Port, Now: now}
	if d := j.policy.Load().Decide(q); d.Git { // without inspection, every use of SSH would pass
		return policy.Suggestion{Note: "a rule holds what passes there to repositories of git"}
	}
	return j.policy.Load().Unseen(q)
}

// logsInAt reports whether the gateway keeps the tokens when programs inside log in at a server.
func (j *judge) logsInAt(name string, port uint16) bool {
	c := j.capture
	return c != nil && c.How.Capture != nil && inject.NewEndpoint(c.How.Endpoint).Is(inject.Target{Name: name, Port: port})
}
