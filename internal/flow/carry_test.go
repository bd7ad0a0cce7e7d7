package flow

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/racetest"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// bench is a flow on a disk, with a runner that the test controls.
type bench struct {
	t    *testing.T
	plan *flowplan.Plan
	run  *run.Run
	do   func(job Job) Done
	jobs []Job
	used map[string]Used // by rooms, as a gateway would count; do may add to it
	hang bool            // work never ends by itself
	tell func(run.Event, *State)
	call func(context.Context, Asking)
	rest func(func() bool)

	mu     sync.Mutex
	busy   map[string]bool // rooms
	atWork int
	peak   int      // of atWork
	over   sync.Map // channels that are closed when a job is cancelled, by its place
}

// Used returns the usage that the test has set.
func (b *bench) Used(_ context.Context, room string) (Used, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used[room], nil
}

// enter checks that no other job works in the same place.
func (b *bench) enter(job Job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.jobs = append(b.jobs, job)
	b.atWork++
	b.peak = max(b.peak, b.atWork)
	if job.Fresh {
		return
	}
	for _, room := range []string{job.Room, job.Of} {
		if b.busy[room] {
			b.t.Errorf("%s: somebody works in %s already", job.Place, room)
		}
		b.busy[room] = room != ""
	}
}

func (b *bench) leave(job Job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.atWork--
	if !job.Fresh {
		delete(b.busy, job.Room)
		delete(b.busy, job.Of)
	}
}

// Place returns the directory for files.
func (b *bench) Place(name string) string { return "/flow/" + name }

// Work does a job.
func (b *bench) Work(ctx context.Context, job Job) (Done, error) {
	b.enter(job)
	defer b.leave(job)
	fmt.Fprintf(job.Log, "working at %s\n", job.Place)
	b.over.Store(job.Place, ctx.Done())
	d := b.do(job)
	if b.hang {
		<-ctx.Done()
		return d, context.Cause(ctx)
	}
	return d, nil
}

// steps returns the tries that were made.
func (b *bench) steps() string {
	var list []string
	for _, job := range b.jobs {
		list = append(list, strings.TrimPrefix(job.Place, "/flow/"))
	}
	return strings.Join(list, " ")
}

func begin(t *testing.T, text string, do func(Job) Done) *bench {
	t.Helper()
	return beginWith(t, text, nil, do)
}

// beginWith begins a flow with these input files.
func beginWith(t *testing.T, text string, given map[string]string, do func(Job) Done) *bench {
	t.Helper()
	p := &flowplan.Plan{Flow: parse(t, text), Agent: "mine", Values: map[string]string{}, Files: []string{}}
	inputs := map[string][]byte{}
	for _, in := range p.Flow.Inputs {
		if in.File != "" {
			p.Files, inputs[in.File] = append(p.Files, in.File), []byte(cmp.Or(given[in.File], "what "+in.Name+" says"))
		}
	}
	must(t, p.Check(inputs))
	r, err := run.CreateFlow(filepath.Join(t.TempDir(), "runs"), "", "flow-2026-11-22-0001", p, func(dir string) error { return Fill(dir, inputs) })
	must(t, err)
	return &bench{t: t, plan: p, run: r, do: do, busy: map[string]bool{}}
}

// carry carries the flow on, and returns its state.
func (b *bench) carry() *State {
	b.t.Helper()
	s, c := b.carryIn(b.t.Context())
	defer c.Host.Close()
	return s
}

// carryIn carries the flow on until ctx is done, and leaves the run to the returned carrier.
func (b *bench) carryIn(ctx context.Context) (*State, *Carrier) {
	b.t.Helper()
	b.jobs = nil
	h, events, err := b.run.Host()
	must(b.t, err)
	plan := &flowplan.Plan{}
	_, err = b.run.Plan(plan)
	must(b.t, err)
	raised, err := run.Raises(events)
	must(b.t, err)
	plan.Raise(raised)
	c := &Carrier{Plan: plan, Run: b.run, Host: h, Runner: b, Tell: b.tell, Call: b.call, Rest: b.rest}
	s, err := c.Carry(ctx, events)
	must(b.t, err)
	return s, c
}

func (b *bench) answer(step string, approved bool) {
	b.t.Helper()
	h, events, err := b.run.Host()
	must(b.t, err)
	defer h.Close()
	_, err = (&Person{Plan: b.plan, Run: b.run, Host: h, Events: events, Name: "ann"}).Decide(step, approved, "because")
	must(b.t, err)
}

