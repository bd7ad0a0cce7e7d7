package flow

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/racetest"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

const stories = `
name: stories
inputs: [{name: prd, file: prd.json, required: true}]
steps:
  - {id: plan, prompt: Plan it, output: plan.md}
  - id: story
    needs: [plan]
    each: prd
    steps:
      - id: implementor
        prompt: "Do ${{ each.title }} as ${{ steps.plan.output }} says: ${{ each.criteria }}"
        output: story-${{ each.number }}/done.md
      - id: checks
        needs: [implementor]
        command: test it
        env: {STORY: "${{ each.id }}"}
        output: story-${{ each.number }}/checks.txt
        back: {to: implementor}
      - id: reviewer
        needs: [implementor, checks]
        prompt: Review ${{ steps.implementor.output }}
        output: story-${{ each.number }}/review.md
      - id: judge
        needs: [checks, reviewer]
        command: judge it
        env: {REVIEW: "${{ steps.reviewer.output }}"}
        output: story-${{ each.number }}/verdict.md
        back: {to: implementor}
  - id: report
    needs: [story]
    if: always()
    command: report
    env: {VERDICTS: "${{ steps.judge.output }}"}
    output: report.md
    final: true
`

const prd = `{"userStories": [
  {"id": "US-2", "title": "sums", "acceptanceCriteria": ["1+1"], "priority": 2, "passes": false},
  {"id": "US-0", "title": "done", "priority": 0, "passes": true},
  {"id": "US-1", "title": "greets", "acceptanceCriteria": ["hello $(id)"], "priority": 1, "passes": false},
  {"id": "US-3", "title": "last", "priority": 3, "passes": false}]}`

// red completes jobs, but fails some steps a number of times.
func red(times map[string]int) func(Job) Done {
	return func(job Job) Done {
		step, _, _ := strings.Cut(filepath.Base(job.Place), ".")
		for name, left := range times {
			at, _ := strings.CutPrefix(name, step+" ")
			if at != name && left > 0 && slices.Contains(job.Env, "STORY="+at) || name == filepath.Base(job.Place) && left > 0 {
				times[name]--
				return Done{Verdict: spec.VerdictFailed, Error: "exit code 1: it is red", Missing: "there is none", Tokens: 10}
			}
		}
		return fine(job)
	}
}

func TestStories(t *testing.T) {
	b := beginWith(t, stories, map[string]string{"prd.json": prd}, fine)
	s := b.carry()
	b.want(s, run.Completed, "done", "plan.1 implementor.1.1 checks.1.1 reviewer.1.1 judge.1.1 implementor.2.1 checks.2.1 reviewer.2.1 judge.2.1 implementor.3.1 checks.3.1 reviewer.3.1 judge.3.1 report.1")
	first, second, report := b.jobs[1], b.jobs[5], b.jobs[13]
	if !strings.HasPrefix(first.Prompt, "Do greets as /flow/implementor.1.1/outputs/plan.md says: - hello $(id)\n") || !strings.HasPrefix(second.Prompt, "Do sums ") {
		t.Errorf("they are told %s and %s", first.Prompt, second.Prompt)
	}
	if first.Files["outputs/plan.md"] == nil || b.jobs[7].Files["outputs/story-2/done.md"] == nil || b.jobs[7].Files["outputs/story-1/done.md"] != nil {
		t.Errorf("they have %v and %v", first.Files, b.jobs[7].Files)
	}
	if want := "VERDICTS=/flow/report.1/outputs/story-1/verdict.md\n/flow/report.1/outputs/story-2/verdict.md\n/flow/report.1/outputs/story-3/verdict.md"; !slices.Contains(report.Env, want) {
		t.Errorf("the report has %q", report.Env)
	}
	if st := s.Step("judge.2"); st.Group != "story" || st.Element != "US-2" {
		t.Errorf("it is %+v", st)
	}
	// A changed output is made again, for that story alone, and so is the report.
	b.write("outputs/story-2/done.md", "other")
	b.want(b.carry(), run.Completed, "done", "implementor.2.2 checks.2.2 reviewer.2.2 judge.2.2 report.2")
}

