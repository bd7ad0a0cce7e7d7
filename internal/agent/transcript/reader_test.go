package transcript

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// reading decodes a description in JSON.
func reading(t testing.TB, text string) *spec.AgentReading {
	t.Helper()
	var a spec.AgentReading
	must(t, json.Unmarshal([]byte(text), &a))
	return &a
}

// simple is a format that uses every feature.
const simple = `{"session":"sid","time":["at","t"],"rules":[
	{"when":{"type":"noise"},"kind":"ignore"},
	{"when":{"type":"begin"},"kind":"start","model":"model"},
	{"when":{"type":"say","who":"me|you"},"kind":"message","role":"user","text":"text"},
	{"when":{"type":"say","who":"it"},"kind":"message","role":"agent","id":"n","text":["text","parts.*.t"],"partial":{"more":"true"}},
	{"when":{"type":"blocks"},"each":"list","rules":[
		{"when":{"is":"think"},"kind":"thinking","text":"x.0.y"},
		{"when":{"is":"call"},"kind":"tool_call","id":"id","tool":"tool","input":"in"},
		{"when":{"is":"answer"},"kind":"tool_result","id":"id","text":"out","failed":{"bad":"true"}},
		{"when":{".":"*"},"kind":"message","role":"agent","text":"."}]},
	{"when":{"type":"blocks","used.in":"*"},"kind":"usage","id":"n","usage":{"input":"used.in","output":"used.out","usd":"used.usd"}},
	{"when":{"type":"all"},"kind":"usage","usage":{"input":"in","cached":"had","cache_write":"put","output":"out","reasoning":"thought","within":true,"apart":true}},
	{"when":{"type":"sum"},"kind":"usage","usage":{"input":"in","total":true}},
	{"when":{"type":"step"},"kind":"start","model":"model","once":"n"},
	{"when":{"type":"full"},"kind":"limit","text":"why","until":"until"},
	{"when":{"type":"oops"},"kind":"error","text":"why"},
	{"when":{"type":"bye"},"kind":"end","verdict":"ok","text":"why"}]}`

// told reads text and returns the events.
func told(t testing.TB, rules *Rules, text string) (all []spec.TranscriptEvent) {
	t.Helper()
	r := NewReader(rules, func(ev spec.TranscriptEvent) error {
		all = append(all, ev)
		return nil
	})
	if _, err := r.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	must(t, r.Close())
	return all
}

// same compares events in their printed form.
func same(t *testing.T, want, got []spec.TranscriptEvent) {
	t.Helper()
	if w, g := lines(t, want), lines(t, got); w != g {
		t.Errorf("told is\n%s\nwanted was\n%s", g, w)
	}
}

func lines(t *testing.T, all []spec.TranscriptEvent) string {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	for _, ev := range all {
		must(t, e.Encode(ev))
	}
	return b.String()
}

func simpleRules(t testing.TB) *Rules {
	t.Helper()
	r, err := compile(reading(t, simple))
	must(t, err)
	return r
}

