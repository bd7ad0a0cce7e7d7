package lint

import (
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/ascii"
)

// Contradiction is an allow rule and a deny rule that denies all of it.
type Contradiction struct{ Allow, Deny policy.Rule }

// Contradictions finds allow rules that never count, because one deny rule denies
// everything they let through. Layers are judged together. Denying a part is not a
// contradiction. Rules of presets and of the project are left out, because other rules are
// meant to cut them.
func Contradictions(now time.Time, inputs ...policy.Input) ([]Contradiction, error) {
	p, err := policy.Compile(0, inputs...)
	if err != nil {
		return nil, err
	}
	var found []Contradiction
	rules := pointers(p)
	for _, r := range rules {
		if r.Action != policy.Allow || r.Source.Preset != "" || r.Source.Layer == policy.LayerProject || !r.Live(now) {
			continue
		}
		for _, o := range rules {
			if o.Action == policy.Deny && o.HTTP.IsEmpty() && o.Live(now) && o.Outlives(r) && reaches(o, r) {
				found = append(found, Contradiction{*r, *o})
				break
			}
		}
	}
	return found, nil
}

// String returns the contradiction in one line.
func (c *Contradiction) String() string {
	return "allow " + ascii.Quote(c.Allow.String()) + " (" + c.Allow.Source.String() + ") never counts: " +
		ascii.Quote(c.Deny.String()) + " (" + c.Deny.Source.String() + ") denies all of it"
}