// TestBack checks that a step is sent back with the flaws, as often as allowed. After that its story is
// left to a person, and the other stories continue.
func TestBack(t *testing.T) {
	b := beginWith(t, stories, map[string]string{"prd.json": prd}, nil)
	b.do = red(map[string]int{"checks US-1": 1, "judge.1.1": 1, "checks US-2": 9})
	s := b.carry()
	b.want(s, run.Completed, ReasonSkipped, "plan.1 "+
		"implementor.1.1 checks.1.1 implementor.1.2 checks.1.2 reviewer.1.1 judge.1.1 implementor.1.3 checks.1.3 reviewer.1.2 judge.1.2 "+
		"implementor.2.1 checks.2.1 implementor.2.2 checks.2.2 implementor.2.3 checks.2.3 "+
		"implementor.3.1 checks.3.1 reviewer.3.1 judge.3.1 report.1")
	if s.ExitCode() != spec.ExitPartly || s.Detail != "US-2 needs human review: checks.2: exit code 1: it is red" {
		t.Errorf("code %d: %s", s.ExitCode(), s.Detail)
	}
	if got := b.jobs[3]; !strings.Contains(got.Prompt, "# What the last try lacked\n\n- checks: exit code 1: it is red\n") || string(got.Drafts["outputs/story-1/done.md"]) == "" {
		t.Errorf("at its second try it was told %s, with %v", got.Prompt, got.Drafts)
	}
	if got := b.jobs[7]; !strings.Contains(got.Prompt, "- judge: exit code 1: it is red\n- judge: exists: there is none\n") || strings.Contains(got.Prompt, "checks:") {
		t.Errorf("at its third try it was told %s", got.Prompt)
	}
	var states []string
	for _, e := range s.Elements() {
		states = append(states, fmt.Sprintf("%d %s %s %s", e.Number, e.ID, e.Title, e.Status))
	}
	if got := strings.Join(states, ", "); got != "1 US-1 greets completed, 2 US-2 sums skipped, 3 US-3 last completed" {
		t.Error(got)
	}
	// The next carrier has the failed step done again, which may send back again.
	b.do = red(map[string]int{"checks US-2": 1})
	b.want(b.carry(), run.Completed, "done", "checks.2.4 implementor.2.4 checks.2.5 reviewer.2.1 judge.2.1 report.2")
}

// TestRecheck checks that skipped elements are checked once more at the end of the list, if another
// element was done since. No agent runs again for those that are still red; green ones continue.
func TestRecheck(t *testing.T) {
	again := strings.Replace(stories, "each: prd\n", "each: prd\n    recheck: true\n", 1)
	all := "plan.1 implementor.1.1 checks.1.1 reviewer.1.1 judge.1.1 " +
		"implementor.2.1 checks.2.1 implementor.2.2 checks.2.2 implementor.2.3 checks.2.3 " +
		"implementor.3.1 checks.3.1 reviewer.3.1 judge.3.1 checks.2.4 "
	b := beginWith(t, again, map[string]string{"prd.json": prd}, nil)
	b.do = red(map[string]int{"checks US-2": 3})
	b.want(b.carry(), run.Completed, "done", all+"reviewer.2.1 judge.2.1 report.1")

	b = beginWith(t, again, map[string]string{"prd.json": prd}, nil)
	b.do = red(map[string]int{"checks US-2": 9})
	b.want(b.carry(), run.Completed, ReasonSkipped, all+"report.1")

	list, _, _ := strings.Cut(again, "  - id: report") // the list has no elements, but is still done
	b = beginWith(t, strings.Replace(list, "    recheck: true\n", "", 1), map[string]string{"prd.json": prd}, nil)
	b.do = red(map[string]int{"checks US-2": 3})
	used := b.carry().Tokens
	b = beginWith(t, list, map[string]string{"prd.json": prd}, nil)
	b.plan.Limits.Tokens = used
	var err error
	b.run, err = run.CreateFlow(filepath.Join(t.TempDir(), "runs"), "", "flow-2026-11-22-0002", b.plan, func(dir string) error {
		return Fill(dir, map[string][]byte{"prd.json": []byte(prd)})
	})
	must(t, err)
	b.do = red(map[string]int{"checks US-2": 3})
	b.want(b.carry(), run.Completed, ReasonSkipped, strings.TrimSuffix(all, " checks.2.4 "))

	b = beginWith(t, again, map[string]string{"prd.json": prd}, nil) // no element was done after it
	b.do = red(map[string]int{"checks US-3": 9})
	s := b.carry()
	b.want(s, run.Completed, ReasonSkipped, "plan.1 implementor.1.1 checks.1.1 reviewer.1.1 judge.1.1 implementor.2.1 checks.2.1 reviewer.2.1 judge.2.1 "+
		"implementor.3.1 checks.3.1 implementor.3.2 checks.3.2 implementor.3.3 checks.3.3 report.1")
	b.do = red(map[string]int{"checks US-3": 1}) // the next carrier gives it all its tries
	b.want(b.carry(), run.Completed, "done", "checks.3.4 implementor.3.4 checks.3.5 reviewer.3.1 judge.3.1 report.2")
}

