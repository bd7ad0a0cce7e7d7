package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
	"github.com/bothy-dev/bothy/internal/policy/gitrepo"
	"github.com/bothy-dev/bothy/internal/policy/specialaddr"
	"github.com/bothy-dev/bothy/internal/policy/target"
	"github.com/bothy-dev/bothy/spec"
)

// ParseQuery reads a user's question: NAME, NAME:PORT, an address with or without a port,
// or a URL (http, https, ws, wss). The request of a URL has the given method, GET if that
// is empty. The default port is 443. For git over SSH it reads ssh://USER@HOST/REPOSITORY
// and USER@HOST:REPOSITORY, at port 22; the method is fetch or push.
func ParseQuery(s, method string, now time.Time) (Query, error) {
	scheme, rest, isURL := strings.Cut(s, "://")
	if !isURL {
		if user, host, repository, ok := gitrepo.SplitSCP(s); ok {
			return parseSSHQuery(user, host, repository, method, now)
		}
		if method != "" {
			return Query{}, spec.Errorf(spec.ErrUsage, "a method belongs to a URL").WithHint("write https://HOST/PATH")
		}
		return parseHostQuery(s, 443, now)
	}
	if scheme == "ssh" || scheme == "git+ssh" {
		user, host, repository, err := gitrepo.SplitSSH(rest)
		if user == "" && strings.Contains(rest, "@") {
			return Query{}, hasUser()
		}
		if err != nil {
			return Query{}, err
		}
		return parseSSHQuery(user, host, repository, method, now)
	}
	port := map[string]uint16{"http": 80, "https": 443, "ws": 80, "wss": 443}[scheme]
	if port == 0 {
		return Query{}, spec.Errorf(spec.ErrUsage, "a URL of %s is not of http, https, ws, wss or ssh", ascii.Quote(scheme)).WithHint("write HOST:PORT")
	}
	host, path := rest, "/"
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	path, _, _ = strings.Cut(path, "#")
	path, query, _ := strings.Cut(path, "?")
	q, err := parseHostQuery(host, port, now)
	if err != nil && strings.Contains(rest, "@") {
		return Query{}, hasUser() // a password in it may contain characters that end a host
	}
	if err != nil {
		return Query{}, err
	}
	if path == "" {
		path = "/"
	}
	if method == "" {
		method = "GET"
	}
	q.Stage, q.Request = StageRequest, &Request{Method: method, Host: host, Path: path, Query: query}
	if scheme[0] == 'w' {
		q.Request.Upgrade = "websocket"
	}
	return q, nil
}

func parseSSHQuery(user, host, repository, method string, now time.Time) (Query, error) {
	q, err := parseHostQuery(host, PortSSH, now)
	if err != nil {
		return Query{}, err
	}
	return parseGitQuery(q, user, repository, method)
}

// hasUser refuses a user before the host. It quotes nothing of it, because a password may
// follow.
func hasUser() error {
	return spec.Errorf(spec.ErrUsage, "the host that is asked about cannot be read with a user before it").
		WithHint("leave out what stands before the '@': no rule of HTTP is about it; of git write ssh://git@HOST/REPOSITORY")
}

func parseHostQuery(s string, port uint16, now time.Time) (Query, error) {
	if strings.Contains(s, "@") {
		return Query{}, hasUser()
	}
	t, err := target.Parse(s)
	if err != nil {
		return Query{}, err
	}
	q := Query{Stage: StageConnect, Port: port, Now: now}
	if t.Port != 0 {
		q.Port = t.Port
	}
	switch {
	case t.Kind == target.Exact:
		q.Name = t.Name
	case t.Kind == target.Range && t.Prefix.IsSingleIP():
		q.Addr = t.Prefix.Addr()
	default:
		return Query{}, spec.Errorf(spec.ErrUsage, "%s is not one host", ascii.Quote(s)).WithHint("ask about one name or address")
	}
	return q, nil
}

