package flow

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// TestPasses checks that finished elements are marked as the flow continues, and unmarked when they are
// not finished any more.
func TestPasses(t *testing.T) {
	const text = `
name: passing
inputs: [{name: prd, file: prd.json, required: true}]
steps:
  - id: story
    each: prd
    passes: outputs/prd.json
    steps:
      - {id: do, prompt: "Do ${{ each.id }}", output: "${{ each.id }}/done.md"}
      - {id: judge, needs: [do], command: judge, env: {SINCE: "${{ steps.do.began }}"}}
`
	bad := "judge.2"
	b := beginWith(t, text, map[string]string{"prd.json": `{"userStories": [{"id": "a", "passes": false}, {"id": "b", "passes": false}, {"id": "c", "passes": true}]}`}, nil)
	b.do = func(job Job) Done {
		if stepOf(job) == bad {
			return Done{Verdict: spec.VerdictFailed, Error: "it is bad"}
		}
		return fine(job)
	}
	passes := func(want string) {
		t.Helper()
		var prd struct{ UserStories []struct{ Passes bool } }
		must(t, json.Unmarshal([]byte(b.read("outputs/prd.json")), &prd))
		got := ""
		for _, s := range prd.UserStories {
			got += map[bool]string{true: "+", false: "-"}[s.Passes]
		}
		if got != want {
			t.Errorf("the list says %s, not %s", got, want)
		}
	}
	b.ended(b.carry(), run.Completed, ReasonSkipped)
	passes("+-+")
	if env := strings.Join(b.jobs[1].Env, " "); !strings.Contains(env, "SINCE=1") && !strings.Contains(env, "SINCE=2") {
		t.Errorf("since when it is worked at: %s", env)
	}
	bad = "judge.1"
	b.write("outputs/a/done.md", "changed")
	b.ended(b.carry(), run.Completed, ReasonSkipped)
	passes("-++")
	bad = ""
	b.ended(b.carry(), run.Completed, "done")
	passes("+++")

	for text, want := range map[string]string{
		"name: n\nsteps: [{id: a, command: c, passes: p}]\n": "passes: it is for a group",
		"name: n\ninputs: [{name: l, file: l.json, required: true}]\nsteps: [{id: g, each: l, passes: ../p, steps: [{id: a, command: c}]}]\n":                              "is not a path below outputs/",
		"name: n\ninputs: [{name: l, file: l.json, required: true}]\nsteps: [{id: g, each: l, passes: p, steps: [{id: a, command: c}]}, {id: b, command: c, output: p}]\n": "in the way of p",
		"name: n\nsteps: [{id: a, approval: {message: m}}, {id: b, needs: [a], command: c, env: {T: '${{ steps.a.began }}'}}]\n":                                           "the step a is neither a prompt nor a command",
		"name: n\nsteps: [{id: a, command: c}, {id: b, command: c, env: {T: '${{ steps.a.began }}'}}]\n":                                                                   "is not a step that it needs",
	} {
		if _, err := flowplan.Parse("f.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestSince checks that the beginning of a step is its first try for the current result. Tries
// that were sent back count, too.
func TestSince(t *testing.T) {
	b := begin(t, `
name: since
steps:
  - {id: make, prompt: make it, output: it.txt}
  - {id: see, needs: [make], command: see, env: {SINCE: "${{ steps.make.began }}"}, back: {to: make}}
`, nil)
	var since []string
	b.do = func(job Job) Done {
		for _, v := range job.Env {
			if at, ok := strings.CutPrefix(v, "SINCE="); ok {
				since = append(since, at)
			}
		}
		if strings.HasSuffix(job.Place, "see.1") {
			return Done{Verdict: spec.VerdictFailed, Error: "it is bad"}
		}
		return fine(job)
	}
	b.ended(b.carry(), run.Completed, "done")
	b.write("outputs/it.txt", "changed")
	b.ended(b.carry(), run.Completed, "done")
	if len(since) != 3 || since[0] != since[1] || since[1] >= since[2] {
		t.Errorf("since %s", since)
	}
}