func (b *bench) write(name, text string) {
	b.t.Helper()
	must(b.t, os.WriteFile(filepath.Join(b.run.Dir(), name), []byte(text), 0o600))
}

func (b *bench) read(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.run.Dir(), name))
	must(b.t, err)
	return string(text)
}

// fine completes every job.
func fine(job Job) Done {
	d := Done{Verdict: spec.VerdictOK, Tokens: 10}
	if job.Output != "" {
		d.Output = []byte(`{"good": true, "of": "` + job.Output + `"}`)
	}
	return d
}

func (b *bench) want(s *State, status run.Status, reason, steps string) {
	b.t.Helper()
	if s.Status != status || s.Reason != reason || b.steps() != steps {
		b.t.Fatalf("it is %s (%s: %s) after %q, want %s (%s) after %q", s.Status, s.Reason, s.Detail, b.steps(), status, reason, steps)
	}
}

const three = `
name: three
inputs: [{name: article, file: content.md, required: true}, {name: tone, default: "$(id) ${{ sandbox }}"}]
steps:
  - id: one
    prompt: Read ${{ inputs.article }} in a tone of ${{ inputs.tone }}.
    output: one.json
    validate: {required_fields: [good]}
  - id: two
    needs: [one]
    command: cat "$ONE" > "$BOTHY_OUTPUT"
    env: {ONE: "${{ steps.one.output }}", TONE: "${{ inputs.tone }}"}
    output: two.json
  - id: three
    needs: [two]
    prompt: Look at ${{ steps.two.output }}.
    inputs: ["${{ steps.two.output }}"]
    output: three.json
    final: true
`

func TestCarry(t *testing.T) {
	b := begin(t, three, fine)
	s := b.carry()
	b.want(s, run.Completed, "done", "one.1 two.1 three.1")
	if s.Tokens != 30 {
		t.Errorf("%d tokens", s.Tokens)
	}
	one, two, last := b.jobs[0], b.jobs[1], b.jobs[2]
	for _, want := range []string{"Read /flow/one.1/inputs/content.md in a tone of $(id) ${{ sandbox }}.", "- /flow/one.1/inputs/content.md\n", "the file /flow/one.1/outputs/one.json", "none of them null: good"} {
		if !strings.Contains(one.Prompt, want) {
			t.Errorf("the prompt lacks %q:\n%s", want, one.Prompt)
		}
	}
	if string(one.Files["inputs/content.md"]) != "what article says" || one.Agent != "mine" || one.Output != "outputs/one.json" {
		t.Errorf("the first job is %+v", one)
	}
	if two.Agent != flowplan.Shell || two.Command != `cat "$ONE" > "$BOTHY_OUTPUT"` || !slices.Contains(two.Env, "ONE=/flow/two.1/outputs/one.json") || !slices.Contains(two.Env, "TONE=$(id) ${{ sandbox }}") {
		t.Errorf("the second job is %+v", two)
	}
	if len(last.Files) != 1 || last.Files["outputs/two.json"] == nil {
		t.Errorf("the last job has the files %v", last.Files)
	}
	if got := b.read("outputs/three.json"); got != `{"good": true, "of": "outputs/three.json"}` {
		t.Errorf("the output is %s", got)
	}
	for log, job := range map[string]string{"query-one.1": "one.1", "two.1": "two.1"} { // an agent's is Looplia's
		if got := b.read("logs/" + log + ".log"); got != "working at /flow/"+job+"\n" {
			t.Errorf("the log %s is %s", log, got)
		}
	}
	var r struct {
		record
		Steps map[string]recordStep `json:"steps"`
	}
	must(t, json.Unmarshal([]byte(b.read("validation.json")), &r))
	if c := r.Steps["one"].Checks; len(c) != 2 || c[1] != (gate.Check{Name: "required_fields", Field: "good", Passed: true}) {
		t.Errorf("its checks are %+v", c)
	}
	if text := b.read("validation.json"); strings.Index(text, `"two": {`) > strings.Index(text, `"three": {`) { // in the order of the flow
		t.Errorf("its steps are\n%s", text)
	}
	if r.Workflow != "three" || r.FinalStep != "three" || r.Status != run.Completed || !r.Steps["one"].Validated || r.Steps["one"].Output != "outputs/one.json" || len(r.Steps["one"].SHA256) != 64 {
		t.Errorf("the record is %+v", r)
	}
	b.want(b.carry(), run.Completed, "done", "") // every step is done
}

