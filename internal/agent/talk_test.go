package agent

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/agent/transcript"
	"github.com/bothy-dev/bothy/spec"
)

var update = flag.Bool("update", false, "write what is told into testdata/talk")

// TestTalk reads what the real agents printed (AGENT-output…) and kept
// (AGENT-transcript…), recorded by test/agents, and compares what is told.
func TestTalk(t *testing.T) {
	files, err := filepath.Glob("testdata/talk/*.jsonl")
	must(t, err)
	recorded := 0
	for _, file := range files {
		base := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		if strings.HasSuffix(base, ".events") {
			continue
		}
		recorded++
		name, what, _ := strings.Cut(base, "-")
		t.Run(base, func(t *testing.T) {
			text, err := os.ReadFile(file)
			must(t, err)
			compareTold(t, told(t, rulesFor(t, name, what), text), strings.TrimSuffix(file, ".jsonl")+".events.jsonl")
		})
	}
	if recorded == 0 {
		t.Error("nothing is recorded")
	}
}

// rulesFor are those of an agent for what it printed, or for what it kept.
func rulesFor(t *testing.T, name, what string) *transcript.Rules {
	t.Helper()
	a, err := NewCatalog("").Find(name)
	must(t, err)
	var rules *transcript.Rules
	if strings.HasPrefix(what, "output") {
		rules, err = transcript.ForOutput(a.Headless)
	} else {
		rules, err = transcript.ForTranscript(a.Transcript)
	}
	must(t, err)
	return rules
}

func told(t *testing.T, rules *transcript.Rules, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	r := transcript.NewReader(rules, func(ev spec.TranscriptEvent) error {
		if ev.Kind == spec.TalkUnknown {
			t.Errorf("unknown (%s): %s%s", ev.Cause, ev.Raw, ev.Text)
		}
		return e.Encode(ev)
	})
	_, err := r.Write(text)
	must(t, err)
	must(t, r.Close())
	return out.Bytes()
}

func compareTold(t *testing.T, got []byte, golden string) {
	t.Helper()
	if *update {
		must(t, os.WriteFile(golden, got, 0o644))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("told is\n%s\nwanted was\n%s", got, want)
	}
}
