package modelscript

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	s, err := Parse([]byte(`
conversations:
  - match: (?i)fix
    turns:
      - text: first
        delay: 1m30s
        tools:
          - write_file: {path: a, content: b}
          - run_command: {command: ls}
          - read_file: {path: a}
          - mcp: {server: s, tool: t, arguments: {n: 1}}
          - raw: {name: N, namespace: M, arguments: {l: [1, {k: v}]}}
          - raw: {name: N, input: text}
        usage: {input: 3, cached: 2, output: 1}
        fail: {times: 2, hang: forever, after: 4}
turns:
  - fail: {status: 429, type: t, message: m, headers: {a: b}, retry_after: 5s, limit: {kind: rate, resets: 1h}}
`))
	if err != nil {
		t.Fatal(err)
	}
	first := s.Conversations[0].Turns[0]
	equal(t, "delay", time.Duration(first.Delay), 90*time.Second)
	equal(t, "hang", first.Fail.Hang, Forever)
	equal(t, "tools", len(first.Tools), 6)
	equal(t, "arguments", first.Tools[4].Raw.Arguments, map[string]any{"l": []any{1, map[string]any{"k": "v"}}})
	equal(t, "limit", s.Turns[0].Fail.Limit, Limit{LimitRate, Duration(time.Hour)})

	if _, err := Parse([]byte(`{"turns": [{"text": "JSON is YAML"}]}`)); err != nil {
		t.Error(err)
	}
}

func TestParseRefuses(t *testing.T) {
	turn := func(s string) string { return "turns: [{" + s + "}]" }
	fail := func(s string) string { return turn("fail: {" + s + "}") }
	for name, c := range map[string]struct{ script, why string }{
		"nothing":                  {"", "neither turns nor conversations"},
		"a second document":        {"turns: [{text: a}]\n---\nturns: [{text: b}]", "more than one document"},
		"an unknown key":           {turn("txt: a"), "txt"},
		"an unknown key of a tool": {turn("tools: [{run_command: {cmd: ls}}]"), "cmd"},
		"a repeated key":           {turn("text: a, text: b"), "text"},
		"not a script":             {"turns: hello", "turns"},
		"a bad expression":         {"conversations: [{match: '(', turns: [{text: a}]}]", "conversation 0"},
		"no turns":                 {"conversations: [{match: a}]", "no turns"},
		"an empty turn":            {turn(""), "turn 0: neither text"},
		"a time without a unit":    {turn("text: a, delay: 5"), "duration"},
		"a delay for ever":         {turn("text: a, delay: forever"), "delay"},
		"negative usage":           {turn("text: a, usage: {input: -1}"), "usage"},
		"more cached than there":   {turn("text: a, usage: {input: 1, cached: 2}"), "usage"},
		"no tool":                  {turn("tools: [{}]"), "tool 0: 0 of"},
		"two tools in one":         {turn("tools: [{run_command: {command: a}, read_file: {path: b}}]"), "tool 0: 2 of"},
		"no path":                  {turn("tools: [{write_file: {content: a}}]"), "no path"},
		"no command":               {turn("tools: [{run_command: {}}]"), "no command"},
		"no name":                  {turn("tools: [{raw: {arguments: {a: b}}}]"), "no name"},
		"no server":                {turn("tools: [{mcp: {tool: a}}]"), "no server"},
		"input and arguments":      {turn("tools: [{raw: {name: a, input: b, arguments: {c: d}}}]"), "input and arguments"},
		"what JSON has not":        {turn("tools: [{raw: {name: a, arguments: {b: .inf}}}]"), "Inf"},
		"no failure":               {fail("times: 1"), "0 of status"},
		"two failures":             {fail("status: 500, cut: true"), "2 of status"},
		"a failure that is none":   {fail("status: 200"), "200 is not an error"},
		"headers behind events":    {`turns: [{text: a, fail: {status: 500, after: 1, headers: {a: b}}}]`, "after events"},
		"a limit behind events":    {`turns: [{text: a, fail: {status: 429, after: 1, limit: {kind: rate, resets: 1s}}}]`, "after events"},
		"a message of a hang":      {fail("hang: 1s, message: a"), "belong to status"},
		"a limit of a 500":         {fail("status: 500, limit: {kind: rate, resets: 1s}"), "429"},
		"an unknown limit":         {fail("status: 429, limit: {kind: weekly, resets: 1s}"), "weekly"},
		"a limit for ever":         {fail("status: 429, limit: {kind: rate, resets: forever}"), "resets"},
		"a limit and a body":       {fail("status: 429, body: a, limit: {kind: rate, resets: 1s}"), "limit and body"},
		"text that is never sent":  {turn("text: a, fail: {status: 500}"), "never"},
		"nothing to cut":           {fail("cut: true, after: 1"), "neither text"},
		"nothing to say later":     {fail("status: 500, times: 1"), "neither text"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(c.script))
			if err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%v, which does not mention %q", err, c.why)
			}
		})
	}
}

// TestParseSaysWhere checks that an error names its line.
func TestParseSaysWhere(t *testing.T) {
	for want, script := range map[string]string{
		"line 5: check conversation 0, turn 1: neither": "conversations:\n  - match: a\n    turns:\n      - text: fine\n      - delay: 1s\n",
		"line 3: check conversation 0, turn 1: neither": "turns:\n  - text: fine\n  - delay: 1s\n",
		"[2:5]": "turns:\n  - txt: a\n",
	} {
		if _, err := Parse([]byte(script)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, which does not say %q", err, want)
		}
	}
	if _, err := Parse(make([]byte, MaxBytes+1)); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Errorf("%v", err)
	}
}

// TestCheckRefuses checks that scripts written in Go are checked as well.
func TestCheckRefuses(t *testing.T) {
	for _, s := range []Script{
		{},
		{Turns: []Turn{{}}},
		{Turns: []Turn{{Tools: []Tool{{Raw: &Raw{Name: "a", Arguments: map[string]any{"b": math.NaN()}}}}}}},
		{Turns: []Turn{{Tools: []Tool{{MCP: &MCP{Server: "a", Tool: "b", Arguments: map[string]any{"c": func() {}}}}}}}},
	} {
		if _, err := s.Check(); err == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	g, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	w, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if string(g) != string(w) {
		t.Errorf("%s: %s, not %s", what, g, w)
	}
}