// TestChanged checks that after a user changes files of a finished run, the steps that used them run
// again.
func TestChanged(t *testing.T) {
	b := begin(t, three, fine)
	b.carry()
	b.write("outputs/two.json", "{}")
	b.want(b.carry(), run.Completed, "done", "two.2 three.2")
	must(t, os.Remove(filepath.Join(b.run.Dir(), "outputs", "one.json")))
	b.want(b.carry(), run.Completed, "done", "one.2 two.3 three.3")
	b.write("inputs/content.md", "other")
	b.want(b.carry(), run.Completed, "done", "one.3 two.4 three.4")
	if got := string(b.jobs[0].Files["inputs/content.md"]); got != "other" {
		t.Errorf("it read %q", got)
	}
	must(t, os.Remove(filepath.Join(b.run.Dir(), "inputs", "content.md")))
	b.want(b.carry(), run.Failed, "error", "")
}

// TestReplaced checks that an output is made again after something replaced it, and that foreign files
// are not deleted.
func TestReplaced(t *testing.T) {
	deep := strings.ReplaceAll(three, "output: three.json", "output: deep/three.json")
	for name, replace := range map[string]func(path string) error{
		"link":      func(path string) error { return os.Symlink("/nowhere", path) },
		"loop":      func(path string) error { return os.Symlink(filepath.Base(path), path) },
		"pipe":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		"directory": func(path string) error { return os.MkdirAll(filepath.Join(path, "mine"), 0o700) },
		"large": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, gate.MaxBytes+1))
		},
		"parent": func(path string) error {
			dir := filepath.Dir(path)
			return errors.Join(os.Remove(dir), os.WriteFile(dir, []byte("mine"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := begin(t, deep, fine)
			b.want(b.carry(), run.Completed, "done", "one.1 two.1 three.1")
			path := filepath.Join(b.run.Dir(), "outputs", "deep", "three.json")
			must(t, os.Remove(path))
			must(t, replace(path))
			b.want(b.carry(), run.Completed, "done", "three.2")
			b.want(b.carry(), run.Completed, "done", "")
			if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
				t.Errorf("there is %v, %v", info, err)
			}
			aside, err := filepath.Glob(filepath.Join(b.run.Dir(), "outputs", "deep*", "*.aside-*", "mine"))
			must(t, err)
			files, err := filepath.Glob(filepath.Join(b.run.Dir(), "outputs", "deep.aside-*"))
			must(t, err)
			if kept := len(aside) + len(files); (kept == 1) != (name == "directory" || name == "parent") {
				t.Errorf("aside are %q, %q", aside, files)
			}
		})
	}
}

// TestSentBack checks that an agent is told of flaws as often as its retries allow.
func TestSentBack(t *testing.T) {
	answers := []Done{
		{Verdict: spec.VerdictOK, Missing: "the file is not there"},
		{Verdict: spec.VerdictOK, Output: []byte(`{"bad": 1}`)},
		{Verdict: spec.VerdictFailed, Error: "no model", Output: []byte(`{"good": 1}`)},
	}
	n := 0
	b := begin(t, three, func(job Job) Done { n++; return answers[n-1] })
	s := b.carry()
	b.want(s, run.Failed, "step", "one.1 one.2 one.3")
	if s.Step("two").Status != Passed || s.Step("one").Detail != "no model" {
		t.Errorf("one is %+v, two is %+v", s.Step("one"), s.Step("two"))
	}
	if !strings.Contains(b.jobs[1].Prompt, "- exists: the file is not there\n") || len(b.jobs[1].Drafts) != 0 {
		t.Errorf("at the second try it was told %s, with %v", b.jobs[1].Prompt, b.jobs[1].Drafts)
	}
	if !strings.Contains(b.jobs[2].Prompt, "- required_fields: the field good is missing\n") || string(b.jobs[2].Drafts["outputs/one.json"]) != `{"bad": 1}` {
		t.Errorf("at the third try it was told %s, with %v", b.jobs[2].Prompt, b.jobs[2].Drafts)
	}
	if b.read("logs/one.3.rejected") != `{"good": 1}` {
		t.Error("what was rejected is not kept")
	}
	b.do = fine // it has all its tries again
	b.want(b.carry(), run.Completed, "done", "one.4 two.1 three.1")
}

