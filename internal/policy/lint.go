package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/policy/hostname"
)

// Kind is the kind of a finding.
type Kind string

// The findings.
const (
	KindShadowed    Kind = "shadowed"    // another rule makes this one useless
	KindWide        Kind = "wide"        // it reaches more than it seems to
	KindDrop        Kind = "drop"        // the host accepts data from anyone
	KindFronting    Kind = "fronting"    // the server may serve another name
	KindMetadata    Kind = "metadata"    // it gives away credentials of the machine
	KindHost        Kind = "host"        // it opens the host itself
	KindNoEffect    Kind = "no-effect"   // nothing would change without it
	KindExpired     Kind = "expired"     // it has ended
	KindPassthrough Kind = "passthrough" // a condition needs to see the traffic that passthrough hides
	KindUngranted   Kind = "ungranted"   // the project asks for a target that no layer allows
	KindOpen        Kind = "open"        // the default is allow
	KindTunnel      Kind = "tunnel"      // any SSH passes
	KindInner       Kind = "inner"       // inside, the addresses are the sandbox's own
)

// Finding is a rule, or a policy, that a person should look at.
type Finding struct {
	Kind Kind
	Rule *Rule // nil: about the policy as a whole
	Text string
}

// String returns the finding in one line.
func (f Finding) String() string {
	if f.Rule == nil {
		return string(f.Kind) + ": " + f.Text
	}
	return fmt.Sprintf("%s: %s %q (%s) %s", f.Kind, f.Rule.Action, f.Rule, f.Rule.Source, f.Text)
}

// Lint looks for rules that do not do what their author may think. It judges the layers together, as
// Compile does. Findings are advice: a policy with findings still decides as documented. Lint does not
// report rules of presets, which are reviewed elsewhere; it considers only their effect on other rules.
func Lint(now time.Time, inputs ...Input) ([]Finding, error) {
	p, err := Compile(0, inputs...)
	if err != nil {
		return nil, err
	}
	l := linter{p: p, now: now}
	l.defaults(inputs)
	for _, r := range p.rules {
		if r.Source.Preset == "" {
			l.rule(r)
		}
	}
	return l.found, nil
}

type linter struct {
	p     *Policy
	now   time.Time
	found []Finding
}

func (l *linter) add(k Kind, r *Rule, format string, args ...any) {
	l.found = append(l.found, Finding{k, r, fmt.Sprintf(format, args...)})
}

// defaults checks the default action of the policy.
func (l *linter) defaults(inputs []Input) {
	if l.p.open {
		l.add(KindOpen, nil, "the default is allow: every public host can be reached, and data sent there")
		return
	}
	for _, in := range inputs {
		if in.Block.Default == Allow {
			l.add(KindNoEffect, nil, "default: allow of layer %s does not count, another layer says deny", in.Layer)
		}
	}
}

func (l *linter) rule(r *Rule) {
	if !r.Live(l.now) {
		l.add(KindExpired, r, "ended at %s", r.Until.UTC().Format(time.RFC3339))
		return
	}
	if l.shadowed(r) {
		return
	}
	if r.Action == Deny {
		l.deny(r)
		return
	}
	if r.Source.Layer == LayerProject {
		l.ungranted(r)
		return
	}
	l.tunnel(r)
	l.pushes(r)
	if r.Target.kind == net {
		l.addresses(r)
	} else {
		l.names(r)
	}
	l.passthrough(r)
}

// shadowed finds a rule that makes this one useless.
func (l *linter) shadowed(r *Rule) bool {
	project := r.Action == Allow && r.Source.Layer == LayerProject
	for _, o := range l.p.rules {
		switch {
		case o == r || !o.HTTP.none() || !o.Live(l.now) || !o.outlives(r) || !o.reaches(r):
		case o.Action == Deny && r.Action == Allow:
			l.add(KindShadowed, r, "never counts: %q (%s) denies all of it", o, o.Source)
			return true
		case o.Action != r.Action || project != (o.Source.Layer == LayerProject && o.Action == Allow) || l.marked(r, o):
		case o.Target == r.Target && r.HTTP.none() && !o.before(r): // of two equal rules, the later one
		default:
			l.add(KindShadowed, r, "says nothing new beside %q (%s)%s", o, o.Source, uncounted(r, o.Target.kind))
			return true
		}
	}
	if r.Action == Allow && !project && l.p.open && !l.marked(r, &Rule{}) && !l.guarded(r) {
		l.add(KindNoEffect, r, "says nothing new: the default is allow%s", uncounted(r, all))
		return true
	}
	return false
}

