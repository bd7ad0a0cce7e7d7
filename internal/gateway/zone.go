package gateway

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/advice"
	"github.com/bothy-dev/bothy/internal/gateway/dns"
	"github.com/bothy-dev/bothy/internal/gateway/namepool"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/hostname"
	"github.com/bothy-dev/bothy/internal/policy/target"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// zone answers the name server, by the policy and from the pool.
type zone struct{ g *Gateway }

// Lookup judges a name. It asks no server outside, whatever the verdict.
func (z zone) Lookup(name string) (v4, v6 netip.Addr, err error) {
	clean, err := hostname.Clean(name)
	if err != nil {
		z.Refused(name, err.Error())
		return v4, v6, dns.ErrNoName
	}
	if clean == advice.Name || clean == wire.TasksHost && z.g.conf.Tasks != nil || clean == wire.LoopHost && z.g.conf.Loop != nil {
		return namepool.Gateway4, namepool.Gateway6, nil
	}
	z.g.conf.CatchUp()
	if err := z.g.secrets.Load().Find("name that is looked up", clean); err != nil {
		r := spec.NetworkRecord{Event: spec.NetworkLookup, Verdict: spec.VerdictDeny, Reason: err.Error()}
		noteSecret(&r, err)
		z.g.journal.record(r)
		return v4, v6, err
	}
	if spec.IsHostName(clean) {
		return z.g.lookupHost(clean)
	}
	if z.g.mock.playsHost(clean) {
		return z.lookupMocked(clean)
	}
	p := z.g.policy.Load()
	d := p.Decide(policy.Query{Stage: policy.StageLookup, Name: clean, Now: time.Now()})
	if !d.Allowed() {
		z.g.journal.record(z.g.journal.decided(spec.NetworkRecord{Event: spec.NetworkLookup, Name: clean}, &d))
		return v4, v6, errors.New(d.Reason())
	}
	if err := z.g.pause.reason(); err != nil {
		z.g.journal.record(spec.NetworkRecord{Event: spec.NetworkLookup, Name: clean, Verdict: spec.VerdictDeny, Reason: err.Error(), Generation: d.Generation})
		return v4, v6, err
	}
	if err := z.ration(clean, &d); err != nil {
		r := z.g.journal.decided(spec.NetworkRecord{Event: spec.NetworkLookup, Name: clean}, &d)
		r.Verdict, r.Reason = spec.VerdictDeny, err.Error()
		z.g.journal.advise(&r, d.Spelled())
		z.g.journal.record(r)
		return v4, v6, err
	}
	v4, v6, err = z.g.names.Addresses(clean)
	return v4, v6, err
}

// lookupMocked answers for a name whose server is played.
func (z zone) lookupMocked(name string) (v4, v6 netip.Addr, err error) {
	if err := z.g.pause.reason(); err != nil {
		z.g.journal.record(spec.NetworkRecord{Event: spec.NetworkLookup, Name: name, Verdict: spec.VerdictDeny, Reason: err.Error(), Mocked: true})
		return v4, v6, err
	}
	return z.g.names.Addresses(name)
}

// ration limits the new names of a zone that a wildcard or a default lets pass. It admits a name that a
// rule spells out: the inside cannot choose that.
func (z zone) ration(name string, d *policy.Decision) error {
	if d.Rule != nil {
		if t := d.Rule.Target; t.Kind == target.Exact && t.Name == name {
			return nil
		}
	}
	return z.g.limits.Admit(name)
}

// Reverse returns the name of an address of the pool, or of the host.
func (z zone) Reverse(a netip.Addr) (string, bool) {
	if a == namepool.Host4 || a == namepool.Host6 {
		return spec.HostName, len(z.g.ports.openPorts()) > 0
	}
	return z.g.names.Name(a)
}

// Refused records a query that was answered without asking the policy. Text that the inside made up is
// escaped, and cut to the length of a name.
func (z zone) Refused(name, why string) {
	text := strings.Trim(strconv.QuoteToASCII(name[:min(len(name), maxAsked)]), `"`)
	z.g.journal.record(spec.NetworkRecord{Event: spec.NetworkLookup, Name: text, Verdict: spec.VerdictDeny, Reason: why})
}

// maxAsked bounds the recorded part of such a name, in bytes.
const maxAsked = 255