// TestSentBackAndCut interrupts the tries that follow a rejected one: the next try starts from the
// rejected document.
func TestSentBackAndCut(t *testing.T) {
	const flawed = `{"bad": 1}`
	ctx, cancel := context.WithCancelCause(t.Context())
	b := begin(t, three, nil)
	b.do = func(job Job) Done {
		if len(b.jobs) == 1 {
			return Done{Verdict: spec.VerdictOK, Output: []byte(flawed)}
		}
		cancel(&spec.Exited{Code: 130})
		return Done{Verdict: spec.VerdictOK, Missing: "the file is not there"}
	}
	s, c := b.carryIn(ctx)
	c.Host.Close()
	b.want(s, run.Interrupted, "signal", "one.1 one.2")
	b.do = func(job Job) Done {
		if got := string(job.Drafts["outputs/one.json"]); strings.HasSuffix(job.Place, "/one.3") && got != flawed {
			t.Errorf("after a try that was cut short it has the draft %q, and is told:\n%s", got, job.Prompt)
		}
		return fine(job)
	}
	b.want(b.carry(), run.Completed, "done", "one.3 two.1 three.1")
}

// TestLimit checks that a used-up allowance does not count as a try.
func TestLimit(t *testing.T) {
	n := 0
	b := begin(t, three, func(job Job) Done {
		if n++; n == 1 {
			return Done{Verdict: spec.VerdictLimit, Until: job.until()}
		}
		return fine(job)
	})
	s := b.carry()
	b.want(s, run.Completed, "done", "one.1 one.2 two.1 three.1")
	b = begin(t, three, fine)
	b.plan.Limits.Tokens = 15
	r, err := run.CreateFlow(filepath.Join(t.TempDir(), "runs"), "", "flow-2026-11-22-0002", b.plan, func(dir string) error {
		return Fill(dir, map[string][]byte{"content.md": []byte("x")})
	})
	must(t, err)
	b.run = r
	s = b.carry()
	b.want(s, run.Limited, "tokens", "one.1 two.1")
	if s.ExitCode() != spec.ExitLimit || !s.Final() {
		t.Errorf("exit code %d", s.ExitCode())
	}
	if end := s.Reached(); end == nil || end.Reason != "tokens" {
		t.Errorf("it has reached %+v", end)
	}
	h, _, err := b.run.Host()
	must(t, err)
	more := int64(100)
	_, err = h.Append(run.Raised, "ann", run.Limits{Tokens: &more})
	must(t, err)
	h.Close()
	if s = b.carry(); s.Reached() != nil {
		t.Errorf("it has reached %+v", s.Reached())
	}
	b.want(s, run.Completed, "done", "three.1")
}

// TestUnpriced checks an agent that is refused because its model has no price. With a limit in USD it is
// not sent back to be refused again until a person has fixed that.
func TestUnpriced(t *testing.T) {
	n := 0
	do := func(job Job) Done {
		if n++; n == 1 {
			return Done{Verdict: spec.VerdictFailed, Error: "403", Tokens: 7, Seen: &spec.BillItem{Answers: 1, Unpriced: 7}, Unlisted: true}
		}
		d := fine(job)
		d.USD = .1
		return d
	}
	b := begin(t, three, do)
	b.want(b.carry(), run.Completed, "done", "one.1 one.2 two.1 three.1")
	n = 0
	b = begin(t, three, do)
	b.plan.Limits.USD = 1
	r, err := run.CreateFlow(filepath.Join(t.TempDir(), "runs"), "", "flow-2026-11-22-0003", b.plan, func(dir string) error {
		return Fill(dir, map[string][]byte{"content.md": []byte("x")})
	})
	must(t, err)
	b.run = r
	s := b.carry()
	b.want(s, run.Failed, "unmetered", "one.1")
	if !strings.Contains(s.Detail, "no price") {
		t.Errorf("%s", s.Detail)
	}
	b.want(b.carry(), run.Completed, "done", "one.2 two.1 three.1")
}

