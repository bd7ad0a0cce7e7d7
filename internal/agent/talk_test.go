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

// TestTalk reads recorded output (AGENT-output…) and session files (AGENT-transcript…) of
// real agents, recorded by test/agents, and compares the events.
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

// rulesFor returns an agent's rules for its output, or for its session files.
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

// TestTrouble reads ends of runs in the form of the real agents.
func TestTrouble(t *testing.T) {
	for _, tt := range []struct{ agent, what, text, verdict, says string }{
		{"claude", "done", `{"type":"system","subtype":"init","session_id":"s","model":"m"}
{"type":"assistant","message":{"id":"1","content":[{"type":"text","text":"Done."}],"usage":{"input_tokens":3,"output_tokens":2}}}
{"type":"result","subtype":"success","is_error":false,"result":"Done.","total_cost_usd":0.5,"usage":{"input_tokens":3,"output_tokens":2}}`, "ok", "Done."},
		{"claude", "a used up subscription", `{"type":"system","subtype":"init","session_id":"s"}
{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1700000000,"rateLimitType":"five_hour"}}
{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"You've hit your session limit · resets 3pm"}`, "limit", "You've hit your session limit · resets 3pm"},
		{"claude", "a busy provider", `{"type":"system","subtype":"api_retry","attempt":1,"error_status":429,"error":"rate_limit"}
{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"API Error: 429"}`, "failed", "API Error: 429"},
		{"claude", "too many turns", `{"type":"result","subtype":"error_max_turns","is_error":true,"errors":["Reached maximum number of turns (1)"]}`, "failed", "Reached maximum number of turns (1)"},
		{"claude", "a text that speaks of limits", `{"type":"assistant","message":{"content":[{"type":"text","text":"You've hit your session limit"}]}}
{"type":"result","subtype":"success","is_error":false,"result":"You've hit your session limit"}`, "ok", "You've hit your session limit"},
		{"claude", "a crash", `{"type":"assistant","message":{"content":[{"type":"text","text":"Half"}]}}`, "failed", ""},
		{"codex", "a used up allowance", `{"type":"thread.started","thread_id":"s"}
{"type":"turn.started"}
{"type":"error","message":"You've hit your usage limit."}
{"type":"turn.failed","error":{"message":"You've hit your usage limit. Try again later."}}`, "limit", "You've hit your usage limit. Try again later."},
		{"codex", "no way through", `{"type":"error","message":"Reconnecting... 5/5 (401)"}
{"type":"turn.failed","error":{"message":"unexpected status 401"}}`, "failed", "unexpected status 401"},
		{"gemini", "a wrong key", `{"type":"init","session_id":"s","model":"m"}
{"type":"result","status":"error","error":{"type":"Error","message":"401 key"},"stats":{"total_tokens":0}}`, "failed", "401 key"},
		{"gemini", "pieces", `{"type":"message","role":"assistant","content":"It is","delta":true}
{"type":"message","role":"assistant","content":" done.","delta":true}
{"type":"result","status":"success","stats":{"input_tokens":3,"output_tokens":2}}`, "ok", ""},
		{"opencode", "a wrong key", `{"type":"error","timestamp":1700000000000,"sessionID":"ses_1","error":{"name":"APIError","data":{"message":"invalid x-api-key","statusCode":401}}}`, "failed", "invalid x-api-key"},
		{"opencode", "several steps", `{"type":"step_start","timestamp":1700000000000,"sessionID":"ses_1","part":{"type":"step-start"}}
{"type":"tool_use","sessionID":"ses_1","part":{"tool":"write","callID":"c","state":{"status":"completed","input":{"filePath":"x"},"output":"ok"}}}
{"type":"step_finish","sessionID":"ses_1","part":{"reason":"tool-calls","tokens":{"input":1,"output":2}}}
{"type":"step_start","sessionID":"ses_1","part":{"type":"step-start"}}
{"type":"step_finish","sessionID":"ses_1","part":{"reason":"stop","tokens":{"input":3,"output":4},"cost":0.5}}`, "ok", ""},
	} {
		t.Run(tt.agent+" "+tt.what, func(t *testing.T) {
			var d transcript.Digest
			events := json.NewDecoder(bytes.NewReader(told(t, rulesFor(t, tt.agent, "output"), []byte(tt.text))))
			for events.More() {
				var ev spec.TranscriptEvent
				must(t, events.Decode(&ev))
				d.Add(ev)
			}
			if got := d.Verdict(0); got != tt.verdict {
				t.Errorf("it is judged %q, by %+v", got, d.End)
			}
			if d.End != nil && d.End.Text != tt.says {
				t.Errorf("it says %q in the end", d.End.Text)
			}
			if tt.what == "pieces" && d.Message() != "It is done." {
				t.Errorf("the message is %q", d.Message())
			}
			if tt.what == "several steps" && (d.Usage.Input != 4 || d.Usage.USD != 0.5 || d.Calls != 1) {
				t.Errorf("it comes to %+v", d)
			}
		})
	}
}

// TestOpencodeRows reads rows, given as lines, in forms that a short run does not have.
func TestOpencodeRows(t *testing.T) {
	user, agent := `"row":"part","id":"p","message":{"role":"user"},`, `"row":"part","id":"p","message":{"role":"assistant","modelID":"m"},`
	for row, want := range map[string]string{
		user + `"part":{"type":"text","text":"a file","synthetic":true}`:                                         `{"kind":"message","role":"system","id":"p","text":"a file"}`,
		user + `"part":{"type":"file","url":"file:///x"}`:                                                        ``,
		agent + `"part":{"type":"reasoning","text":"hm"}`:                                                        `{"kind":"thinking","id":"p","text":"hm"}`,
		agent + `"part":{"type":"text","text":""}`:                                                               ``,
		agent + `"part":{"type":"tool","tool":"bash","callID":"c","state":{"status":"pending","input":{}}}`:      ``,
		agent + `"part":{"type":"tool","tool":"bash","callID":"c","state":{"status":"running","input":{"x":1}}}`: `{"kind":"tool_call","id":"c","tool":"bash","input":{"x":1}}`,
		agent + `"part":{"type":"tool","tool":"bash","callID":"c","state":{"status":"error","input":{"x":1},"error":"no"}}`: `{"kind":"tool_call","id":"c","tool":"bash","input":{"x":1}}
{"kind":"tool_result","id":"c","text":"no","failed":true}`,
		agent + `"part":{"type":"retry","attempt":1,"error":{"name":"APIError","data":{"message":"busy"}}}`:                       `{"kind":"error","text":"busy"}`,
		`"row":"message","id":"m","message":{"role":"assistant","error":{"name":"MessageAbortedError","data":{"message":"off"}}}`: `{"kind":"error","text":"off"}`,
		`"row":"message","id":"m","message":{"role":"assistant","error":{"name":"MessageOutputLengthError","data":{}}}`:           `{"kind":"error","text":"MessageOutputLengthError"}`,
		`"row":"message","id":"m","message":{"role":"user"}`:                                                                      ``,
	} {
		if got := strings.TrimSpace(string(told(t, rulesFor(t, "opencode", "transcript"), []byte("{"+row+"}")))); got != want {
			t.Errorf("%s is told as %s", row, got)
		}
	}
}
