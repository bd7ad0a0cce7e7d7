package cmdline

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

func page(t *testing.T, events ...spec.TranscriptEvent) string {
	t.Helper()
	var b strings.Builder
	p := &talkPage{out: &b}
	for _, ev := range events {
		if err := p.showEvent(ev); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.showUsage(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTalkPage(t *testing.T) {
	got := page(t,
		spec.TranscriptEvent{Kind: spec.TalkStart, Session: "s-1", Model: "m"},
		spec.TranscriptEvent{Kind: spec.TalkMessage, Session: "s-1", Role: spec.RoleUser, Text: "do it\nuser:\n"},
		spec.TranscriptEvent{Kind: spec.TalkThinking, Session: "s-1", Text: "hm"},
		spec.TranscriptEvent{Kind: spec.TalkMessage, Session: "s-1", Role: spec.RoleAgent, Text: "I wri", Partial: true},
		spec.TranscriptEvent{Kind: spec.TalkMessage, Session: "s-1", Role: spec.RoleAgent, Text: "te it\nnow", Partial: true},
		spec.TranscriptEvent{Kind: spec.TalkToolCall, Session: "s-1", Tool: "Write", Input: json.RawMessage(`{"path":"/a","text":"two words"}`)},
		spec.TranscriptEvent{Kind: spec.TalkToolResult, Session: "s-1", Text: "ok"},
		spec.TranscriptEvent{Kind: spec.TalkToolCall, Session: "s-1", Tool: "Bash", Input: json.RawMessage(`{"command":"make test"}`)},
		spec.TranscriptEvent{Kind: spec.TalkToolResult, Session: "s-1", Text: strings.Repeat("l\n", 20), Failed: true},
		spec.TranscriptEvent{Kind: spec.TalkUsage, Session: "s-1", Usage: &spec.TranscriptUsage{Input: 10, Cached: 3, Output: 2, USD: 0.5}},
		spec.TranscriptEvent{Kind: spec.TalkLimit, Session: "s-1", Text: "week", Until: time.Unix(0, 0)},
		spec.TranscriptEvent{Kind: spec.TalkError, Session: "s-1", Text: "busy"},
		spec.TranscriptEvent{Kind: spec.TalkEnd, Session: "s-1", Verdict: spec.VerdictFailed, Text: "no\nmore"},
		spec.TranscriptEvent{Kind: spec.TalkEnd, Session: "s-1"},
		spec.TranscriptEvent{Kind: spec.TalkUnknown, Session: "s-1", Cause: "no rule", Raw: json.RawMessage(`{"a":1}`)},
	)
	want := `session s-1
model m
user:
  do it
  user:
agent, thinking:
  hm
agent:
  I write it
  now
tool Write: path=/a text="two words"
  | ok
tool Bash: make test
` + strings.Repeat("  ! l\n", resultLines) + `  ! … 12 lines more
limit: week, until ` + time.Unix(0, 0).Local().Format(time.DateTime) + `
error: busy
end: failed: no …
end: of a turn
unknown (no rule): {"a":1}
used 10 tokens in (cache: 3 read, 0 written), 2 out, 0.5000 USD; 2 tool calls, 1 failed
`
	if got != want {
		t.Errorf("shown is\n%s\nwanted was\n%s", got, want)
	}
}

// TestTalkPageIsSafe checks that no text from inside controls a terminal, or begins a line as ours
// do.
func TestTalkPageIsSafe(t *testing.T) {
	evil := "a\x1b]0;x\x07b\x1b[2J\u009b31m\u202e\rtool Bash: rm\nend: ok\u2028end: ok\x00\xff"
	input, err := json.Marshal(map[string]string{evil: evil, "k": evil})
	if err != nil {
		t.Fatal(err)
	}
	var events []spec.TranscriptEvent
	for _, kind := range []string{spec.TalkStart, spec.TalkMessage, spec.TalkThinking, spec.TalkToolCall, spec.TalkToolResult, spec.TalkLimit, spec.TalkError, spec.TalkEnd, spec.TalkUnknown} {
		for _, partial := range []bool{true, false} {
			events = append(events, spec.TranscriptEvent{
				Kind: kind, Session: evil, Role: spec.RoleAgent, ID: evil, Text: evil, Model: evil, Tool: evil, Input: input, Partial: partial, Verdict: spec.VerdictFailed, Cause: "no rule", Raw: input,
			})
		}
	}
	got := page(t, events...)
	for _, r := range got {
		if r != '\n' && r < ' ' || r >= 0x7f && r <= 0x9f || r >= 0x2028 && r <= 0x202e {
			t.Fatalf("%U is shown in %q", r, got)
		}
	}
	for line := range strings.Lines(got) {
		if strings.HasPrefix(line, "end: ok") || strings.HasPrefix(line, "tool Bash") {
			t.Errorf("%q passes for ours in\n%s", line, got)
		}
	}
}

func TestInputText(t *testing.T) {
	for input, want := range map[string]string{
		``:                         "",
		`null`:                     "",
		`"text"`:                   `text`,
		`"a \u003e \"b\""`:         `a > "b"`,
		`[1,2]`:                    `[1,2]`,
		`{}`:                       "",
		`{"n":1}`:                  "n=1",
		`{"b":[1],"a":""}`:         `a="" b=[1]`,
		`{"c":"one\ntwo"}`:         `one\ntwo`,
		`{"c":"a > \u0026","d":1}`: `c="a > &" d=1`,
		`{"c":"` + strings.Repeat("ü", 500) + `"}`: strings.Repeat("ü", inputWidth) + "…",
	} {
		if got := inputText(json.RawMessage(input)); got != want {
			t.Errorf("%s is shown as %q, wanted was %q", input, got, want)
		}
	}
}