func TestReader(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		want       []spec.TranscriptEvent
	}{
		{"nothing", "\n \n\r\n", nil},
		{"ignored", `{"type":"noise","text":"x"}`, nil},
		{"a start", `{"type":"begin","model":"m-1","sid":"s","at":"2026-01-02T03:04:05.6Z"}`, []spec.TranscriptEvent{
			{Kind: "start", Session: "s", Model: "m-1", Time: time.Date(2026, 1, 2, 3, 4, 5, 6e8, time.UTC)},
		}},
		{"seconds", `{"type":"oops","why":"x","t":1700000000}`, []spec.TranscriptEvent{{Kind: "error", Text: "x", Time: time.Unix(1700000000, 0).UTC()}}},
		{"milliseconds", `{"type":"oops","why":"x","t":1700000000123}`, []spec.TranscriptEvent{{Kind: "error", Text: "x", Time: time.UnixMilli(1700000000123).UTC()}}},
		{"no time", `{"type":"oops","why":"x","at":"soon","t":-1}`, []spec.TranscriptEvent{{Kind: "error", Text: "x"}}},
		{"either of two", `{"type":"say","who":"you","text":"hi"}`, []spec.TranscriptEvent{{Kind: "message", Role: "user", Text: "hi"}}},
		{"neither", `{"type":"say","who":"he","text":"hi"}`, []spec.TranscriptEvent{
			{Kind: "unknown", Cause: "no rule", Raw: json.RawMessage(`{"text":"hi","type":"say","who":"he"}`)},
		}},
		{"the first text there is", `{"type":"say","who":"it","n":7,"parts":[{"t":"a"},{"u":1},{"t":2}],"more":true}`, []spec.TranscriptEvent{
			{Kind: "message", Role: "agent", ID: "7", Text: "a\n2", Partial: true},
		}},
		{"without a word", `{"type":"say","who":"it","text":""}`, nil},
		{"blocks", `{"type":"blocks","n":1,"list":[{"is":"think","x":[{"y":"hm"}]},{"is":"call","id":"c","tool":"T","in":{"b":1.50,"a":"<&>"}},` +
			`{"is":"answer","id":"c","out":{"k":"v"},"bad":true},"plain",{"is":"new"}],"used":{"in":3,"out":2.9,"usd":0.5}}`, []spec.TranscriptEvent{
			{Kind: "thinking", Text: "hm"},
			{Kind: "tool_call", ID: "c", Tool: "T", Input: json.RawMessage(`{"a":"<&>","b":1.50}`)},
			{Kind: "tool_result", ID: "c", Text: `{"k":"v"}`, Failed: true},
			{Kind: "message", Role: "agent", Text: "plain"},
			{Kind: "unknown", Cause: "no rule", Raw: json.RawMessage(`{"is":"new"}`)},
			{Kind: "usage", ID: "1", Usage: &spec.TranscriptUsage{Input: 3, Output: 2, USD: 0.5}},
		}},
		{"one block that is no list", `{"type":"blocks","list":"alone"}`, []spec.TranscriptEvent{{Kind: "message", Role: "agent", Text: "alone"}}},
		{"no block", `{"type":"blocks","lists":1}`, []spec.TranscriptEvent{{Kind: "unknown", Cause: "no rule", Raw: json.RawMessage(`{"lists":1,"type":"blocks"}`)}}},
		{"an input that is text", `{"type":"blocks","list":[{"is":"call","tool":"T","in":"{\"a\":1}"},{"is":"call","tool":"U","in":"{no"}]}`, []spec.TranscriptEvent{
			{Kind: "tool_call", Tool: "T", Input: json.RawMessage(`{"a":1}`)},
			{Kind: "tool_call", Tool: "U", Input: json.RawMessage(`"{no"`)},
		}},
		{"numbers that cannot be meant", `{"type":"blocks","list":[],"used":{"in":"7","out":-3,"usd":1e400}}` + "\n" + `{"type":"sum","in":1e300}`, []spec.TranscriptEvent{
			{Kind: "usage", Usage: &spec.TranscriptUsage{Input: maxNumber, Total: true}},
		}},
		{"what caches had, and thoughts", `{"type":"all","in":100,"had":60,"put":10,"out":5,"thought":3}` + "\n" + `{"type":"all","in":1,"had":2}`, []spec.TranscriptEvent{
			{Kind: "usage", Usage: &spec.TranscriptUsage{Input: 30, Cached: 60, CacheWrite: 10, Output: 8, Reasoning: 3}},
			{Kind: "usage", Usage: &spec.TranscriptUsage{Cached: 2}},
		}},
		{"a limit", `{"type":"full","why":"week","until":1700000000}`, []spec.TranscriptEvent{{Kind: "limit", Text: "week", Until: time.Unix(1700000000, 0).UTC()}}},
		{"an end", `{"type":"bye","why":"done"}`, []spec.TranscriptEvent{{Kind: "end", Verdict: "ok", Text: "done"}}},
		{"once", "{\"type\":\"step\",\"n\":1}\n{\"type\":\"step\",\"n\":1}\n{\"type\":\"step\",\"n\":2}", []spec.TranscriptEvent{{Kind: "start"}, {Kind: "start"}}},
		{"a session that lasts", "{\"sid\":\"a\",\"type\":\"noise\"}\n{\"type\":\"bye\"}", []spec.TranscriptEvent{{Kind: "end", Verdict: "ok", Session: "a"}}},
		{"no JSON", "plain \x1b[31m \xff words\n[1", []spec.TranscriptEvent{
			{Kind: "unknown", Cause: "no JSON", Text: "plain \x1b[31m \ufffd words"},
			{Kind: "unknown", Cause: "cut short", Text: "[1"},
		}},
		{"two values", "{} {}", []spec.TranscriptEvent{{Kind: "unknown", Cause: "cut short", Text: "{} {}"}}},
		{"other values", "null\n7\n\"x\"\n[]", []spec.TranscriptEvent{
			{Kind: "unknown", Cause: "no rule", Raw: json.RawMessage("null")},
			{Kind: "unknown", Cause: "no rule", Raw: json.RawMessage("7")},
			{Kind: "unknown", Cause: "no rule", Raw: json.RawMessage(`"x"`)},
			{Kind: "unknown", Cause: "no rule", Raw: json.RawMessage("[]")},
		}},
		{"an endless name of a session", `{"sid":"` + strings.Repeat("s", maxID+1) + `","type":"bye"}`, []spec.TranscriptEvent{{Kind: "end", Verdict: "ok"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			same(t, tt.want, told(t, simpleRules(t), tt.line))
		})
	}
}

