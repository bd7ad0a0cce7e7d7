// Package transcript converts the output of agents to events of one form (spec.TranscriptEvent). Agents
// write lines of JSON to their standard output or to their session files, or rows with JSON to a
// database. The rules for that are data in the description of each agent; this package does not know
// agents by name.
//
// All input was written inside a sandbox, by a program that may be hostile. Lines are bounded in length
// and in their number of values. A line that is not JSON, is too large, or matches no rule is reported
// as such, and is never an error. The reader waits for the rest of an incomplete line. Text is passed on
// unchanged: a caller that shows it on a terminal removes control sequences. Files are opened only below
// the home, and only regular ones.
package transcript

import (
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// Rules describe how to read an agent's output.
type Rules struct {
	session, time trails
	rules         []*rule
	run           *run // nil for a transcript
}

// run has the rules for a run's end and session, from the description of headless runs.
type run struct {
	end, success []event
	exhausted    []string
	begins       event
	session      trail
}

// ForTranscript returns the rules for an agent's session files.
func ForTranscript(t *spec.AgentTranscript) (*Rules, error) {
	return compile(&t.AgentReading)
}

// ForOutput returns the rules for the output of an agent that runs without a terminal. Its
// Events must be described.
func ForOutput(h *spec.AgentHeadless) (*Rules, error) {
	r, err := compile(h.Events)
	if err != nil {
		return nil, err
	}
	r.run = &run{exhausted: h.Exhausted}
	for _, list := range []struct {
		to   *[]event
		from []spec.AgentEvent
	}{{&r.run.end, h.End}, {&r.run.success, h.Success}} {
		for _, e := range list.from {
			compiled, err := compileEvent(e)
			if err != nil {
				return nil, err
			}
			*list.to = append(*list.to, compiled)
		}
	}
	if s := h.Session; s != nil {
		if r.run.begins, err = compileEvent(s.Event); err == nil {
			r.run.session, err = parseTrail(s.Field)
		}
	}
	return r, err
}

func compile(a *spec.AgentReading) (r *Rules, err error) {
	r = &Rules{}
	if r.session, err = parseTrails(a.Session); err != nil {
		return nil, err
	}
	if r.time, err = parseTrails(a.Time); err != nil {
		return nil, err
	}
	if len(a.Rules) == 0 {
		return nil, spec.Errorf(spec.ErrUsage, "rules are missing")
	}
	r.rules, err = compileRules(a.Rules, 0)
	return r, err
}

func (r *Rules) sessionOf(v any) string {
	if id := r.session.textAt(v); id != "" {
		return id
	}
	if r.run != nil && r.run.begins != nil && r.run.begins.matches(v) {
		return trails{r.run.session}.textAt(v)
	}
	return ""
}

// isEndOfRun reports whether a line may be the last of a run.
func (r *Rules) isEndOfRun(v any) bool {
	return r.run != nil && matchesAny(r.run.end, v)
}

// verdict evaluates a line that is an end.
func (r *Rules) verdict(v any) string {
	switch {
	case matchesAny(r.run.success, v):
		return spec.VerdictOK
	case containsText(v, r.run.exhausted):
		return spec.VerdictLimit
	}
	return spec.VerdictFailed
}

// containsText reports whether a text anywhere in a value contains one of some parts.
func containsText(v any, parts []string) bool {
	switch v := v.(type) {
	case string:
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(v, p) })
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return containsText(e, parts) })
	case map[string]any:
		for _, e := range v {
			if containsText(e, parts) {
				return true
			}
		}
	}
	return false
}
