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
func TestFlowGemini(t *testing.T) { flows(t, gemini) }

// flows: an agent makes Looplia's writing kit, and is sent back once for the quotes that
// it forgot, as the example plays it.
func flows(t *testing.T, a cli) {
	t.Helper()
	played, err := os.ReadFile(filepath.Join("..", "..", "examples", "flows", "writing-kit.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	kit, err := os.ReadFile(filepath.Join("..", "..", "internal", "flow", "shipped", "writing-kit.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(kit), "    prompt: |", "    model: "+a.model+"\n    prompt: |")
	inWorld(t, a, string(played), func(t *testing.T, w *world) {
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
