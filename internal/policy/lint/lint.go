// Package lint finds rules that do not do what their author may think.
package lint

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/hostname"
	"github.com/bothy-dev/bothy/internal/policy/specialaddr"
	"github.com/bothy-dev/bothy/internal/policy/target"
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
	Rule *policy.Rule // nil: about the policy as a whole
	Text string
}

// String returns the finding in one line.
func (f Finding) String() string {
	if f.Rule == nil {
		return string(f.Kind) + ": " + f.Text
	}
	return fmt.Sprintf("%s: %s %q (%s) %s", f.Kind, f.Rule.Action, f.Rule, f.Rule.Source, f.Text)
}

// Rules looks for rules that do not do what their author may think. It judges the layers together, as
// Compile does. Findings are advice: a policy with findings still decides as documented. Lint does not
// report rules of presets, which are reviewed elsewhere; it considers only their effect on other rules.
func Rules(now time.Time, inputs ...policy.Input) ([]Finding, error) {
	p, err := policy.Compile(0, inputs...)
	if err != nil {
		return nil, err
	}
	l := linter{p: p, rules: pointers(p), open: p.Default() == policy.Allow, now: now}
	l.checkDefault(inputs)
	for _, r := range l.rules {
		if r.Source.Preset == "" {
			l.checkRule(r)
		}
	}
	return l.found, nil
}

// pointers returns the rules of a policy.
func pointers(p *policy.Policy) (list []*policy.Rule) {
	for _, r := range p.Rules() {
		list = append(list, &r)
	}
	return list
}

type linter struct {
	p     *policy.Policy
	rules []*policy.Rule
	open  bool // the default is allow
	now   time.Time
	found []Finding
}

func (l *linter) addFinding(k Kind, r *policy.Rule, format string, args ...any) {
	l.found = append(l.found, Finding{k, r, fmt.Sprintf(format, args...)})
}

// checkDefault checks the default action of the policy.
func (l *linter) checkDefault(inputs []policy.Input) {
	if l.open {
		l.addFinding(KindOpen, nil, "the default is allow: every public host can be reached, and data sent there")
		return
	}
	for _, in := range inputs {
		if in.Block.Default == policy.Allow {
			l.addFinding(KindNoEffect, nil, "default: allow of layer %s does not count, another layer says deny", in.Layer)
		}
	}
}

func (l *linter) checkRule(r *policy.Rule) {
	if !r.Live(l.now) {
		l.addFinding(KindExpired, r, "ended at %s", r.Until.UTC().Format(time.RFC3339))
		return
	}
	if l.isShadowed(r) {
		return
	}
	if r.Action == policy.Deny {
		l.checkDeny(r)
		return
	}
	if r.Source.Layer == policy.LayerProject {
		l.checkUngranted(r)
		return
	}
	l.checkTunnel(r)
	l.checkPushes(r)
	if r.Target.Kind == target.Range {
		l.checkAddresses(r)
	} else {
		l.checkNames(r)
	}
	l.checkPassthrough(r)
}

// checkTunnel reports a rule that lets any SSH through.
func (l *linter) checkTunnel(r *policy.Rule) {
	if r.Target.Port == policy.PortSSH && r.HTTP.IsEmpty() && !r.Inspect {
		l.addFinding(KindTunnel, r, "lets any SSH through: a shell, a tunnel to anywhere; with git it is held to repositories")
	}
}

// checkPushes reports a rule that lets git push to any owner's repositories on that host.
func (l *linter) checkPushes(r *policy.Rule) {
	for _, s := range r.HTTP.Git {
		if first, _, _ := strings.Cut(s, "/"); r.HTTP.Push && strings.HasPrefix(first, "*") {
			l.addFinding(KindWide, r, "lets git push to repositories of anybody there")
			return
		}
	}
}

// isShadowed finds a rule that makes this one useless.
func (l *linter) isShadowed(r *policy.Rule) bool {
	project := r.Action == policy.Allow && r.Source.Layer == policy.LayerProject
	for _, o := range l.rules {
		switch {
		case o == r || !o.HTTP.IsEmpty() || !o.Live(l.now) || !o.Outlives(r) || !reaches(o, r):
		case o.Action == policy.Deny && r.Action == policy.Allow:
			l.addFinding(KindShadowed, r, "never counts: %q (%s) denies all of it", o, o.Source)
			return true
		case o.Action != r.Action || project != (o.Source.Layer == policy.LayerProject && o.Action == policy.Allow) || marked(r, o):
		case o.Target == r.Target && r.HTTP.IsEmpty() && !before(o, r): // of two equal rules, the later one
		default:
			l.addFinding(KindShadowed, r, "says nothing new beside %q (%s)%s", o, o.Source, uncounted(r, o.Target.Kind))
			return true
		}
	}
	if r.Action == policy.Allow && !project && l.open && !marked(r, &policy.Rule{}) && !guarded(r) {
		l.addFinding(KindNoEffect, r, "says nothing new: the default is allow%s", uncounted(r, target.All))
		return true
	}
	return false
}