// TestUnavailable checks that an element does not pass because no model answers the reviewer.
func TestUnavailable(t *testing.T) {
	b := beginWith(t, stories, map[string]string{"prd.json": `[{"id": "a"}]`}, func(job Job) Done {
		if strings.Contains(job.Place, "reviewer") {
			return Done{Verdict: spec.VerdictFailed, Error: "no model", Missing: "there is none"}
		}
		return fine(job)
	})
	s := b.carry()
	b.want(s, run.Completed, ReasonSkipped, "plan.1 implementor.1.1 checks.1.1 reviewer.1.1 reviewer.1.2 reviewer.1.3 report.1")
	if st := s.Step("judge.1"); st.Status != Passed {
		t.Errorf("the judge is %+v", st)
	}
}

// TestTornStories lets the host die after any of its events. Steps with a result are not repeated, and
// the number of times a step was sent back is known.
func TestTornStories(t *testing.T) {
	racetest.Skip(t)
	want := map[string]int{}
	again := strings.Replace(stories, "each: prd\n", "each: prd\n    recheck: true\n", 1)
	begun := func() *bench {
		b := beginWith(t, again, map[string]string{"prd.json": prd}, nil)
		b.do = red(map[string]int{"checks US-1": 1, "checks US-2": 9})
		return b
	}
	b := begun()
	s := b.carry()
	for _, st := range s.Steps {
		want[st.ID] = st.Attempts
	}
	lines := bytes.SplitAfter([]byte(b.read("events.jsonl")), []byte("\n"))
	for n := 1; n < len(lines)-1; n++ {
		must(t, os.WriteFile(filepath.Join(b.run.Dir(), "events.jsonl"), bytes.Join(lines[:n], nil), 0o600))
		events, err := b.run.Events()
		must(t, err)
		before, err := Fold(b.plan, events)
		must(t, err)
		greens := before.Step("checks.1").Attempts
		if before.Step("checks.1").Status == run.Running {
			greens--
		}
		b.do = red(map[string]int{"checks US-1": 1 - greens, "checks US-2": 9})
		s := b.carry()
		if s.Status != run.Completed || s.Reason != ReasonSkipped {
			t.Fatalf("after %d events it is %s (%s: %s)", n, s.Status, s.Reason, s.Detail)
		}
		for _, st := range s.Steps {
			most := want[st.ID]
			if now := before.Step(st.ID); now.Status == run.Running {
				most++ // it was interrupted
			}
			if n < len(lines)-2 && st.Attempts != most {
				t.Fatalf("after %d events %s was tried %d times, not %d", n, st.ID, st.Attempts, most)
			}
		}
	}
}

