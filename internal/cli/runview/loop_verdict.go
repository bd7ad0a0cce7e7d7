package runview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/term"
)

// Describes the verdicts of a loop's gates.

// gatesText describes the verdict of the gates that were asked. If none is red, it also lists
// reviewers that were not asked yet.
func gatesText(p *loopplan.Plan, v *loop.Verdict) string {
	if red := v.Red(); len(red) > 0 {
		var list []string
		for _, g := range red {
			list = append(list, g.Name+" ("+term.Opening(g.Why)+")")
		}
		return fmt.Sprintf("%d of %d red: %s", len(red), len(v.Gates), strings.Join(list, ", "))
	}
	if rest := unasked(p, v); len(rest) > 0 {
		return fmt.Sprintf("%d of %d green, not asked yet: %s", len(v.Gates), len(v.Gates)+len(rest), strings.Join(rest, ", "))
	}
	return "all green"
}

// unasked returns the reviewers that have no verdict on the judged work, or none if nothing was
// judged.
func unasked(p *loopplan.Plan, v *loop.Verdict) (names []string) {
	if v == nil {
		return nil
	}
	for _, c := range p.Reviewers() {
		if !slices.ContainsFunc(v.Gates, func(g loop.Gate) bool { return g.Review && g.Name == c.ID }) {
			names = append(names, c.ID)
		}
	}
	return names
}

// yetToSay returns the reviewers that have no verdict on a loop's current work. Between two tasks
// a loop has none.
func yetToSay(p *loopplan.Plan, s *loop.State) []string {
	if p.Tasks != nil && s.Task == nil {
		return nil
	}
	return unasked(p, s.LastVerdict())
}

// reviewerState says whether a reviewer without a verdict was asked.
func reviewerState(s *loop.State, id string) string {
	if s.Reviewing == id {
		return "asked"
	}
	return "not asked"
}

func gateText(g loop.Gate) string {
	if g.Green {
		return "green  " + g.Name
	}
	return "red    " + g.Name + ": " + g.Why
}
