package policy_test

import (
	"slices"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/lint"
)

// TestLintFindingsAreTrue checks that removing a rule that the linter calls shadowed or
// without effect changes no decision.
func TestLintFindingsAreTrue(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	policy.Always(t, func(t *testing.T, c policy.Choice) {
		inputs := policy.RandomInputs(c)
		p := policy.MustCompile(t, inputs)
		found, err := lint.Rules(noon, inputs...)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if f.Rule == nil || f.Kind != lint.KindShadowed && f.Kind != lint.KindNoEffect && f.Kind != lint.KindExpired {
				continue
			}
			if f.Rule.Action == policy.Allow && f.Rule.Source.Layer == policy.LayerProject {
				continue // without its last rule it is not a list any more
			}
			rest := slices.Clone(inputs)
			for i := range rest {
				if rest[i].Layer != f.Rule.Source.Layer {
					continue
				}
				same := func(r policy.Rule) bool { return r.Key() == f.Rule.Key() }
				b := &rest[i].Block
				b.Allow, b.Deny = slices.DeleteFunc(slices.Clone(b.Allow), same), slices.DeleteFunc(slices.Clone(b.Deny), same)
			}
			without := policy.MustCompile(t, rest)
			for _, q := range policy.AskedOf(c) {
				if d, e := p.Decide(q), without.Decide(q); d.Action != e.Action || d.MaxBody != e.MaxBody || d.Budget.Room() != e.Budget.Room() {
					t.Fatalf("%s\n%+v: %s; without it %s", f, q, d.Reason(), e.Reason())
				}
			}
		}
	})
}
