package transcript

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

type rule struct {
	when event

	list  trail // within is applied to each value here; nil if the rule itself reports
	rules []*rule

	kind, role, verdict                    string
	id, text, model, tool, input, until    trails
	failed, partial                        event // nil: never
	once                                   trails
	in, cached, write, out, reasoning, usd trails
	total, within, apart                   bool
}

// kind is a kind of events, with the fields that apply to it, besides when and once.
type kind struct {
	name   string
	fields []string
}

var kinds = []kind{
	{spec.TalkStart, []string{"id", "model"}},
	{spec.TalkMessage, []string{"role", "id", "text", "partial", "model"}},
	{spec.TalkThinking, []string{"id", "text", "partial"}},
	{spec.TalkToolCall, []string{"id", "tool", "input"}},
	{spec.TalkToolResult, []string{"id", "tool", "text", "failed"}},
	{spec.TalkUsage, []string{"id", "usage", "model"}},
	{spec.TalkLimit, []string{"text", "until"}},
	{spec.TalkError, []string{"text"}},
	{spec.TalkEnd, []string{"text", "verdict"}},
	{spec.TalkIgnore, nil},
}

// maxDepth bounds the nesting of rules.
const maxDepth = 3

func compileRules(list []spec.AgentRule, depth int) (rules []*rule, err error) {
	if depth > maxDepth {
		return nil, spec.Errorf(spec.ErrUsage, "rules are nested more than %d deep", maxDepth)
	}
	for i, a := range list {
		r, err := compileRule(a, depth)
		if err != nil {
			return nil, spec.Errorf(spec.ErrUsage, "rule %d: %w", i+1, err)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func compileRule(a spec.AgentRule, depth int) (r *rule, err error) {
	r = &rule{kind: a.Kind, role: a.Role, verdict: a.Verdict}
	if r.when, err = compileEvent(a.When); err != nil {
		return nil, err
	}
	if a.Each != "" {
		return r, r.compileList(a, depth)
	}
	if err := checkRule(a); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		to   *event
		from spec.AgentEvent
	}{{&r.failed, a.Failed}, {&r.partial, a.Partial}} {
		if *f.to, err = compileEvent(f.from); err != nil {
			return nil, err
		}
	}
	var use spec.AgentUse
	if a.Usage != nil {
		use = *a.Usage
		r.total, r.within, r.apart = use.Total, use.Within, use.Apart
	}
	for _, f := range []struct {
		to   *trails
		from spec.AgentPaths
	}{
		{&r.id, a.ID},
		{&r.text, a.Text},
		{&r.model, a.Model},
		{&r.tool, a.Tool},
		{&r.input, a.Input},
		{&r.until, a.Until},
		{&r.once, a.Once},
		{&r.in, use.Input},
		{&r.cached, use.Cached},
		{&r.write, use.CacheWrite},
		{&r.out, use.Output},
		{&r.reasoning, use.Reasoning},
		{&r.usd, use.USD},
	} {
		if *f.to, err = parseTrails(f.from); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *rule) compileList(a spec.AgentRule, depth int) (err error) {
	if fields := fieldsOf(a); a.Kind != "" || len(fields) > 0 || len(a.Once) > 0 || len(a.Rules) == 0 {
		return spec.Errorf(spec.ErrUsage, "each needs rules, and allows only when beside them")
	}
	if r.list, err = parseTrail(a.Each); err != nil {
		return err
	}
	r.rules, err = compileRules(a.Rules, depth+1)
	return err
}

// checkRule requires a kind, and only fields that apply to it.
func checkRule(a spec.AgentRule) error {
	n := slices.IndexFunc(kinds, func(k kind) bool { return k.name == a.Kind })
	if n < 0 {
		return spec.Errorf(spec.ErrUsage, "%q is not a kind: there are start, message, thinking, tool_call, tool_result, usage, limit, error, end, ignore", a.Kind)
	}
	if len(a.Rules) > 0 {
		return spec.Errorf(spec.ErrUsage, "rules need each")
	}
	for _, f := range fieldsOf(a) {
		if !slices.Contains(kinds[n].fields, f) {
			return spec.Errorf(spec.ErrUsage, "%s has no meaning for the kind %s", f, a.Kind)
		}
	}
	roles := []string{spec.RoleUser, spec.RoleAgent, spec.RoleSystem}
	verdicts := []string{"", spec.VerdictOK, spec.VerdictFailed, spec.VerdictLimit}
	switch {
	case a.Kind == spec.TalkMessage && !slices.Contains(roles, a.Role):
		return spec.Errorf(spec.ErrUsage, "role: %q is not one of %s", a.Role, strings.Join(roles, ", "))
	case a.Kind == spec.TalkUsage && a.Usage == nil:
		return spec.Errorf(spec.ErrUsage, "usage is missing")
	case !slices.Contains(verdicts, a.Verdict):
		return spec.Errorf(spec.ErrUsage, "verdict: %q is not one of ok, failed, limit", a.Verdict)
	}
	return nil
}

// fieldsOf returns the names of the event fields that a rule has.
func fieldsOf(a spec.AgentRule) (names []string) {
	for _, f := range []struct {
		name string
		is   bool
	}{
		{"role", a.Role != ""},
		{"id", len(a.ID) > 0},
		{"text", len(a.Text) > 0},
		{"model", len(a.Model) > 0},
		{"tool", len(a.Tool) > 0},
		{"input", len(a.Input) > 0},
		{"until", len(a.Until) > 0},
		{"verdict", a.Verdict != ""},
		{"usage", a.Usage != nil},
		{"failed", len(a.Failed) > 0},
		{"partial", len(a.Partial) > 0},
	} {
		if f.is {
			names = append(names, f.name)
		}
	}
	return names
}

// makeEvent returns the event that a rule makes from a matching value. ok is false if the event would be
// empty.
func (r *rule) makeEvent(v any) (ev spec.TranscriptEvent, ok bool) {
	ev = spec.TranscriptEvent{
		Kind: r.kind, Role: r.role, Verdict: r.verdict,
		ID: r.id.textAt(v), Text: r.text.textAt(v), Model: r.model.textAt(v), Tool: r.tool.textAt(v),
		Until: timeOf(r.until.firstAt(v)),
	}
	ev.Failed = r.failed != nil && r.failed.matches(v)
	ev.Partial = r.partial != nil && r.partial.matches(v)
	switch r.kind {
	case spec.TalkMessage, spec.TalkThinking:
		return ev, ev.Text != ""
	case spec.TalkToolCall:
		ev.Input = inputOf(r.input.firstAt(v))
	case spec.TalkUsage:
		ev.Usage = r.makeUsage(v)
		return ev, *ev.Usage != spec.TranscriptUsage{Total: r.total}
	}
	return ev, true
}

func (r *rule) makeUsage(v any) *spec.TranscriptUsage {
	count := func(ps trails) int64 { return int64(ps.number(v)) }
	u := &spec.TranscriptUsage{
		Input: count(r.in), Cached: count(r.cached), CacheWrite: count(r.write),
		Output: count(r.out), Reasoning: count(r.reasoning),
		USD: r.usd.number(v), Total: r.total,
	}
	if r.within {
		u.Input = max(0, u.Input-u.Cached-u.CacheWrite)
	}
	if r.apart {
		u.Output += u.Reasoning
	}
	return u
}

// inputOf returns the arguments of a tool call. Some agents have them as a string that contains JSON.
func inputOf(v any) json.RawMessage {
	if s, ok := v.(string); ok && strings.HasPrefix(s, "{") {
		if within, cause := decode([]byte(s)); cause == "" {
			v = within
		}
	}
	if v == nil {
		return nil
	}
	return encode(v)
}