// TestExcluded checks that a step's own condition may skip some of its times. The steps that need it do
// not miss them, as long as some times were done. A flow without any output says so.
func TestExcluded(t *testing.T) {
	for name, tt := range map[string]struct{ steps, reason, done string }{
		"one time":         {`{id: a, matrix: {x: [a, b]}, if: "matrix.x != 'b'", command: c}, {id: z, needs: [a], command: c, output: o, final: true}`, "done", "a.1.1 z.1"},
		"from an input":    {`{id: a, matrix: {x: {list: "${{ inputs.l }}"}}, if: "matrix.x != 'b'", command: c}, {id: z, needs: [a], if: success(), command: c, output: o, final: true}`, "done", "a.1.1 z.1"},
		"with a function":  {`{id: a, matrix: {x: [a, b]}, if: "always() && matrix.x != 'b'", command: c}, {id: z, needs: [a], command: c, output: o, final: true}`, "done", "a.1.1 z.1"},
		"by its status":    {`{id: a, matrix: {x: [a, b]}, if: "matrix.x != 'b'", command: c}, {id: z, needs: [a], if: "steps.a.status == 'completed'", command: c, output: o, final: true}`, "done", "a.1.1 z.1"},
		"all times":        {`{id: a, matrix: {x: [a, b]}, if: "matrix.x == 'c'", command: c}, {id: z, needs: [a], command: c}`, "done", ""},
		"all, by status":   {`{id: a, matrix: {x: [a, b]}, if: "matrix.x == 'c'", command: c}, {id: z, needs: [a], if: "always() && steps.a.status == 'skipped'", command: c}`, "done", "z.1"},
		"all, and final":   {`{id: a, matrix: {x: [a, b]}, if: "matrix.x == 'c'", command: c}, {id: z, needs: [a], command: c, output: o, final: true}`, ReasonNoOutput, ""},
		"a step":           {`{id: a, if: "inputs.l == 'x'", command: c}, {id: z, needs: [a], command: c, output: o, final: true}`, ReasonNoOutput, ""},
		"a final step":     {`{id: a, command: c}, {id: z, needs: [a], if: failure(), command: c, output: o, final: true}`, ReasonNoOutput, "a.1"},
		"times of it":      {`{id: z, matrix: {x: [a, b]}, if: "matrix.x != 'b'", command: c, output: "${{ matrix.x }}", final: true}`, "done", "z.1.1"},
		"by what it needs": {`{id: a, if: "inputs.l == 'x'", command: c}, {id: m, needs: [a], matrix: {x: [a, b]}, if: "always() && (matrix.x == 'a' || steps.a.status == 'completed')", command: c}, {id: z, needs: [m], command: c}`, "done", "m.1.1"},
		"a copy":           {`{id: a, matrix: {x: [a, b]}, if: "matrix.x != 'b'", copy: true, prompt: p}, {id: g, of: a, command: c}, {id: z, needs: [g], command: c, output: o, final: true}`, "done", "a.1.1 g.1.1 z.1"},
	} {
		t.Run(name, func(t *testing.T) {
			b := begin(t, "name: x\ninputs: [{name: l, default: \"a, b\"}]\nsteps: ["+tt.steps+"]\n", fine)
			s := b.carry()
			b.want(s, run.Completed, tt.reason, tt.done)
			if want := map[bool]int{true: spec.ExitOK, false: spec.ExitPartly}[tt.reason == "done"]; s.ExitCode() != want || !s.Over() {
				t.Errorf("its code is %d, over is %t", s.ExitCode(), s.Over())
			}
			b.want(b.carry(), run.Completed, tt.reason, "")
		})
	}
}

const decided = `
name: decided
steps:
  - {id: work, command: do it, output: a.txt}
  - {id: good, needs: [work], approval: {message: "Is ${{ steps.work.output }} good?"}}
  - {id: publish, needs: [good], command: publish}
  - {id: sorry, needs: [publish], if: "failure()", command: say sorry}
  - {id: other, command: do something else}
  - {id: clean, needs: [publish, other], if: always(), command: clean up}
`

func TestApproval(t *testing.T) {
	b := begin(t, decided, fine)
	s := b.carry()
	b.want(s, run.Waiting, "approval", "work.1 other.1")
	if want := "good: Is " + b.run.Dir() + "/outputs/a.txt good?"; s.ExitCode() != spec.ExitWaiting || s.Detail != want {
		t.Errorf("code %d, %s, not %s", s.ExitCode(), s.Detail, want)
	}
	b.want(b.carry(), run.Waiting, "approval", "")
	b.answer("", true)
	if s = b.carry(); s.Step("good").Detail != "approved by ann: because" || s.Step("sorry").Status != Passed {
		t.Errorf("good is %+v, sorry %+v", s.Step("good"), s.Step("sorry"))
	}
	b.want(s, run.Completed, "done", "publish.1 clean.1")

	b.write("outputs/a.txt", "other") // the new document needs a new decision
	b.want(b.carry(), run.Waiting, "approval", "work.2")
	b.write("outputs/a.txt", "yet another")
	h, events, err := b.run.Host()
	must(t, err)
	if _, err := (&Person{Plan: b.plan, Run: b.run, Host: h, Events: events, Name: "ann"}).Decide("good", true, ""); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("what nobody made was approved: %v", err)
	}
	h.Close()
	b.want(b.carry(), run.Waiting, "approval", "work.3")
	b.answer("good", false)
	s = b.carry()
	b.want(s, run.Failed, "rejected", "sorry.1 clean.2")
	b.want(b.carry(), run.Waiting, "approval", "") // the next carrier asks again
}