// TestListChanged checks that a flow that was planned for one list does not run for another.
func TestListChanged(t *testing.T) {
	b := beginWith(t, stories, map[string]string{"prd.json": prd}, fine)
	b.carry()
	b.write("inputs/prd.json", `[{"id": "other"}]`)
	s := b.carry()
	b.want(s, run.Failed, "error", "")
	if !strings.Contains(s.Detail, "inputs/prd.json has changed since the flow began") {
		t.Error(s.Detail)
	}
	b.write("inputs/prd.json", prd)
	b.want(b.carry(), run.Completed, "done", "")
}

// TestRejected checks that a rejected step is sent back, with the reason.
func TestRejected(t *testing.T) {
	b := begin(t, `
name: drafts
steps:
  - {id: draft, prompt: Write it, output: draft.txt}
  - {id: good, needs: [draft], approval: {message: Good?}, back: {to: draft, times: 1}}
`, fine)
	b.want(b.carry(), run.Waiting, "approval", "draft.1")
	b.answer("", false)
	b.want(b.carry(), run.Waiting, "approval", "draft.2")
	if !strings.Contains(b.jobs[0].Prompt, "- good: rejected by ann: because\n") {
		t.Errorf("it is told %s", b.jobs[0].Prompt)
	}
	b.answer("", false)
	b.want(b.carry(), run.Failed, "rejected", "")
}

// TestCut checks that the usage of an interrupted try counts once, whichever process finds out.
func TestCut(t *testing.T) {
	b := begin(t, three, nil)
	b.used = map[string]Used{"mine": {Tokens: 1000, USD: 3}}
	b.do = func(Job) Done {
		b.used["mine"] = Used{Tokens: 1070, USD: 3.5}
		must(t, b.run.Leave(run.Message{Kind: run.Stop, Actor: "ann"}))
		return Done{Verdict: spec.VerdictFailed, Tokens: 20}
	}
	b.hang = true
	s := b.carry()
	if s.Status != run.Cancelled || s.Tokens != 70 || s.USD != .5 || s.Step("one").Status != Pending {
		t.Errorf("it is %s after %d tokens", s.Status, s.Tokens)
	}

	b = begin(t, three, nil) // the host dies during the work
	b.used = map[string]Used{"mine": {Tokens: 1000, USD: 3}}
	b.do = fine
	b.carry()
	lines := bytes.SplitAfter([]byte(b.read("events.jsonl")), []byte("\n"))
	n := slices.IndexFunc(lines, func(line []byte) bool { return bytes.Contains(line, []byte(`"started"`)) })
	must(t, os.WriteFile(filepath.Join(b.run.Dir(), "events.jsonl"), bytes.Join(lines[:n+1], nil), 0o600))
	b.used["mine"] = Used{Tokens: 1070, USD: 3.5}
	s = b.carry()
	b.want(s, run.Completed, "done", "one.2 two.1 three.1")
	if s.Tokens != 70+30 || s.USD != .5 {
		t.Errorf("%d tokens, %v USD", s.Tokens, s.USD)
	}
	if s = b.carry(); s.Tokens != 100 {
		t.Errorf("then %d tokens", s.Tokens)
	}

	must(t, os.WriteFile(filepath.Join(b.run.Dir(), "events.jsonl"), bytes.Join(lines[:n+1], nil), 0o600)) // and the user stops it
	h, events, err := b.run.Host()
	must(t, err)
	defer h.Close()
	s, err = (&Carrier{Plan: b.plan, Run: b.run, Host: h, Runner: b}).Stop(t.Context(), events, "ann")
	must(t, err)
	if s.Status != run.Cancelled || s.Tokens != 70 {
		t.Errorf("it is %s after %d tokens", s.Status, s.Tokens)
	}
}

