package agents

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
)

func TestFlowClaude(t *testing.T) { flows(t, claude) }
func TestFlowCodex(t *testing.T)  { flows(t, codex) }

// shipped is a flow that comes with bothy, and what a model says in its example.
func shipped(t *testing.T, name string) (text, played string) {
	t.Helper()
	return read(t, "internal", "flow", "shipped", name+".yaml"), read(t, "examples", "flows", name+".yaml")
}

// read gives a file of this repository.
func read(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// flows: an agent makes Looplia's writing kit, and is sent back once for the quotes that
// it forgot, as the example plays it.
func flows(t *testing.T, a cli) {
	t.Helper()
	kit, played := shipped(t, "writing-kit")
	text := strings.ReplaceAll(kit, "    prompt: |", "    model: "+a.model+"\n    prompt: |")
	inWorld(t, a, played, func(t *testing.T, w *world) {
		file := w.Write(t, filepath.Join(w.Base, "kit.yaml"), text)
		article := w.Write(t, filepath.Join(w.Base, "article.md"), "# What a bothy is\n")
		args := slices.Concat([]string{"flow", "run", "--agent", a.name, "--file", article}, a.flags)
		r := w.within(t, append(args, file)...)
		if r.Code != 0 {
			t.Fatalf("%v\nthe model was asked\n%s", r, summary(w.model.Requests()))
		}
		run := strings.TrimSpace(r.Stdout)
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
	})
}

// TestStories: the second seed's loop, with its roles, over the stories of a prd.json:
// one that comes back from the checks, one that comes back from the judge, and one that
// is left to a person, as the example plays them.
func TestStories(t *testing.T) {
	text, played := shipped(t, "test-first")
	stories := read(t, "examples", "flows", "prd.json")
	inWorld(t, claude, played, func(t *testing.T, w *world) {
		prd := w.Write(t, filepath.Join(w.Base, "prd.json"), stories)
		file := w.Write(t, filepath.Join(w.Base, "test-first.yaml"), text)
		r := w.within(t, "flow", "run", "--rm", "--agent", "claude", "--file", prd,
			"--input", "test=for t in test-*.sh; do sh $t || exit 1; done", file, w.Work)
		if r.Code != 1 || !strings.Contains(r.Stderr, "completed (skipped)") {
			t.Fatalf("%v\nthe model was asked\n%s", r, summary(w.model.Requests()))
		}
		if got := w.read(t, "add.sh"); got != "echo $(($1 + $2))\n" {
			t.Errorf("the third story is %q", got)
		}
		w.read(t, "test-sing.sh.skipped")
		w.heard(t, "You are the reviewer")
		w.Must(t, "flow", "rm", strings.TrimSpace(r.Stdout))
		if out := w.Must(t, "ls", "-q"); out != "" {
			t.Errorf("there are still sandboxes: %s", out)
		}
		w.onlyProvider(t)
		harness.AbsentInProcesses(t, w.key)
		w.absentInFiles(t)
	})
}