// TestQuestion checks that a person's answer is judged like any document.
func TestQuestion(t *testing.T) {
	b := begin(t, `
name: asked
steps:
  - {id: tone, question: {message: "In which tone?"}, output: tone.txt, validate: {pattern: '^(dry|warm)$'}}
  - {id: good, approval: {message: "Is that good?"}}
  - {id: draft, needs: [tone], prompt: "Write it as ${{ steps.tone.output }} says", output: draft.txt}
`, fine)
	s := b.carry()
	b.want(s, run.Waiting, "question", "")
	h, events, err := b.run.Host()
	must(t, err)
	p := &Person{Plan: b.plan, Run: b.run, Host: h, Events: events, Name: "ann"}
	if _, err := p.Answer("", "loud"); !errors.Is(err, spec.ErrUsage) {
		t.Errorf("loud is a tone: %v", err)
	}
	if _, err := p.Answer("good", "dry"); !errors.Is(err, spec.ErrUsage) {
		t.Errorf("an approval was answered: %v", err)
	}
	if _, err := p.Decide("tone", true, ""); !errors.Is(err, spec.ErrUsage) {
		t.Errorf("a question was approved: %v", err)
	}
	s, err = p.Answer("", "dry")
	must(t, err)
	h.Close()
	if st := s.Step("tone"); st.Status != run.Completed || st.Detail != "answered by ann" || b.read("outputs/tone.txt") != "dry" || s.Reason != "question" {
		t.Errorf("tone is %+v, the flow %s", st, s.Reason)
	}
	b.want(b.carry(), run.Waiting, "approval", "draft.1")
	if string(b.jobs[0].Files["outputs/tone.txt"]) != "dry" {
		t.Errorf("it got %v", b.jobs[0].Files)
	}
	b.answer("", true)
	b.want(b.carry(), run.Completed, "done", "")
}

// TestTorn lets the host die after any of its events: the next carrier runs only the steps without a
// result.
func TestTorn(t *testing.T) {
	b := begin(t, three, fine)
	b.carry()
	file := filepath.Join(b.run.Dir(), "events.jsonl")
	whole := []byte(b.read("events.jsonl"))
	lines := bytes.SplitAfter(whole, []byte("\n"))
	all := []string{"one", "two", "three"}
	for n := range lines {
		must(t, os.WriteFile(file, bytes.Join(lines[:n], nil), 0o600))
		events, err := b.run.Events()
		must(t, err)
		before, err := Fold(b.plan, events)
		must(t, err)
		var want []string
		for _, id := range all {
			if st := before.Step(id); st.Status != run.Completed {
				want = append(want, fmt.Sprintf("%s.%d", id, st.Attempts+1))
			}
		}
		b.want(b.carry(), run.Completed, "done", strings.Join(want, " "))
	}
}

// TestAnotherDay lets the host die after any event. Another host continues three days later, or by a
// clock that was set back by as much. Finished steps stay, and the time between the carriers does not
// count.
func TestAnotherDay(t *testing.T) {
	for _, ago := range []time.Duration{72 * time.Hour, -72 * time.Hour} {
		b := begin(t, three, fine)
		b.carry()
		lines := strings.SplitAfter(strings.TrimSuffix(b.read("events.jsonl"), "\n"), "\n")
		for n := range lines {
			var moved strings.Builder
			for _, line := range lines[:n] {
				var ev run.Event
				must(t, json.Unmarshal([]byte(line), &ev))
				ev.Time = ev.Time.Add(-ago)
				text, err := ev.Line()
				must(t, err)
				moved.Write(text)
			}
			b.write("events.jsonl", moved.String())
			s := b.carry()
			if s.Status != run.Completed || time.Duration(s.Elapsed) > time.Hour || s.Elapsed < 0 {
				t.Errorf("%s, after %d events: it is %s (%s), after %s", ago, n, s.Status, s.Detail, time.Duration(s.Elapsed))
			}
			if one := strings.Contains(b.steps(), "one."); one == strings.Contains(moved.String(), `"worked"`) {
				t.Errorf("%s, after %d events: %s", ago, n, b.steps())
			}
		}
	}
}