// TestBounds checks that a line that is too large is reported as such, and that the next one is read.
func TestBounds(t *testing.T) {
	bye := "\n{\"type\":\"bye\"}\n"
	for cause, text := range map[string]string{
		causeLong:   `{"type":"oops","why":"` + strings.Repeat("x", maxLine) + `"}`,
		causeMany:   "[" + strings.Repeat("0,", maxValues) + "0]",
		causeNoJSON: strings.Repeat("[", 100_000),
	} {
		all := told(t, simpleRules(t), text+bye)
		if len(all) != 2 || all[0].Kind != "unknown" || all[0].Cause != cause || len(all[0].Text) > maxUnread || all[1].Kind != "end" {
			t.Errorf("%s: %d events, %.200v", cause, len(all), all)
		}
	}
	if all := told(t, simpleRules(t), `{"type":"oops","why":"`+strings.Repeat("[,{", maxValues)+`"}`); len(all) != 1 || all[0].Kind != "error" {
		t.Errorf("brackets in a text are no values: %.200v", all)
	}
}

// TestTorn checks that a line is read once it is complete, however it is cut.
func TestTorn(t *testing.T) {
	var n int
	r := NewReader(simpleRules(t), func(spec.TranscriptEvent) error { n++; return nil })
	for _, piece := range []string{`{"type":`, `"bye`, `"}`} {
		if _, err := r.Write([]byte(piece)); err != nil || n != 0 {
			t.Fatalf("after %q: %d events, %v", piece, n, err)
		}
	}
	if _, err := r.Write([]byte("\n")); err != nil || n != 1 {
		t.Fatalf("%d events, %v", n, err)
	}
	text := `{"type":"say","who":"me","text":"ünï"}` + "\n" + `{"type":"bye"}`
	var all []spec.TranscriptEvent
	r = NewReader(simpleRules(t), func(ev spec.TranscriptEvent) error { all = append(all, ev); return nil })
	one := iotest.OneByteReader(strings.NewReader(text))
	buf := make([]byte, 1)
	for {
		k, err := one.Read(buf)
		if err != nil {
			break
		}
		if _, err := r.Write(buf[:k]); err != nil {
			t.Fatal(err)
		}
	}
	must(t, r.Close())
	same(t, told(t, simpleRules(t), text), all)
}

func TestTellFails(t *testing.T) {
	enough := errors.New("enough")
	for _, line := range []string{`{"type":"bye"}`, `{"type":"blocks","list":["a","b"]}`, `{"type":"blocks","list":[{}]}`, `no`} {
		n := 0
		r := NewReader(simpleRules(t), func(spec.TranscriptEvent) error { n++; return enough })
		if _, err := r.Write([]byte(line + "\n" + line + "\n")); !errors.Is(err, enough) || n != 1 {
			t.Errorf("%s: %d events, %v", line, n, err)
		}
	}
}

