package flow

import (
	"testing"

	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/run"
)

// earlierFlow and earlierHashes are a flow, and the hashes of its steps that an earlier bothy recorded.
const earlierFlow = `
name: earlier
inputs: [{name: tone, default: dry}, {name: list, file: list.json, required: true}]
steps:
  - {id: plan, prompt: "Plan in ${{ inputs.tone }}.", output: plan.md, validate: {required_fields: [a]}, retry: 1, timeout: 5m}
  - {id: many, needs: [plan], matrix: {n: [1, x]}, prompt: "Do ${{ matrix.n }}", output: "m-${{ matrix.n }}.md"}
  - {id: each, needs: [plan], each: list, steps: [{id: do, prompt: "${{ each.title }}", output: "d-${{ each.number }}.md"}, {id: check, needs: [do], command: "true", back: {to: do}}]}
  - {id: good, needs: [many], approval: {message: "Good?"}}
  - {id: last, needs: [good, each, plan], if: "success() && inputs.tone == 'dry'", command: "true", env: {P: "${{ steps.plan.output }}"}, output: last.md, final: true}
`

var earlierHashes = map[string]string{
	"plan":    "ff8fdc915f39eaa1a8c9599f6383110112353c12dfc16474232e99b6088182dd",
	"many.1":  "56aa99008267b267cf59bcd04eb04fa3d9d9bd4c44c0bdb5402d438f0acc6bcf",
	"many.2":  "17d89593ee31447e3e58ed52ca1f1fc57918885d8a41d6f8ed98e7ecee7cc8e7",
	"do.1":    "f7474cf5c08b2e89c2ae1fa2ef670f96d9aaca6106e185d822c98dbb1e7d2a9f",
	"check.1": "e6c3b9f6e5d7114f5aadc35c0d3fbb808f43fc701045f02d2ef21addd1ea7227",
	"good":    "ec403ac3bed90803b8f806f8409def0bb20c2f09185a7f1a1c0f4d1c14d02df1",
	"last":    "e601c0b08dad8f1619ae807761799ef1e04fa08bdd726df0643426ae88a60987",
}

// TestHashesStay checks that steps which an earlier bothy has done are not done again: the hash of a task
// does not change.
func TestHashesStay(t *testing.T) {
	p := &flowplan.Plan{Flow: parse(t, earlierFlow), Agent: "mine", Values: map[string]string{"tone": "dry"}, Files: []string{"list.json"}, Sandboxes: map[string]string{}}
	must(t, p.Check(map[string][]byte{"list.json": []byte(`[{"id": "s1", "title": "t"}]`)}))
	s, err := Fold(p, nil)
	must(t, err)
	s.files = map[string]string{"list.json": p.Lists["each"].SHA256}
	for _, n := range s.nodes {
		st := s.byID[n.ID]
		if got := s.hashTask(n); got != earlierHashes[n.ID] {
			t.Errorf("the hash of %s is %s", n.ID, got)
		}
		st.Status, st.done = run.Completed, int64(len(n.ID))
		if n.Output != "" {
			st.Output = &Artefact{Path: n.Output, SHA256: "ab"}
		}
	}
}
