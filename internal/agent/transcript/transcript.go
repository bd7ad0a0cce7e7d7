// Package transcript reads what agents say: lines of JSON, on their standard
// output or in the files they keep their sessions in, or rows of a database with
// JSON in them, become events of one form (spec.TranscriptEvent). How is told by rules, which are data in the description
// of each agent; nothing here knows one by its name.
//
// All of it was written inside a sandbox, by a program that may mean harm. Lines
// are bounded in length and in how many values they hold; what is no JSON, too
// large, or known to no rule is told as such, and never an error. A line that is
// not complete yet is waited for. Text is given as it was said: who shows it on a
// terminal takes out what a terminal obeys. Files are opened below the home
// only, and only regular ones.
package transcript

import (
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// Rules are how an agent is read.
type Rules struct {
	session, time trails
	rules         []*rule
	run           *run // nil for a transcript
}

// run is what is told of a run's end and session by the description of how the
// agent is run.
type run struct {
	end, success []event
	exhausted    []string
	begins       event
	session      trail
}

// ForTranscript gives the rules for the files an agent keeps.
func ForTranscript(t *spec.AgentTranscript) (*Rules, error) {
	return compile(&t.AgentReading)
}

// ForOutput gives the rules for what an agent prints that is run without a
// terminal. Its Events must be described.
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

// sessionOf is the ID a line tells; empty if it tells none.
func (r *Rules) sessionOf(v any) string {
	if id := r.session.text(v); id != "" {
		return id
	}
	if r.run != nil && r.run.begins != nil && r.run.begins.matches(v) {
		return trails{r.run.session}.text(v)
	}
	return ""
}

// isEnd tells whether a line may be the last of a run.
func (r *Rules) isEnd(v any) bool {
	return r.run != nil && matchesAny(r.run.end, v)
}

// verdict judges a line that is an end.
func (r *Rules) verdict(v any) string {
	switch {
	case matchesAny(r.run.success, v):
		return spec.VerdictOK
	case says(v, r.run.exhausted):
		return spec.VerdictLimit
	}
	return spec.VerdictFailed
}

// says tells whether one of some parts is in a text anywhere in a value.
func says(v any, parts []string) bool {
	switch v := v.(type) {
	case string:
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(v, p) })
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return says(e, parts) })
	case map[string]any:
		for _, e := range v {
			if says(e, parts) {
				return true
			}
		}
	}
	return false
}
