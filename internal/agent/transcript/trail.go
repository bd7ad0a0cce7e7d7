package transcript

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// trail is a path into a value; the empty one leads to the value itself.
type trail []string

// whole and every are the special words of a path.
const (
	whole = "."
	every = "*"
)

// maxSteps is longer than the path of any agent.
const maxSteps = 16

func parseTrail(s string) (trail, error) {
	if s == whole {
		return trail{}, nil
	}
	p := trail(strings.Split(s, "."))
	if len(p) > maxSteps || slices.Contains(p, "") {
		return nil, spec.Errorf(spec.ErrUsage, "%q is not a path: write names with dots between them, or a single dot", s)
	}
	return p, nil
}

// each yields the values at a path, until told to stop. Only * leads to more than one value.
func (p trail) each(v any, yield func(any) bool) bool {
	if len(p) == 0 {
		return v == nil || yield(v)
	}
	switch in := v.(type) {
	case map[string]any:
		if next, ok := in[p[0]]; ok {
			return p[1:].each(next, yield)
		}
	case []any:
		if p[0] == every {
			for _, next := range in {
				if !p[1:].each(next, yield) {
					return false
				}
			}
			return true
		}
		if i, err := strconv.ParseUint(p[0], 10, 31); err == nil && int(i) < len(in) {
			return p[1:].each(in[i], yield)
		}
	}
	return true
}

// trails are alternative paths.
type trails []trail

func parseTrails(list spec.AgentPaths) (ps trails, err error) {
	for _, s := range list {
		p, err := parseTrail(s)
		if err != nil {
			return nil, err
		}
		ps = append(ps, p)
	}
	return ps, nil
}

// textAt returns the text of the first path that has one; several texts of one path are joined by line
// breaks. If no path leads to a text but one leads to a list or an object, it returns that in JSON.
func (ps trails) textAt(v any) string {
	for _, p := range ps {
		var texts []string
		p.each(v, func(v any) bool {
			if t, ok := textOf(v); ok {
				texts = append(texts, t)
			}
			return true
		})
		if len(texts) > 0 {
			return strings.Join(texts, "\n")
		}
	}
	if found := ps.firstAt(v); found != nil && !isEmpty(found) {
		return string(encode(found))
	}
	return ""
}

// firstAt returns the first value at any of the paths, or nil if all are missing.
func (ps trails) firstAt(v any) (found any) {
	for _, p := range ps {
		p.each(v, func(v any) bool {
			found = v
			return false
		})
		if found != nil {
			break
		}
	}
	return found
}

// maxNumber bounds numbers, so that sums of them stay numbers.
const maxNumber = 1 << 40

// number returns a usage count: 0 if the value is not a number, or is not plausible.
func (ps trails) number(v any) float64 {
	n, ok := ps.firstAt(v).(json.Number)
	if !ok {
		return 0
	}
	f, err := n.Float64()
	if err != nil || !(f > 0) {
		return 0
	}
	return min(f, maxNumber)
}

// textOf returns the text of a value, if it has one.
func textOf(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

type event []condition

type condition struct {
	at  trail
	any bool
	is  []string
}

func compileEvent(e spec.AgentEvent) (event, error) {
	var compiled event
	for field, value := range e {
		p, err := parseTrail(field)
		if err != nil {
			return nil, err
		}
		compiled = append(compiled, condition{at: p, any: value == every, is: strings.Split(value, "|")})
	}
	return compiled, nil
}

func (e event) matches(v any) bool {
	for _, c := range e {
		if !c.matches(v) {
			return false
		}
	}
	return true
}

func (c condition) matches(v any) (holds bool) {
	c.at.each(v, func(v any) bool {
		t, ok := textOf(v)
		holds = ok && (c.any || slices.Contains(c.is, t))
		return !holds
	})
	return holds
}

func matchesAny(list []event, v any) bool {
	return slices.ContainsFunc(list, func(e event) bool { return e.matches(v) })
}