// uncounted describes the remaining use of a rule with an exact name beside a wider one.
func uncounted(r *policy.Rule, wider target.Kind) string {
	if r.Action != policy.Allow || r.Source.Layer == policy.LayerProject || r.Target.Kind != target.Exact || wider == target.Exact {
		return ""
	}
	return "; but its name is not rationed"
}

// marked reports whether a rule has marks that the other lacks, or lets more out.
func marked(r, o *policy.Rule) bool {
	return r.Inspect && !o.Inspect || r.Passthrough && !o.Passthrough || r.HTTP.WebSocket && !o.HTTP.WebSocket ||
		r.UploadLimit() > o.UploadLimit()
}

// before orders two equal rules, so that only one of them is found.
func before(r, o *policy.Rule) bool {
	if r.Source != o.Source {
		return policy.CompareSource(r.Source, o.Source) < 0
	}
	return r.Key()+r.Until.String() < o.Key()+o.Until.String()
}

// reaches reports whether r covers o in effect: a wide allow rule does not reach private names and
// special addresses.
func reaches(r, o *policy.Rule) bool {
	if !r.Target.Covers(o.Target) {
		return false
	}
	if r.Action == policy.Deny {
		return true
	}
	if o.Target.Kind == target.Range {
		b := specialaddr.Find(o.Target.Prefix.Addr())
		return b == nil && !r.Target.MatchesAll() || b != nil && !r.Target.MatchesAll() && b.OpenedBy(r.Target.Prefix, o.Target.Prefix.Addr())
	}
	return !r.Target.MatchesAll() || !hostname.IsPrivate(o.Target.Name)
}

// guarded reports whether the default does not reach a rule's target.
func guarded(r *policy.Rule) bool {
	if r.Target.Kind == target.Range {
		return true // some of it may be special
	}
	return !r.Target.MatchesAll() && hostname.IsPrivate(r.Target.Name)
}

// checkDeny reports a deny rule whose target no rule allows.
func (l *linter) checkDeny(r *policy.Rule) {
	if l.open {
		return
	}
	for _, o := range l.rules {
		// A CIDR rule can deny the address of a name, whatever allows the name.
		if o.Action == policy.Allow && (o.Target.Overlaps(r.Target) || r.Target.Kind == target.Range && o.Target.Kind != target.Range) {
			return
		}
	}
	l.addFinding(KindNoEffect, r, "never matters: no rule allows any of it, and the default is deny")
}

// checkUngranted reports a project's rule that no other layer allows.
func (l *linter) checkUngranted(r *policy.Rule) {
	for _, o := range l.rules {
		if o.Action == policy.Allow && o.Source.Layer != policy.LayerProject && o.Live(l.now) && o.Target.Overlaps(r.Target) && !withholds(o.Target, r.Target) {
			return
		}
	}
	if everything := (target.Target{Kind: target.All}); !l.open || withholds(everything, r.Target) {
		l.addFinding(KindUngranted, r, "adds nothing: a project only narrows, and no other layer allows it")
	}
}

// withholds reports whether an allow target is too wide for the part it shares with another
// target. Special addresses and private names stay closed unless a rule names them.
func withholds(t, u target.Target) bool {
	switch u.Kind {
	case target.Range:
		both := u.Prefix
		if t.Kind == target.Range && t.Prefix.Bits() > both.Bits() {
			both = t.Prefix
		}
		b := specialaddr.Find(both.Addr())
		return b != nil && both.Bits() >= b.Prefix.Bits() && !b.OpenedBy(t.Prefix, both.Addr())
	case target.Exact:
		return t.MatchesAll() && hostname.IsPrivate(u.Name)
	case target.OneLabel, target.AnyDepth:
		return t.MatchesAll() && hostname.IsPrivate("x."+u.Name)
	}
	return false
}