func TestRemembersOnlySoMuch(t *testing.T) {
	r := NewReader(simpleRules(t), func(spec.TranscriptEvent) error { return nil })
	for i := range maxTold + 10 {
		_, err := fmt.Fprintf(r, "{\"type\":\"step\",\"n\":%d}\n", i)
		must(t, err)
	}
	if len(r.told) > maxTold {
		t.Errorf("%d are remembered", len(r.told))
	}
}

func TestRulesRefused(t *testing.T) {
	for what, text := range map[string]string{
		"no rules":                  `{"rules":[]}`,
		"no kind":                   `{"rules":[{"text":"x"}]}`,
		"a strange kind":            `{"rules":[{"kind":"song"}]}`,
		"unknown as a kind":         `{"rules":[{"kind":"unknown"}]}`,
		"a message of nobody":       `{"rules":[{"kind":"message","text":"x"}]}`,
		"a message of a stranger":   `{"rules":[{"kind":"message","role":"me","text":"x"}]}`,
		"a usage of nothing":        `{"rules":[{"kind":"usage"}]}`,
		"an error with a tool":      `{"rules":[{"kind":"error","tool":"x"}]}`,
		"a strange verdict":         `{"rules":[{"kind":"end","verdict":"good"}]}`,
		"a path with a hole":        `{"rules":[{"kind":"error","text":"a..b"}]}`,
		"an empty path":             `{"rules":[{"kind":"error","text":""}]}`,
		"a path without end":        `{"rules":[{"kind":"error","text":"` + strings.Repeat("a.", 20) + `a"}]}`,
		"a condition with a hole":   `{"rules":[{"when":{"":"x"},"kind":"error"}]}`,
		"a time that is no path":    `{"time":"a.","rules":[{"kind":"error"}]}`,
		"a session that is no path": `{"session":"","rules":[{"kind":"error"}]}`,
		"rules without each":        `{"rules":[{"kind":"error","rules":[{"kind":"error"}]}]}`,
		"each without rules":        `{"rules":[{"each":"x"}]}`,
		"each with a kind":          `{"rules":[{"each":"x","kind":"error","rules":[{"kind":"error"}]}]}`,
		"each with a field":         `{"rules":[{"each":"x","text":"t","rules":[{"kind":"error"}]}]}`,
		"each in each in each …":    `{"rules":[{"each":"x","rules":[{"each":"x","rules":[{"each":"x","rules":[{"each":"x","rules":[{"kind":"error"}]}]}]}]}]}`,
	} {
		if _, err := compile(reading(t, text)); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// FuzzReader checks that no input is an error, and that the events can be printed.
func FuzzReader(f *testing.F) {
	for _, line := range []string{
		`{"type":"blocks","list":[{"is":"call","in":"{}"},"x",null,[[]]],"used":{"in":1}}`, `{"type":"say","who":"it","parts":[{"t":[]}]}`,
		`{"type":"step","n":{"a":1}}`, `{"at":1e999,"t":"2026-01-01T00:00:00Z","type":"bye"}`, "\xff\x00{", "[[[", `{"a":1,"a":2}`, "\"\\ud800\"",
	} {
		f.Add([]byte(line+"\n"+line), 3)
	}
	rules := simpleRules(f)
	rules.run = &run{
		end: []event{{{at: trail{"type"}, is: []string{"bye"}}}}, success: []event{{{at: trail{"ok"}, is: []string{"true"}}}}, exhausted: []string{"limit"},
		begins: event{{at: trail{"type"}, any: true}}, session: trail{"list", "0"},
	}
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		read := func(pieces ...[]byte) (lines []string) {
			var d Digest
			r := NewReader(rules, func(ev spec.TranscriptEvent) error {
				d.Add(ev)
				b, err := json.Marshal(ev)
				lines = append(lines, string(b))
				return err
			})
			for _, p := range pieces {
				if n, err := r.Write(p); err != nil || n != len(p) {
					t.Fatal(n, err)
				}
			}
			must(t, r.Close())
			return lines
		}
		at := min(max(cut, 0), len(text))
		if whole, cut := read(text), read(text[:at], text[at:]); !slices.Equal(whole, cut) {
			t.Errorf("whole: %q\ncut: %q", whole, cut)
		}
	})
}
