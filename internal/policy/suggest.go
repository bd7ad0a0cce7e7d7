package policy

import "strings"

// Suggestion is what would change a denial.
type Suggestion struct {
	// Args are the arguments of the bothy command that would, without the
	// sandbox; none if no command can.
	Args []string
	// PerSandbox tells that the command is for the one sandbox.
	PerSandbox bool
	// Note says what to do where no command can, or what to weigh before.
	Note string
}

// Command writes the suggestion for a shell, about the named sandbox or, without
// a name, about all. Text from inside is quoted: it
// must not become a command of its own when somebody pastes it.
func (s Suggestion) Command(sandbox string) string {
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
		if !alphanumeric(s[i]) && strings.IndexByte("-._/:@%+=", s[i]) < 0 {
			return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
	}
	if s == "" {
		return "''"
	}
	return s
}

// Suggest gives what would allow what was denied. The zero Suggestion is for
// what was allowed, and for what nothing can allow.
func (d *Decision) Suggest() Suggestion {
	if d.Allowed() {
		return Suggestion{}
	}
	switch d.Cause {
	case CauseRule:
		return d.suggestRemoval()
	case CauseNoRule:
		return allowing(d.query.target())
	case CauseRequest, CauseWebSocket:
		return d.suggestRequest()
	case CauseProject:
		return Suggestion{Note: "add " + d.query.target() + " to the allow list of the project's bothy.yaml"}
	case CauseSpecial:
		return d.suggestAddress()
	case CauseInspection:
		return Suggestion{Note: "connect again"}
	}
	return Suggestion{}
}

func allowing(target string, more ...string) Suggestion {
	return Suggestion{Args: append([]string{"policy", "allow", target}, more...), PerSandbox: true}
}

func (d *Decision) suggestRemoval() Suggestion {
	src := d.Rule.Source
	switch {
	case src.Layer == LayerProject:
		return Suggestion{Note: "the rule stands in the project's bothy.yaml"}
	case src.Preset != "":
		return Suggestion{Note: "the rule comes with preset " + src.Preset + "; bothy policy rm --preset " + src.Preset + " takes it out, with --sandbox of one sandbox"}
	case src.Layer == LayerCommand:
		return Suggestion{Note: "the rule was given with the command; start without it"}
	}
	return Suggestion{Args: []string{"policy", "rm", "--id", d.Rule.ID()}, PerSandbox: src.Layer == LayerSandbox}
}

// suggestRequest allows this one request. A path that cannot be judged cannot
// be allowed by its path.
func (d *Decision) suggestRequest() Suggestion {
	r := d.query.Request
	more := []string{"--method", strings.ToUpper(r.Method)}
	path, fault := normalizePath(r.Path)
	if fault == nil {
		more = append(more, "--path", path)
	}
	if strings.EqualFold(r.Upgrade, "websocket") {
		more = append(more, "--websocket")
	}
	s := allowing(d.query.target(), more...)
	if fault != nil {
		s.Note = "the path cannot be judged, so this allows every path"
	}
	return s
}

func (d *Decision) suggestAddress() Suggestion {
	if d.special.kind != closed || special(d.query.Addr) != d.special {
		return Suggestion{}
	}
	q := Query{Addr: d.query.Addr, Port: d.query.Port}
	s := allowing(q.target())
	if d.query.Addr.IsLoopback() {
		s = Suggestion{Note: "a port of the host is reached as host.bothy, after --allow-host-port PORT"}
	}
	return s
}

// target is the narrowest rule text for what was asked about.
func (q *Query) target() string {
	if q.Port == 0 {
		at := *q
		at.Port = 443
		return at.host()
	}
	return q.host()
}