// uncounted describes the remaining use of a rule with an exact name beside a wider one.
func uncounted(r *Rule, wider targetKind) string {
	if r.Action != Allow || r.Source.Layer == LayerProject || r.Target.kind != exact || wider == exact {
		return ""
	}
	return "; but its name is not rationed"
}

// marked reports whether a rule has marks that the other lacks, or lets more out.
func (l *linter) marked(r, o *Rule) bool {
	return r.Inspect && !o.Inspect || r.Passthrough && !o.Passthrough || r.HTTP.WebSocket && !o.HTTP.WebSocket ||
		r.room() > o.room()
}

// before orders two equal rules, so that only one of them is found.
func (r *Rule) before(o *Rule) bool {
	if r.Source != o.Source {
		return compareSource(r.Source, o.Source) < 0
	}
	return r.key()+r.Until.String() < o.key()+o.Until.String()
}

// outlives reports whether r counts at least as long as o.
func (r *Rule) outlives(o *Rule) bool {
	return r.Until.IsZero() || !o.Until.IsZero() && !r.Until.Before(o.Until)
}

// reaches reports whether r covers o in effect: a wide allow rule does not reach private names and
// special addresses.
func (r *Rule) reaches(o *Rule) bool {
	if !r.Target.covers(o.Target) {
		return false
	}
	if r.Action == Deny {
		return true
	}
	if o.Target.kind == net {
		b := special(o.Target.prefix.Addr())
		return b == nil && !r.Target.wide() || b != nil && !r.Target.wide() && b.opens(r.Target.prefix, o.Target.prefix.Addr())
	}
	return !r.Target.wide() || !hostname.IsPrivate(o.Target.name)
}

// guarded reports whether the default does not reach a rule's target.
func (l *linter) guarded(r *Rule) bool {
	if r.Target.kind == net {
		return true // some of it may be special
	}
	return !r.Target.wide() && hostname.IsPrivate(r.Target.name)
}

// deny reports a deny rule whose target no rule allows.
func (l *linter) deny(r *Rule) {
	if l.p.open {
		return
	}
	for _, o := range l.p.rules {
		// A CIDR rule can deny the address of a name, whatever allows the name.
		if o.Action == Allow && (o.Target.overlaps(r.Target) || r.Target.kind == net && o.Target.kind != net) {
			return
		}
	}
	l.add(KindNoEffect, r, "never matters: no rule allows any of it, and the default is deny")
}

// ungranted reports a project's rule that no other layer allows.
func (l *linter) ungranted(r *Rule) {
	for _, o := range l.p.rules {
		if o.Action == Allow && o.Source.Layer != LayerProject && o.Live(l.now) && o.Target.overlaps(r.Target) && !o.Target.withholds(r.Target) {
			return
		}
	}
	if everything := (Target{kind: all}); !l.p.open || everything.withholds(r.Target) {
		l.add(KindUngranted, r, "adds nothing: a project only narrows, and no other layer allows it")
	}
}

// withholds reports whether an allow target is too wide for the part it shares with another
// target. Special addresses and private names stay closed unless a rule names them.
func (t Target) withholds(u Target) bool {
	switch u.kind {
	case net:
		both := u.prefix
		if t.kind == net && t.prefix.Bits() > both.Bits() {
			both = t.prefix
		}
		b := special(both.Addr())
		return b != nil && both.Bits() >= b.prefix.Bits() && !b.opens(t.prefix, both.Addr())
	case exact:
		return t.wide() && hostname.IsPrivate(u.name)
	case one, deep:
		return t.wide() && hostname.IsPrivate("x."+u.name)
	}
	return false
}

