package agents

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/harness"
)

// shipped returns a flow that comes with bothy, and the model's script in its example.
func shipped(t *testing.T, name string) (text, played string) {
	t.Helper()
	return read(t, "internal", "flow", "flowplan", "shipped", name+".yaml"), read(t, "examples", "flows", name+".yaml")
}

// read returns a file of this repository.
func read(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestFlowCodex has an agent make the writing kit that comes with bothy. Its work is rejected once for
// the quotes that it forgot, as in the example.
func TestFlowCodex(t *testing.T) {
	harness.Sweep(t, "agents")
	kit, played := shipped(t, "writing-kit")
	text := strings.ReplaceAll(kit, "    prompt: |", "    model: "+codex.model+"\n    prompt: |")
	inWorld(t, codex, played, func(t *testing.T, w *world) {
		w.madeKit(t, w.kit(t, "writing-kit.yaml", text))
	})
}

// TestFlowClaude does the same with a workflow in the format of Looplia. Its results are where Looplia
// puts them. A resumed run does not repeat validated steps.
func TestFlowClaude(t *testing.T) {
	harness.AsRoot(t)
	_, played := shipped(t, "writing-kit")
	text := read(t, "examples", "flows", "writing-kit.md")
	inWorld(t, claude, played+drafted, func(t *testing.T, w *world) {
		run := w.kit(t, "writing-kit.md", text)
		if !regexp.MustCompile(`^my-article-\d{4}-\d\d-\d\d-[0-9a-f]{4}$`).MatchString(run) {
			t.Errorf("the run is called %q", run)
		}
		dir := filepath.Join(w.State, "runs", run)
		w.looplias(t, dir)
		for _, q := range w.heard(t, "Analyse") {
			if !strings.Contains(q.Model, "haiku") {
				t.Errorf("the workflow wants haiku, and %q was asked", q.Model)
			}
		}
		asked := len(w.model.Requests())
		if err := os.Remove(filepath.Join(dir, "outputs", "writing-kit.json")); err != nil {
			t.Fatal(err)
		}
		if r := w.within(t, "flow", "resume", run); r.Code != 0 || strings.Contains(r.Stderr, "step summary") || strings.Contains(r.Stderr, "step ideas") {
			t.Errorf("it is gone on with: %v", r)
		}
		for _, q := range w.model.Requests()[asked:] {
			if q.Turn >= 0 && !strings.Contains(q.Prompt, "Put together") {
				t.Errorf("what was validated is asked for again: %s", q.Prompt)
			}
		}
		w.drafts(t)
		w.madeKit(t, run)
	})
}

// drafted is another conversation: the user wants a flow.
const drafted = `
  - match: Write a flow for this
    turns:
      - tools: [{run_command: {command: "echo '{name: hello, steps: [{id: a, command: echo hello}]}' > \"$BOTHY_OUTPUT\""}}]
      - {text: There it is.}
`

// drafts has the agent draft a flow, and checks that the conversation is stored where Looplia stores it.
func (w *world) drafts(t *testing.T) {
	t.Helper()
	file := filepath.Join(w.Base, "drafted.yaml")
	r := w.within(t, "flow", "build", "--agent", w.cli.name, "say hello", file)
	run := strings.TrimSpace(r.Stdout)
	if r.Code != 0 || !regexp.MustCompile(`^build-\d{4}-\d\d-\d\d-[0-9a-f]{4}$`).MatchString(run) {
		t.Fatalf("%v\nthe model was asked\n%s", r, summary(w.model.Requests()))
	}
	log, err := os.ReadFile(filepath.Join(w.State, "runs", run, "logs", "query-draft.1.log"))
	if err != nil || !strings.Contains(string(log), "There it is.") {
		t.Errorf("%v: %s", err, log)
	}
	if out := w.Must(t, "flow", "show", file); !strings.Contains(out, "a command") {
		t.Errorf("the draft is %s", out)
	}
}

// kit has a flow make a writing kit, and returns its run. The agent's work is rejected once.
func (w *world) kit(t *testing.T, name, text string, flags ...string) (run string) {
	t.Helper()
	file := w.Write(t, filepath.Join(w.Base, name), text)
	article := w.Write(t, filepath.Join(w.Base, "my-article.md"), "# What a bothy is\n")
	r := w.within(t, slices.Concat([]string{"flow", "run", "--agent", w.cli.name, "--file", article}, w.cli.flags, flags, []string{file})...)
	if r.Code != 0 {
		t.Fatalf("%v\nthe model was asked\n%s", r, summary(w.model.Requests()))
	}
	if n := strings.Count(r.Stderr, ": sent back: "); n != 1 || !strings.Contains(r.Stderr, "step summary: sent back: min_quotes: importantQuotes has 0 items, at least 3 are wanted") {
		t.Errorf("it was sent back %d times: %s", n, r.Stderr)
	}
	return strings.TrimSpace(r.Stdout)
}

// looplias checks that the directory of a run is as in Looplia's documentation.
func (w *world) looplias(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"inputs/content.md", "outputs/summary.json", "outputs/ideas.json", "outputs/writing-kit.json", "logs/query-summary.1.log", "logs/summary.1.rejected", "logs/query-summary.2.log"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	var v struct {
		Workflow, Version, SandboxID, FinalStepID string
		Steps                                     map[string]struct {
			Output    string
			Validated bool
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "validation.json"))
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil || v.Workflow != "writing-kit" || v.Version != "1.2.0" || v.SandboxID != filepath.Base(dir) || v.FinalStepID != "writing-kit" || len(v.Steps) != 3 {
		t.Errorf("%v: %s", err, b)
	}
	for id, step := range v.Steps {
		if step.Output != "outputs/"+id+".json" || !step.Validated {
			t.Errorf("the step %s is %+v", id, step)
		}
	}
}

// madeKit checks that the kit of a run is complete, and that the agent contacted only its provider.
func (w *world) madeKit(t *testing.T, run string) {
	t.Helper()
	out, err := os.ReadFile(filepath.Join(w.State, "runs", run, "outputs", "writing-kit.json"))
	if err != nil {
		t.Fatal(err)
	}
	var kit struct {
		Summary struct {
			Quotes []string `json:"importantQuotes"`
		} `json:"summary"`
		Ideas struct {
			Hooks []string `json:"hooks"`
		} `json:"ideas"`
	}
	if err := json.Unmarshal(out, &kit); err != nil || len(kit.Summary.Quotes) != 3 || len(kit.Ideas.Hooks) != 1 {
		t.Errorf("%v: %s", err, out)
	}
	for _, words := range []string{"Analyse", "make ideas", "Put together"} {
		w.heard(t, words)
	}
	w.onlyProvider(t)
	harness.AbsentInProcesses(t, w.key)
	w.absentInFiles(t)
}

// TestStories runs the second seed's loop, with its roles, over the stories of a prd.json: the checks
// reject one, the judge rejects one, and one is left to a person, as in the example. Codex implements
// and Claude does the rest, as there: each in a sandbox of its own, with its own key, for as long as the
// loop takes.
func TestStories(t *testing.T) {
	harness.Sweep(t, "agents")
	text, played := shipped(t, "test-first")
	stories := read(t, "examples", "flows", "prd.json")
	inWorldOf(t, []cast{{claude, played}, {codex, played}}, func(t *testing.T, w *world) {
		prd := w.Write(t, filepath.Join(w.Base, "prd.json"), stories)
		file := w.Write(t, filepath.Join(w.Base, "test-first.yaml"), text)
		r := w.within(t, "flow", "run", "--rm", "--agent", "claude", "--input", "implementor=codex", "--file", prd,
			"--input", "test=for t in test-*.sh; do sh $t || exit 1; done", file, w.Work)
		if r.Code != spec.ExitPartly || !strings.Contains(r.Stderr, "completed (skipped)") {
			t.Fatalf("%v\nthe models were asked\n%s%s", r, summary(w.model.Requests()), summary(w.mates[0].model.Requests()))
		}
		if got := w.read(t, "add.sh"); got != "echo $(($1 + $2))\n" {
			t.Errorf("the third story is %q", got)
		}
		w.read(t, "test-sing.sh.skipped")
		for role, of := range map[string]*world{"planner": w, "test writer": w, "implementor": w.mates[0], "reviewer": w} {
			of.heard(t, "You are the "+role)
			for _, one := range append([]*world{w}, w.mates...) {
				for _, q := range one.model.Requests() {
					if one != of && q.Turn >= 0 && strings.Contains(q.Prompt, "You are the "+role) {
						t.Errorf("%s was asked to be the %s", one.cli.name, role)
					}
				}
			}
		}
		if out := w.Must(t, "ls", "-q"); out != "" {
			t.Errorf("there are still sandboxes: %s", out)
		}
		w.Must(t, "flow", "rm", strings.TrimSpace(r.Stdout))
		w.ofEach(t, "You are the ")
	})
}

// aTry is one of several tries: it continues from a sandbox's changes to the project.
const aTry = `
conversations:
  - match: Do this in the project
    turns:
      - tools: [{run_command: {command: "sed 's/$/ and WHO/' WORK/begun > WORK/done && echo I did it > \"$BOTHY_OUTPUT\""}}]
      - {text: It is changed.}
`

// TestBestChange runs the best of two, a flow that comes with bothy. Claude and Codex, each with its
// model, continue from a fork of the same sandbox, the test accepts one of them, and a person applies
// that.
func TestBestChange(t *testing.T) {
	harness.Sweep(t, "agents")
	text, _ := shipped(t, "best-change")
	inWorldOf(t, []cast{{claude, strings.ReplaceAll(aTry, "WHO", "claude")}, {codex, strings.ReplaceAll(aTry, "WHO", "codex")}}, func(t *testing.T, w *world) {
		file := w.Write(t, filepath.Join(w.Base, "best-change.yaml"), text)
		w.Must(t, "create", "--name", box, "--workspace", "review", "shell", w.Work)
		w.Must(t, "exec", box, "sh", "-c", "echo begun > begun")
		r := w.within(t, "flow", "run", "--fork", box, "--input", "n=2", "--input", "agents=claude,codex", "--input", "models="+claude.model+","+codex.model,
			"--input", "task=Say who is done", "--input", "test=grep -qx 'begun and codex' done", file, w.Work)
		if r.Code != 0 {
			t.Fatalf("%v\nthe models were asked\n%s%s", r, summary(w.model.Requests()), summary(w.mates[0].model.Requests()))
		}
		run := strings.TrimSpace(r.Stdout)
		best, err := os.ReadFile(filepath.Join(w.State, "runs", run, "outputs", "best.txt"))
		if err != nil || string(best) != "try.2\n" {
			t.Errorf("the best is %q: %v", best, err)
		}
		for _, of := range []*world{w, w.mates[0]} {
			for _, q := range of.heard(t, "Do this in the project") {
				if q.Model != of.cli.model {
					t.Errorf("%s asks %s, not %s", of.cli.name, q.Model, of.cli.model)
				}
			}
		}
		w.Must(t, "apply", run+"-try.2")
		if got := w.read(t, "done"); got != "begun and codex\n" {
			t.Errorf("what is applied is %q", got)
		}
		w.ofEach(t, "Do this in the project")
	})
}