// TestCopies checks that each time of a step works in a room of its own, and is judged there.
func TestCopies(t *testing.T) {
	b := begin(t, `
name: copies
steps:
  - {id: try, matrix: {n: [1, 2], agent: [mine, yours]}, copy: true, agent: "${{ matrix.agent }}", model: "m${{ matrix.n }}", prompt: "Do ${{ matrix.n }}", output: "try-${{ matrix.n }}-${{ matrix.agent }}.md"}
  - {id: gate, of: try, command: judge it, env: {N: "${{ matrix.n }}"}, output: "gate-${{ matrix.n }}-${{ matrix.agent }}.txt"}
  - {id: judge, needs: [try, gate], prompt: "Judge ${{ steps.gate.output }}", output: best.txt}
`, fine)
	b.want(b.carry(), run.Completed, "done", "try.1.1 try.2.1 try.3.1 try.4.1 gate.1.1 gate.2.1 gate.3.1 gate.4.1 judge.1")
	var rooms []string
	for _, r := range b.plan.Rooms() {
		rooms = append(rooms, fmt.Sprint(r.Name, " ", r.Agent, " ", r.Copy))
	}
	if got := strings.Join(rooms, ", "); got != "mine mine false, try.1 mine true, try.2 mine true, try.3 yours true, try.4 yours true" {
		t.Errorf("the rooms are %s", got)
	}
	if got := strings.Join(b.plan.Copies(), " "); got != "try.1 try.2 try.3 try.4" {
		t.Errorf("the copies are %s", got)
	}
	if job := b.jobs[2]; job.Agent != "yours" || job.Room != "try.3" || job.Of != "" || job.Model != "m1" {
		t.Errorf("the third try is %+v", job)
	}
	if job := b.jobs[6]; job.Agent != flowplan.Shell || job.Room != "" || job.Of != "try.3" || len(job.Files) != 0 || !slices.Equal(job.Env, []string{"N=1"}) {
		t.Errorf("the third is judged by %+v", job)
	}
	if job := b.jobs[8]; len(job.Files) != 8 || job.Room != "mine" {
		t.Errorf("the judge has %d files, in %s", len(job.Files), job.Room)
	}
	// One try that is made again is judged again, and no other.
	b.write("outputs/try-1-yours.md", "other")
	b.want(b.carry(), run.Completed, "done", "try.3.2 gate.3.2 judge.2")
}

// TestMatrixOfInputs checks that inputs can set how often a step runs, and which agents and models take
// turns.
func TestMatrixOfInputs(t *testing.T) {
	const text = `
name: best
inputs: [{name: n, default: 3}, {name: agents, default: ""}, {name: models, default: ""}, {name: tones, default: "dry"}, {name: judge, default: ""}]
steps:
  - id: try
    matrix: {n: {count: "${{ inputs.n }}"}, tone: {list: "${{ inputs.tones }}"}, agent: {turn: "${{ inputs.agents }}"}, model: {turn: "${{inputs.models}}"}}
    agent: ${{ matrix.agent }}
    model: ${{ matrix.model }}
    prompt: Be ${{ matrix.tone }}
    output: ${{ matrix.n }}-${{ matrix.tone }}.txt
  - {id: judge, needs: [try], if: "inputs.judge != ''", agent: "${{ inputs.judge }}", prompt: Judge, output: verdict.txt}
  - {id: best, needs: [try, judge], if: "!failure()", command: choose, env: {VERDICT: "${{ steps.judge.output }}"}, output: best.txt}
`
	plan := func(values map[string]string) *flowplan.Plan {
		return &flowplan.Plan{Agent: "mine", Values: values, Flow: parse(t, text)}
	}
	p := plan(map[string]string{})
	must(t, p.Check(nil))
	if nodes, rooms := p.Nodes(), p.Rooms(); len(nodes) != 5 || len(rooms) != 2 || rooms[0].Name != "mine" || nodes[2].Output != "3-dry.txt" || p.ModelOf(nodes[0]) != "" {
		t.Errorf("by default there are %d, in %v", len(nodes), rooms)
	}
	p = plan(map[string]string{"n": " 3 ", "agents": "a, b,", "models": "x,y", "tones": "dry\nwarm,", "judge": "c"})
	must(t, p.Check(nil))
	var got []string
	for _, n := range p.Nodes() {
		if n.Step.Prompt != "" {
			got = append(got, fmt.Sprint(n.ID, " ", p.AgentOf(n), " ", p.ModelOf(n), " ", n.Output))
		}
	}
	if got := strings.Join(got, ", "); got != "try.1 a x 1-dry.txt, try.2 b y 1-warm.txt, try.3 a x 2-dry.txt, try.4 b y 2-warm.txt, try.5 a x 3-dry.txt, try.6 b y 3-warm.txt, judge c  verdict.txt" {
		t.Error(got)
	}
	for want, values := range map[string]map[string]string{
		`the input n is "0", and not a number from 1 to 16`: {"n": "0"},
		`the input n is "17"`:                               {"n": "17"},
		`the input n is "1e1"`:                              {"n": "1e1"},
		"the input tones has 0 values":                      {"tones": " , "},
		`the input tones has "dry" twice`:                   {"tones": "dry,dry"},
		"the input tones has 17 values":                     {"tones": "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q"},
		"the step try would be done more than 64 times":     {"n": "16", "tones": "a,b,c,d,e"},
		"the 4 values of agent take turns":                  {"agents": "a,b,c,d"},
		`step try: output: "1-a b.txt": letters`:            {"tones": "a b"},
	} {
		if err := plan(values).Check(nil); !errors.Is(err, spec.ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, not %q", values, err, want)
		}
	}

	b := begin(t, text, fine) // a step that never runs blocks no other, and has no agent
	b.want(b.carry(), run.Completed, "done", "try.1.1 try.2.1 try.3.1 best.1")
	if got := b.jobs[3].Env; !slices.Contains(got, "VERDICT=") {
		t.Errorf("who chooses has %q", got)
	}
}

