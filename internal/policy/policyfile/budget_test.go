package policyfile

import (
	"testing"

	"github.com/bothy-dev/bothy/internal/policy"
)

// TestSuggestedBudgetCounts checks that the suggested rule replaces the used-up one,
// whatever layer that one is in. The same command again allows more.
func TestSuggestedBudgetCounts(t *testing.T) {
	user := policy.Input{Layer: policy.LayerUser, Block: policy.Block{Allow: []policy.Rule{{Action: policy.Allow, Target: rule(t, policy.Allow, "a.example.com").Target, Text: "a.example.com", MaxUpload: 5}}}}
	f := &File{}
	for _, want := range []int64{10, 20} {
		more := rule(t, policy.Allow, "a.example.com")
		more.MaxUpload = want
		if err := f.Add(more); err != nil || len(f.Allow) != 1 {
			t.Fatal(err, f.Allow)
		}
		p, err := policy.Compile(1, user, policy.Input{Layer: policy.LayerSandbox, Block: f.Block})
		if err != nil {
			t.Fatal(err)
		}
		if d := p.Decide(policy.Query{Stage: policy.StageConnect, Name: "a.example.com", Port: 443, Now: noon}); d.Budget == nil || d.Budget.Limit != want {
			t.Errorf("%+v, want %d", d.Budget, want)
		}
	}
}
