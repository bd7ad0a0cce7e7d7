package policy

import (
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
	"github.com/bothy-dev/bothy/internal/policy/override"
	"github.com/bothy-dev/bothy/internal/policy/rpccall"
	"github.com/bothy-dev/bothy/internal/policy/specialaddr"
)

// Suggestion is a change that would lift a denial.
type Suggestion struct {
	// Args are the arguments of the bothy command for the change, without the sandbox;
	// empty if no command can make it.
	Args []string
	// PerSandbox says that the command is for the one sandbox.
	PerSandbox bool
	// Note says what to do if no command helps, or which risk to weigh before.
	Note string
	// Then are the further commands that are needed.
	Then []Suggestion

	// The rule that Args add, if they add one.
	target    string
	http      Conditions
	MaxUpload int64

	removes *Rule // the rule that Args remove
	guessed bool  // the port is a guess
}

// Guessed reports whether a port in the commands is only the usual one, because the question named none.
func (s *Suggestion) Guessed() bool {
	return s.guessed || slices.ContainsFunc(s.Then, func(next Suggestion) bool { return next.guessed })
}

// Rule returns the rule that Args add, if they add one.
func (s *Suggestion) Rule() (Rule, bool) {
	if s.target == "" {
		return Rule{}, false
	}
	r, err := ParseRule(Allow, s.target)
	r.HTTP, r.MaxUpload = s.http, s.MaxUpload
	return r, err == nil && r.Check() == nil
}

// Command formats the suggestion for a shell, for the named sandbox or, without a name, for all. It
// quotes text from inside, so that this cannot become a command when the user pastes it.
func (s Suggestion) Command(sandbox string) string {
	list := []string{s.firstCommand(sandbox)}
	for _, next := range s.Then {
		list = append(list, next.firstCommand(sandbox))
	}
	return strings.Join(list, " && ")
}

// firstCommand returns the first command.
func (s *Suggestion) firstCommand(sandbox string) string {
	if len(s.Args) == 0 {
		return ""
	}
	args := append([]string{"bothy"}, s.Args...)
	if s.PerSandbox && sandbox != "" {
		args = append(args, "--sandbox", sandbox)
	}
	for i, a := range args {
		args[i] = shellQuote(a)
	}
	return strings.Join(args, " ")
}