// TestStale checks that a new try does not get a document that was made from other inputs.
func TestStale(t *testing.T) {
	b := begin(t, three, fine)
	b.carry()
	b.write("inputs/content.md", "other")
	b.do = func(job Job) Done {
		if len(b.jobs) == 1 {
			return Done{Verdict: spec.VerdictOK, Missing: "the file is not there"}
		}
		return fine(job)
	}
	b.want(b.carry(), run.Completed, "done", "one.2 one.3 two.2 three.2")
	if d := b.jobs[1].Drafts; len(d) != 0 {
		t.Errorf("it was given %s", d)
	}
}

// TestForsaken checks that the flow does not ask a missing model for one story after another. Work that
// fails its checks does not end the flow.
func TestForsaken(t *testing.T) {
	down := func(from string) func(Job) Done {
		asked := false
		return func(job Job) Done {
			if asked = asked || strings.HasSuffix(job.Place, from); asked && strings.Contains(job.Place, "implementor") {
				return Done{Verdict: spec.VerdictFailed, Error: "no model", Missing: "there is none"}
			}
			return fine(job)
		}
	}
	five := `[{"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "d"}, {"id": "e"}]`
	b := beginWith(t, stories, map[string]string{"prd.json": five}, down("implementor.2.1"))
	s := b.carry()
	b.want(s, run.Failed, ReasonAgent, "plan.1 implementor.1.1 checks.1.1 reviewer.1.1 judge.1.1 "+
		"implementor.2.1 implementor.2.2 implementor.2.3 implementor.3.1 implementor.3.2 implementor.3.3 implementor.4.1 implementor.4.2 implementor.4.3")
	if s.ExitCode() != 1 || s.Detail != "agents failed for 3 in a row, to d, which needs human review: implementor.4: no model" {
		t.Errorf("code %d: %s", s.ExitCode(), s.Detail)
	}
	if e := s.Step("implementor.5"); e.Status != Pending {
		t.Errorf("the last is %s", e.Status)
	}
	b.do = fine // the model is available again
	b.want(b.carry(), run.Completed, "done", "implementor.2.4 checks.2.1 reviewer.2.1 judge.2.1 implementor.3.4 checks.3.1 reviewer.3.1 judge.3.1 "+
		"implementor.4.4 checks.4.1 reviewer.4.1 judge.4.1 implementor.5.1 checks.5.1 reviewer.5.1 judge.5.1 report.1")

	for name, do := range map[string]func(Job) Done{
		"checks are red": red(map[string]int{"checks a": 9, "checks b": 9, "checks c": 9, "checks d": 9, "checks e": 9}),
		"documents are not good": func(job Job) Done {
			if strings.Contains(job.Place, "reviewer") {
				return Done{Verdict: spec.VerdictOK, Missing: "there is none"}
			}
			return fine(job)
		},
		"one of three is done": func(job Job) Done {
			if strings.Contains(job.Place, "implementor") && !strings.Contains(job.Place, "implementor.3.") {
				return Done{Verdict: spec.VerdictFailed, Error: "no model", Missing: "there is none"}
			}
			return fine(job)
		},
	} {
		b := beginWith(t, stories, map[string]string{"prd.json": five}, do)
		if s := b.carry(); s.Status != run.Completed || s.Reason != ReasonSkipped {
			t.Errorf("%s: it is %s (%s)", name, s.Status, s.Reason)
		}
	}
}