// checkNames checks the reach of a pattern.
func (l *linter) checkNames(r *policy.Rule) {
	if what := tooWide(r.Target); what != "" {
		l.addFinding(KindWide, r, "reaches %s", what)
		return
	}
	for _, host := range dropHosts {
		if r.Target.MatchesName(host) && !readsOnly(r) && r.MaxUpload == 0 {
			l.addFinding(KindDrop, r, "reaches %s, which takes data from anybody; max_upload bounds how much", host)
			break
		}
	}
	if r.Target.Port == portHTTP && l.unseen(r) {
		instead := "mark it inspect"
		if r.Passthrough {
			instead = "mark it inspect in place of passthrough: plain HTTP has no certificate to pin"
		}
		l.addFinding(KindFronting, r, "is not looked into: in plain HTTP a client may ask the same server for any other name; %s", instead)
		return
	}
	if !r.HTTP.IsEmpty() || r.Inspect || l.p.InspectsAll() {
		return
	}
	for _, suffix := range frontingSuffixes {
		if hostname.IsBelow(r.Target.Name, suffix) {
			l.addFinding(KindFronting, r, "is not looked into: inside TLS a client may ask the same servers for another name below %s; mark it inspect", suffix)
			break
		}
	}
}

// portHTTP is the port of plain HTTP, for rules that name it. A rule for any port is mostly meant for
// TLS, and would be reported for every second host.
const portHTTP = 80

// unseen reports whether a connection for the rule passes without inspection.
func (l *linter) unseen(r *policy.Rule) bool {
	name := r.Target.Name
	if r.Target.Kind != target.Exact {
		name = "x." + name
	}
	d := l.p.Decide(policy.Query{Stage: policy.StageConnect, Name: name, Port: r.Target.Port, Now: l.now})
	return d.Allowed() && (d.Inspection == policy.InspectNo || d.Inspection == policy.InspectNever)
}

// tooWide describes a pattern that reaches more hosts than a user can oversee; "" for
// others.
func tooWide(t target.Target) string {
	switch {
	case t.Kind == target.All:
		return "every public host"
	case t.Kind == target.Exact:
		return ""
	case !strings.Contains(t.Name, "."):
		return "a whole top-level domain"
	}
	for _, suffix := range sharedSuffixes {
		if t.MatchesName("x." + suffix) {
			return "names anybody can have, below " + suffix
		}
	}
	return ""
}

// readsOnly reports whether a rule lets nothing be sent but a URL, or sends only to chosen paths.
func readsOnly(r *policy.Rule) bool {
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

// checkAddresses checks the reach of a CIDR.
func (l *linter) checkAddresses(r *policy.Rule) {
	prefix := r.Target.Prefix
	for _, p := range specialaddr.InnerPrefixes() {
		if p.Contains(prefix.Addr()) && prefix.Bits() >= p.Bits() {
			l.addFinding(KindInner, r, "opens nothing inside, where such addresses are the sandbox's own; it counts where a name leads to one outside")
			return
		}
	}
	for _, b := range specialaddr.Ranges() {
		if !prefix.Overlaps(b.Prefix) {
			continue
		}
		opens := b.OpenedBy(prefix, prefix.Addr())
		switch {
		case b.Kind == specialaddr.Metadata && opens:
			l.addFinding(KindMetadata, r, "opens %s: programs inside get the machine's credentials", b.What)
			return
		case b.Kind == specialaddr.Metadata && prefix.Bits() > 0:
			l.addFinding(KindMetadata, r, "contains %s, %s; it stays closed, only a rule for that address would open it", b.Prefix.Addr(), b.What)
			return
		case b.Kind == specialaddr.Never && prefix.Bits() >= b.Prefix.Bits():
			l.addFinding(KindNoEffect, r, "is about %s, which is never reached", b.What)
			return
		case prefix.Addr().IsLoopback():
			l.addFinding(KindHost, r, "opens the host itself to names that lead there; a single port is safer as host.bothy")
			return
		}
	}
	if wide := 8; prefix.Addr().Is4() && prefix.Bits() < wide || prefix.Addr().Is6() && prefix.Bits() < 3*wide {
		l.addFinding(KindWide, r, "is a large part of the internet; private and other special ranges in it stay closed")
	}
}

// checkPassthrough reports marks that conditions of other rules overrule.
func (l *linter) checkPassthrough(r *policy.Rule) {
	if !r.Passthrough {
		return
	}
	for _, o := range l.rules {
		if o.Action == policy.Deny && o.Live(l.now) && !o.HTTP.IsEmpty() && o.Target.Overlaps(r.Target) {
			l.addFinding(KindPassthrough, r, "is looked into all the same where %q (%s) needs it", o, o.Source)
			return
		}
	}
}