// Explanation is a decision with the steps to it.
type Explanation struct {
	Decision Decision
	Target   string // the name, address or URL in question
	Steps    []Step // every layer, in order, and in it every rule about the host
}

// Step is one rule or layer that was considered.
type Step struct {
	Source  Source
	Rule    *Rule // nil: the layer has no rule about the host
	Outcome string
}

// Explain answers a question and lists the rules it looked at. It also lists rules about
// the host at other ports, because users often look for those.
func (p *Policy) Explain(q Query) Explanation {
	x := Explanation{Decision: p.Decide(q), Target: q.subject()}
	var s subject
	if cause := q.understand(&s); cause != CauseNone {
		return x
	}
	for _, src := range p.sources {
		n := len(x.Steps)
		for _, r := range p.rules {
			if r.Source == src && s.isAbout(r.Target) {
				x.Steps = append(x.Steps, Step{src, r, s.outcome(r)})
			}
		}
		if len(x.Steps) == n {
			x.Steps = append(x.Steps, Step{src, nil, "has no rule about it"})
		}
	}
	return x
}

// isAbout reports whether a rule's target has the name or any address of the question.
func (s *subject) isAbout(t target.Target) bool {
	if s.name != "" && t.MatchesName(s.name) {
		return true
	}
	if !s.addr.IsValid() {
		return false
	}
	list, n := specialaddr.EmbeddedPair(s.addr)
	return t.MatchesAddr(s.addr) || slices.ContainsFunc(list[:n], func(a netip.Addr) bool { return t.MatchesAddr(a) })
}

// outcome describes the effect of a rule on the question.
func (s *subject) outcome(r *Rule) string {
	verb := map[Action]string{Allow: "allows", Deny: "denies"}[r.Action]
	if r.Action == Allow && r.Source.Layer == LayerProject {
		verb = "is in the project's list, which only narrows"
	}
	k := r.HTTP.compile(r.Action)
	switch {
	case s.port != 0 && !r.Target.MatchesPort(s.port):
		return "is for port " + strconv.Itoa(int(r.Target.Port))
	case !r.Live(s.now):
		return "ended at " + r.Until.UTC().Format(time.RFC3339)
	case r.Action == Allow && s.block == &specialaddr.Inner:
		return "is about such an address outside, where a name may lead"
	case r.Action == Allow && r.Source.Layer != LayerProject && s.shields(&r.Target):
		return "is too wide: a rule has to name it"
	case k == nil:
		return verb
	case s.git != nil && (r.Action == Deny || k.admitsGit(s)):
		return verb
	case s.git != nil:
		return "has conditions that do not hold"
	case s.req.Request == nil && k.git != nil:
		return verb + " some commands of git"
	case s.req.Request == nil:
		return verb + " some requests"
	case r.Action == Allow && k.awaits(&s.req):
		return verb + " some calls"
	case r.Action == Allow && !k.admits(&s.req), r.Action == Deny && !k.denies(&s.req):
		return "has conditions that do not hold"
	}
	return verb
}

// Text returns the explanation in lines, for people, with commands for the named sandbox or, without a
// name, for all.
func (x *Explanation) Text(sandbox string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n  %s\n", x.Target, x.Decision.Action, x.Decision.Reason())
	for _, step := range x.Steps {
		if step.Rule == nil {
			fmt.Fprintf(&b, "  %-14s %s\n", step.Source, step.Outcome)
			continue
		}
		fmt.Fprintf(&b, "  %-14s %s %q %s\n", step.Source, step.Rule.Action, step.Rule, step.Outcome)
	}
	s := x.Decision.Suggest()
	if c := s.Command(sandbox); c != "" {
		fmt.Fprintf(&b, "  to change it: %s\n", c)
	}
	if s.Note != "" {
		fmt.Fprintf(&b, "  note: %s\n", s.Note)
	}
	return b.String()
}