// TestBuild checks that a drafted flow that is invalid at first is sent back.
func TestBuild(t *testing.T) {
	f, files, err := flowplan.Builder()
	must(t, err)
	p := &flowplan.Plan{Flow: f, Agent: "mine", Values: map[string]string{"description": "${{ sandbox }}"}, Drafts: true}
	for name := range files {
		p.Files = append(p.Files, name)
	}
	must(t, p.Check(files))
	r, err := run.CreateFlow(filepath.Join(t.TempDir(), "runs"), "", "build-2026-11-22-0001", p, func(dir string) error { return Fill(dir, files) })
	must(t, err)
	b := &bench{t: t, plan: p, run: r, busy: map[string]bool{}}
	b.do = func(Job) Done {
		text := "name: n\nsteps: [{id: a, command: 'echo ${{ inputs.x }}'}]\n"
		if len(b.jobs) > 1 {
			text = "name: n\nsteps: [{id: a, command: 'true'}]\n"
		}
		return Done{Verdict: spec.VerdictOK, Output: []byte(text)}
	}
	b.want(b.carry(), run.Completed, "done", "draft.1 draft.2")
	if !strings.Contains(b.jobs[0].Prompt, "\n${{ sandbox }}\n") || !strings.Contains(b.jobs[0].Prompt, "/flow/draft.1/inputs/schema.json; /flow/draft.1/inputs/writing-kit.yaml") {
		t.Errorf("it is told %s", b.jobs[0].Prompt)
	}
	if !strings.Contains(b.jobs[1].Prompt, "step a: command: ${{ }} is not put into the text of a command") {
		t.Errorf("at the second try it is told %s", b.jobs[1].Prompt)
	}
}