func shellQuote(s string) string {
	for i := range len(s) {
		if !ascii.IsAlphanumeric(s[i]) && strings.IndexByte("-._/:@%+=", s[i]) < 0 {
			return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
	}
	if s == "" {
		return "''"
	}
	return s
}

// maxCommands bounds how many commands are suggested at once.
const maxCommands = 8

// Suggest returns the commands that would allow a denied question: all of them, or none. It
// returns the zero Suggestion if the question is allowed, or if nothing can allow it.
func (d *Decision) Suggest() Suggestion {
	if d.Allowed() {
		return Suggestion{}
	}
	first := d.suggest()
	p, last := d.policy, &first
	for range maxCommands {
		if p = p.supposing(last); p == nil {
			return first // the suggestion is not a command, or changes no rules
		}
		now := p.Decide(d.query)
		if now.Allowed() {
			return first
		}
		next := now.suggest()
		if len(next.Args) == 0 {
			return insufficient(&now, next.Note)
		}
		if first.Note == "" {
			first.Note = next.Note
		}
		first.Then = append(first.Then, next)
		last = &next
	}
	return Suggestion{Note: "it takes more commands than can be told here"}
}

// insufficient returns the suggestion for a question that stays denied after all possible commands.
func insufficient(d *Decision, note string) Suggestion {
	why := d.Reason()
	if note != "" {
		why += "; " + note
	}
	return Suggestion{Note: "no command alone allows it: " + why}
}

// supposing returns the policy after a suggestion; nil if the suggestion changes no rule.
func (p *Policy) supposing(s *Suggestion) *Policy {
	r, adds := s.Rule()
	if p == nil || !adds && s.removes == nil {
		return nil
	}
	next := *p
	if adds {
		next.allow = p.allow.withRule(&r)
	} else {
		next.deny = p.deny.withoutRule(s.removes)
	}
	return &next
}

// suggest returns the first command.
func (d *Decision) suggest() Suggestion {
	switch {
	case d.query.Git != nil && (d.Cause == CauseNoRule || d.Cause == CauseRequest):
		return d.suggestGit()
	case d.query.Stage == StageLookup && d.Cause != CauseRule && isService(d.query.Name):
		return Suggestion{Note: "the name is of a service and no host: nothing connects to it"}
	case d.Cause == CauseNoRule && d.query.Port == PortSSH:
		return suggestSSH(d.query.Target())
	}
	switch d.Cause {
	case CauseRule:
		return d.suggestRemoval()
	case CauseNoRule:
		s := allowing(d.query.Target(), Conditions{}).bounded(d.ended)
		if d.query.Stage == StageLookup {
			s.Note, s.guessed = OnlyLookedUp, true
		}
		return s
	case CauseRequest, CauseWebSocket:
		return d.suggestRequest()
	case CauseProject:
		return Suggestion{Note: "add " + d.query.Target() + " to the allow list of the project's bothy.yaml"}
	case CauseSpecial:
		return d.suggestAddress()
	case CauseUpload:
		return d.suggestMore()
	case CauseBody:
		return Suggestion{Note: "name its calls: --rpc METHOD, or --rpc '" + rpccall.ToolCall + " NAME'"}
	case CauseInspection:
		return Suggestion{Note: "connect again"}
	}
	return Suggestion{}
}

// OnlyLookedUp is the warning before a name is allowed with the usual port, because the
// port the client wants is unknown.
const OnlyLookedUp = "only the name was looked up, so the port is not known: 443 is the usual one"

// isService reports whether a name is like _http._tcp.deb.debian.org, which clients look up to find the
// hosts of a service.
func isService(name string) bool {
	service, rest, _ := strings.Cut(name, ".")
	return strings.HasPrefix(service, "_") && strings.HasPrefix(rest, "_")
}

// allowing suggests a rule.
func allowing(target string, c Conditions) Suggestion {
	args := []string{"policy", "allow", target}
	for _, m := range c.Methods {
		args = append(args, "--method", m)
	}
	for _, p := range c.Paths {
		args = append(args, "--path", p)
	}
	for _, call := range c.RPC {
		args = append(args, "--rpc", call)
	}
	for _, g := range c.Git {
		args = append(args, "--git", g)
	}
	if c.Push {
		args = append(args, "--push")
	}
	if c.User != "" {
		args = append(args, "--user", c.User)
	}
	if c.WebSocket {
		args = append(args, "--websocket")
	}
	return Suggestion{Args: args, PerSandbox: true, target: target, http: c}
}

// Spelled suggests, for a name that a wildcard or a default lets be looked up, a rule that
// names it. The number of other lookups does not matter for such a name. It suggests
// nothing where such a rule would allow more than the wildcard does.
func (d *Decision) Spelled() Suggestion {
	if !d.Allowed() || d.query.Stage != StageLookup {
		return Suggestion{}
	}
	q := d.query
	if r := d.Rule; r != nil {
		if !r.HTTP.IsEmpty() || r.Inspect || r.Passthrough || r.MaxUpload > 0 || !r.Until.IsZero() {
			return Suggestion{}
		}
		q.Port = r.Target.Port
	}
	s := allowing(q.Target(), Conditions{})
	s.guessed = q.Port == 0
	return s
}

// Unseen suggests a passthrough rule for an inspected connection whose client does not
// tolerate inspection. Where no rule would help, its note says why.
func (p *Policy) Unseen(q Query) Suggestion {
	var s subject
	if q.Stage != StageConnect || q.understand(&s) != CauseNone {
		return Suggestion{}
	}
	by, maybe := p.denied(&s)
	switch {
	case by != nil:
		return Suggestion{}
	case maybe:
		return Suggestion{Note: "a rule that denies some requests to " + q.Target() + " has it looked into, whatever other rules say"}
	case p.narrow != nil && !p.narrow.wholly(&s):
		return Suggestion{Note: "the project's own list has it looked into, whatever other rules say"}
	}
	target := q.Target()
	g := p.allow.grants(&s, true)
	if p.open && !s.shielded() {
		g.byDefault()
	}
	if g.by != nil && !g.by.rule.Until.IsZero() {
		return Suggestion{Note: "a rule with passthrough would let it by unseen; none is proposed, for the rule by which it may be reached is for a time"}
	}
	out := Suggestion{
		Args: []string{"policy", "allow", target, "--passthrough"}, PerSandbox: true,
		Note: "if it cannot be told to trust it, a rule with passthrough lets it by unseen",
	}
	if !g.whole {
		out.Note += ", whatever it asks for"
	}
	if g.look {
		out.Note += ", although a rule has it looked into"
	}
	if g.by != nil {
		out = out.bounded(g.by.rule)
	}
	return out
}

// wholly reports whether a rule without conditions is about a subject.
func (t *table) wholly(s *subject) bool { g := t.grants(s, false); return g.whole }

// bounded limits the suggestion's budget to that of a rule that exists or existed.
func (s Suggestion) bounded(like *Rule) Suggestion {
	if like != nil && like.MaxUpload > 0 {
		s.MaxUpload = like.MaxUpload
		s.Args = append(s.Args, "--max-upload", sizeText(s.MaxUpload))
	}
	return s
}

func (d *Decision) suggestRemoval() Suggestion {
	src := d.Rule.Source
	switch {
	case src.Layer == LayerProject:
		return Suggestion{Note: "the rule is in the project's bothy.yaml"}
	case src.Preset != "":
		return Suggestion{Note: "the rule comes with preset " + src.Preset + "; bothy policy rm --preset " + src.Preset + " takes it out, with --sandbox of one sandbox"}
	case src.Layer == LayerCommand:
		return Suggestion{Note: "the rule was given with the command; start without it"}
	}
	return Suggestion{Args: []string{"policy", "rm", "--id", d.Rule.ID()}, PerSandbox: src.Layer == LayerSandbox, removes: d.Rule}
}

// suggestRequest suggests to allow this one request. If its path cannot be judged, the rule cannot name
// it; if no rule can name its method, the rule leaves the method out.
func (d *Decision) suggestRequest() Suggestion {
	r := d.query.Request
	c := Conditions{WebSocket: strings.EqualFold(r.Upgrade, "websocket")}
	path, fault := r.normalPath()
	var any []string
	if fault == nil && override.Path(r.Header) == "" {
		c.Paths = []string{path}
	} else {
		any = append(any, "the path cannot be judged, so this allows every path")
	}
	if checkMethod(r.Method) == nil && override.Method(r.Header, r.Query, r.MethodInBody) == "" {
		c.Methods = []string{r.Method}
	} else {
		any = append(any, "no rule can tell which method it has, so this allows every method")
	}
	switch {
	case len(r.RPC) > 0:
		c.Methods, c.RPC = nil, rpccall.Distinct(r.RPC)
		if len(c.RPC) > maxSuggested {
			return Suggestion{Note: "it calls too much for one command"}
		}
	case d.byCalls():
		return Suggestion{Note: "a rule tells which calls may be sent there, and a rule without them would let every call pass"}
	}
	s := allowing(d.query.Target(), c).bounded(d.missed)
	if _, ok := s.Rule(); !ok {
		return Suggestion{} // no rule has both calls and a WebSocket
	}
	s.Note = strings.Join(any, "; ")
	return s
}

// suggestAddress suggests to open a special address: the address in question or, of those inside it, the
// one that a translator on the way would lead to.
func (d *Decision) suggestAddress() Suggestion {
	var s subject
	at, b := d.query.Addr, d.Special
	if b != &specialaddr.HostsOwn && specialaddr.Find(at) != b && d.policy != nil && d.query.understand(&s) == CauseNone {
		at, b = d.policy.inside(&s)
	}
	switch {
	case b == nil || b != &specialaddr.HostsOwn && b.Kind != specialaddr.Closed:
		return Suggestion{}
	case d.query.Addr.IsLoopback():
		return Suggestion{Note: "inside, " + d.query.Addr.String() + " is the sandbox itself; a port of the host is reached as host.bothy, after: bothy ports SANDBOX --allow-host-port PORT"}
	case at.IsLoopback():
		return Suggestion{}
	}
	q := Query{Addr: at, Port: d.query.Port}
	return allowing(q.Target(), d.query.Git.conditions())
}

// Target returns the narrowest rule text for the question.
func (q *Query) Target() string {
	if q.Port == 0 {
		at := *q
		at.Port = 443
		return at.hostText()
	}
	return q.hostText()
}