// TestFresh checks that the runner is told to run a command in a new sandbox, and where its files are.
// Its stdout is its output.
func TestFresh(t *testing.T) {
	b := begin(t, `
name: fresh
steps:
  - {id: work, command: work, output: work.txt}
  - {id: check, needs: [work], fresh: true, command: check, output: check.txt}
`, fine)
	b.want(b.carry(), run.Completed, "done", "work.1 check.1")
	if job := b.jobs[0]; job.Fresh || !slices.Contains(job.Env, "BOTHY_OUTPUT=/flow/work.1/outputs/work.txt") {
		t.Errorf("the first is %+v", job)
	}
	if job := b.jobs[1]; !job.Fresh || job.Room != flowplan.Shell || job.Files["outputs/work.txt"] == nil || !slices.Equal(job.Env, []string{"BOTHY_INPUTS=/flow/check.1/inputs", "BOTHY_OUTPUTS=/flow/check.1/outputs"}) {
		t.Errorf("the second is %+v", job)
	}
}

// TestExcludedElement checks a step of a group whose own condition excludes it for some elements:
// a step that needs the group does not miss it.
func TestExcludedElement(t *testing.T) {
	b := beginWith(t, `
name: x
inputs: [{name: prd, file: prd.json, required: true}]
steps:
  - id: story
    each: prd
    steps:
      - {id: work, command: do it}
      - {id: look, needs: [work], if: "each.title == 'large'", command: look}
  - {id: report, needs: [story], command: report, output: report.md, final: true}
`, map[string]string{"prd.json": `[{"id": "a", "title": "small"}, {"id": "b", "title": "large"}]`}, fine)
	b.want(b.carry(), run.Completed, "done", "work.1.1 work.2.1 look.2.1 report.1")
}

// TestNeverCopy checks that judges get copies even if it is known that no step will work in them.
func TestNeverCopy(t *testing.T) {
	b := begin(t, `
name: x
inputs: [{name: on, default: "no"}]
steps:
  - {id: try, if: "inputs.on == 'yes'", matrix: {n: [1, 2]}, copy: true, prompt: Do, output: "a${{ matrix.n }}.txt"}
  - {id: gate, of: try, if: always(), command: judge, output: "g${{ matrix.n }}.txt"}
  - {id: one, matrix: {}, command: say}
`, fine)
	rooms := b.plan.Rooms()
	b.want(b.carry(), run.Completed, "done", "gate.1.1 gate.2.1 one.1")
	for _, job := range b.jobs[:2] {
		if !slices.ContainsFunc(rooms, func(r flowplan.Room) bool { return r.Name == job.Of }) {
			t.Errorf("there is no room for %s, but %v", job.Of, rooms)
		}
	}
}

// TestOtherwiseHint checks the hint for a user who approves a question: the advised command is not
// an answer by itself.
func TestOtherwiseHint(t *testing.T) {
	b := begin(t, "name: x\nsteps:\n  - {id: ask, question: {message: What?}, output: a.txt}\n", fine)
	_, err := b.carry().question("RUN", "ask", true)
	if e := (*spec.Error)(nil); !errors.As(err, &e) || e.Hint != "bothy flow answer RUN ask 'TEXT'" {
		t.Errorf("it is %#v", err)
	}
}