// TestStopped checks that a stop ends the running step at once.
func TestStopped(t *testing.T) {
	b := begin(t, three, nil)
	b.do = func(Job) Done {
		must(t, b.run.Leave(run.Message{Kind: run.Stop, Actor: "ann"}))
		return Done{Verdict: spec.VerdictFailed}
	}
	s := b.carry()
	if s.Status != run.Cancelled || s.ExitCode() != spec.ExitCancelled {
		t.Errorf("it is %s", s.Status)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	b = begin(t, three, func(Job) Done { cancel(&spec.Exited{Code: 130}); return Done{Verdict: spec.VerdictOK} })
	h, events, err := b.run.Host()
	must(t, err)
	s, err = (&Carrier{Plan: b.plan, Run: b.run, Host: h, Runner: b}).Carry(ctx, events)
	must(t, err)
	h.Close()
	if s.Status != run.Interrupted || s.ExitCode() != 130 {
		t.Errorf("it is %s, code %d", s.Status, s.ExitCode())
	}
	b.do = fine
	b.want(b.carry(), run.Completed, "done", "one.2 two.1 three.1")
}

// TestRandom carries on random flows, with jobs that fail at random and hosts that die at random.
func TestRandom(t *testing.T) {
	racetest.Skip(t)
	for seed := range 20 {
		r := rand.New(rand.NewPCG(2, uint64(seed)))
		b := beginWith(t, randomFlow(r), map[string]string{"list.json": `[{"id": "v"}, {"id": "w"}, {"id": "x"}, {"id": "y"}, {"id": "z", "passes": true}]`}, nil)
		bad := []int{5, 5, 2, 1}[seed%4] // in some flows no agent does anything
		b.do = func(job Job) Done {
			if r.IntN(bad) == 0 {
				return Done{Verdict: spec.VerdictFailed, Error: "no", Missing: "not there"}
			}
			if r.IntN(8) == 0 {
				return Done{Verdict: spec.VerdictOK, Missing: "not there"}
			}
			return fine(job)
		}
		s := b.carry()
		for range 6 {
			check(t, b, s)
			switch r.IntN(4) {
			case 0: // the host died
				lines := bytes.SplitAfter([]byte(b.read("events.jsonl")), []byte("\n"))
				b.write("events.jsonl", string(bytes.Join(lines[:r.IntN(len(lines))], nil)))
			case 1: // the user changes an output
				if list, _ := filepath.Glob(filepath.Join(b.run.Dir(), "outputs", "*")); len(list) > 0 {
					must(t, os.WriteFile(list[r.IntN(len(list))], []byte("changed"), 0o600))
				}
			}
			if s.Status == run.Waiting && len(s.Questions()) > 0 {
				if h, events, err := b.run.Host(); err == nil {
					_, err = (&Person{Plan: b.plan, Run: b.run, Host: h, Events: events, Name: "ann"}).Decide(s.Questions()[0].ID, r.IntN(3) > 0, "")
					h.Close()
					if err != nil && !errors.Is(err, spec.ErrConflict) && !errors.Is(err, spec.ErrNotFound) {
						t.Fatal(err)
					}
				}
			}
			s = b.carry()
		}
	}
}

// someOf names some of the steps before one.
func someOf(r *rand.Rand, i int) string {
	var list []string
	for k := range i {
		if r.IntN(3) == 0 {
			list = append(list, fmt.Sprintf("s%d", k))
		}
	}
	return strings.Join(list, ", ")
}

func randomFlow(r *rand.Rand) string {
	var out strings.Builder
	out.WriteString("name: random\ninputs: [{name: list, file: list.json, required: true}]\nsteps:\n")
	for i := range 2 + r.IntN(8) {
		if r.IntN(5) == 0 {
			fmt.Fprintf(&out, `  - id: s%[1]d
    needs: [%[2]s]
    each: list
    steps:
      - {id: s%[1]da, prompt: do it, output: "s%[1]d-a${{ each.number }}.json"}
      - {id: s%[1]db, needs: [s%[1]da], command: do it, output: "s%[1]d-b${{ each.number }}.json"}
      - {id: s%[1]dc, needs: [s%[1]db], command: do it, back: {to: s%[1]da, times: 2}}
      - {id: s%[1]dd, needs: [s%[1]dc], %[3]s, back: {to: s%[1]da}}
`, i, someOf(r, i), []string{"command: do it", "approval: {message: good}"}[r.IntN(2)])
			continue
		}
		fmt.Fprintf(&out, "  - id: s%d\n    needs: [%s]\n", i, someOf(r, i))
		if k := r.IntN(8); k < 3 {
			fmt.Fprintf(&out, "    if: %s()\n", []string{"always", "failure", "success"}[k])
		}
		switch r.IntN(5) {
		case 0:
			out.WriteString("    approval: {message: good}\n")
		case 1:
			out.WriteString("    command: do it\n")
		case 2:
			fmt.Fprintf(&out, "    command: do it\n    retry: 1\n    matrix: {m: [a, b]}\n    output: s%d-${{ matrix.m }}.json\n", i)
		default:
			fmt.Fprintf(&out, "    prompt: do it\n    output: s%d.json\n", i)
		}
	}
	return out.String()
}

// check verifies that the state of a flow is consistent.
func check(t *testing.T, b *bench, s *State) {
	t.Helper()
	events, err := b.run.Events()
	must(t, err)
	again, err := Fold(b.plan, events)
	must(t, err)
	if again.Status != s.Status || len(s.Steps) != len(again.Steps) {
		t.Fatalf("it is %s, and by its events %s", s.Status, again.Status)
	}
	open, given := false, s.Reason == ReasonAgent // up
	for i, st := range s.Steps {
		n := s.nodes[i]
		if again.Steps[i].Status != st.Status {
			t.Fatalf("%s is %s, and by the events %s", st.ID, st.Status, again.Steps[i].Status)
		}
		waits := false
		for _, id := range n.Needs {
			if need := s.byID[id]; !need.settled() {
				waits = true
			} else if st.settled() && need.done >= st.done {
				t.Fatalf("%s was settled before %s, which it needs", st.ID, id)
			}
		}
		for _, other := range s.nodes[:i] {
			waits = waits || n.Group != "" && other.Group == n.Group && other.Number < n.Number && !s.byID[other.ID].settled()
		}
		if st.Rounds > 2 {
			t.Fatalf("%s was sent back %d times", st.ID, st.Rounds)
		}
		open = open || st.Status == run.Waiting
		if !st.settled() && st.Status != run.Waiting && !waits && !given {
			t.Fatalf("%s is %s, and nothing is missing", st.ID, st.Status)
		}
		if st.Status == run.Completed && n.Output != "" && flowplan.HashOf([]byte(b.read("outputs/"+n.Output))) != st.Output.SHA256 {
			t.Fatalf("the output of %s is not what was validated", st.ID)
		}
		if st.tries > n.Step.Retries()+1 {
			t.Fatalf("%s was tried %d times", st.ID, st.tries)
		}
	}
	if open != (s.Status == run.Waiting) && !given {
		t.Fatalf("it is %s", s.Status)
	}
}