// names checks the reach of a pattern.
func (l *linter) names(r *Rule) {
	if what := r.Target.tooWide(); what != "" {
		l.add(KindWide, r, "reaches %s", what)
		return
	}
	for _, host := range dropHosts {
		if r.Target.matchesName(host) && !r.readsOnly() && r.MaxUpload == 0 {
			l.add(KindDrop, r, "reaches %s, which takes data from anybody; max_upload bounds how much", host)
			break
		}
	}
	if r.Target.port == portHTTP && l.unseen(r) {
		instead := "mark it inspect"
		if r.Passthrough {
			instead = "mark it inspect in place of passthrough, for there is no certificate to pin"
		}
		l.add(KindFronting, r, "is not looked into: in plain HTTP a client may ask the same server for any other name; %s", instead)
		return
	}
	if !r.HTTP.none() || r.Inspect || l.p.inspectAll {
		return
	}
	for _, suffix := range frontingSuffixes {
		if hostname.IsBelow(r.Target.name, suffix) {
			l.add(KindFronting, r, "is not looked into: inside TLS a client may ask the same servers for another name below %s; mark it inspect", suffix)
			break
		}
	}
}

// portHTTP is the port of plain HTTP, for rules that name it. A rule for any port is mostly meant for
// TLS, and would be reported for every second host.
const portHTTP = 80

// unseen reports whether a connection for the rule passes without inspection.
func (l *linter) unseen(r *Rule) bool {
	name := r.Target.name
	if r.Target.kind != exact {
		name = "x." + name
	}
	d := l.p.Decide(Query{Stage: StageConnect, Name: name, Port: r.Target.port, Now: l.now})
	return d.Allowed() && (d.Inspection == InspectNo || d.Inspection == InspectNever)
}

// tooWide describes a pattern that reaches more hosts than a user can oversee; "" for
// others.
func (t Target) tooWide() string {
	switch {
	case t.kind == all:
		return "every public host"
	case t.kind == exact:
		return ""
	case !strings.Contains(t.name, "."):
		return "a whole top-level domain"
	}
	for _, suffix := range sharedSuffixes {
		if t.matchesName("x." + suffix) {
			return "names anybody can have, below " + suffix
		}
	}
	return ""
}

// readsOnly reports whether a rule lets nothing be sent but a URL, or sends only to chosen paths.
func (r *Rule) readsOnly() bool {
	if len(r.HTTP.Git) > 0 {
		return !r.HTTP.Push
	}
	if slices.Contains(r.HTTP.Paths, "/**") {
		return false
	}
	for _, m := range r.HTTP.Methods {
		if m != "GET" && m != "HEAD" {
			return len(r.HTTP.Paths) > 0
		}
	}
	return len(r.HTTP.Methods) > 0 || len(r.HTTP.Paths) > 0
}

// addresses checks the reach of a CIDR.
func (l *linter) addresses(r *Rule) {
	prefix := r.Target.prefix
	for _, p := range innerPrefixes() {
		if p.Contains(prefix.Addr()) && prefix.Bits() >= p.Bits() {
			l.add(KindInner, r, "opens nothing inside, where such addresses are the sandbox's own; it counts where a name leads to one outside")
			return
		}
	}
	for _, b := range blocks() {
		if !prefix.Overlaps(b.prefix) {
			continue
		}
		opens := b.opens(prefix, prefix.Addr())
		switch {
		case b.kind == metadata && opens:
			l.add(KindMetadata, r, "opens %s: whoever is inside gets the machine's credentials", b.what)
			return
		case b.kind == metadata && prefix.Bits() > 0:
			l.add(KindMetadata, r, "contains %s, %s; it stays closed, only a rule for that address would open it", b.prefix.Addr(), b.what)
			return
		case b.kind == never && prefix.Bits() >= b.prefix.Bits():
			l.add(KindNoEffect, r, "is about %s, which is never reached", b.what)
			return
		case prefix.Addr().IsLoopback():
			l.add(KindHost, r, "opens the host itself to names that lead there; a single port is safer as host.bothy")
			return
		}
	}
	if wide := 8; prefix.Addr().Is4() && prefix.Bits() < wide || prefix.Addr().Is6() && prefix.Bits() < 3*wide {
		l.add(KindWide, r, "is a large part of the internet; private and other special ranges in it stay closed")
	}
}

// passthrough reports marks that conditions of other rules overrule.
func (l *linter) passthrough(r *Rule) {
	if !r.Passthrough {
		return
	}
	for _, o := range l.p.rules {
		if o.Action == Deny && o.Live(l.now) && !o.HTTP.none() && o.Target.overlaps(r.Target) {
			l.add(KindPassthrough, r, "is looked into all the same where %q (%s) needs it", o, o.Source)
			return
		}
	}
}
