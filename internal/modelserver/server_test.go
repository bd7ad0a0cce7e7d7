package modelserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

func TestConversations(t *testing.T) {
	s, url := serve(t, `
conversations:
  - {match: ^fix, turns: [{text: fixed}]}
  - {match: test, turns: [{text: tested}]}
`)
	url += "/v1/chat/completions"
	ask := func(prompts ...string) (head, []byte) {
		var messages []obj
		for i, p := range prompts {
			if i > 0 {
				messages = append(messages, obj{"role": "assistant", "content": "earlier"})
			}
			messages = append(messages, obj{"role": "user", "content": p})
		}
		return post(t, url, obj{"model": "m", "messages": messages})
	}
	for _, c := range []struct {
		want    string
		prompts []string
	}{
		{"fixed", []string{"fix the test"}},
		{"fixed", []string{"\n  fix it\n"}},
		{"tested", []string{"fix it", "now the tests"}}, // a resumed session starts again
		{"fixed", []string{"run the tests", "fix it"}},
	} {
		_, body := ask(c.prompts...)
		equal(t, fmt.Sprint(c.prompts), at(decode(t, body), "choices", 0, "message", "content"), c.want)
	}

	resp, body := ask("sing")
	equal(t, "status", resp.StatusCode, 400)
	if !strings.Contains(string(body), `no conversation for the prompt \"sing\"`) {
		t.Errorf("%s", body)
	}
	last := s.Requests()[4]
	equal(t, "outcome", last.Outcome, Refused)
	equal(t, "conversation", last.Conversation, -1)
}

// TestAstray checks that a request beyond the script, or beyond the client's tools, is an
// error that says so.
func TestAstray(t *testing.T) {
	for name, c := range map[string]struct {
		script, why string
		after       []obj
	}{
		"no such turn": {"turns: [{text: hi}]", "has no turn 1", []obj{
			{"role": "assistant", "content": nil}, {"role": "tool", "content": "fine"},
		}},
		"no such tool":     {"turns: [{tools: [{mcp: {server: tasks, tool: close}}]}]", "only bash, read, write, tasks_ready", nil},
		"raw needs no one": {"turns: [{tools: [{raw: {name: no_such_tool}}]}]", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, url := serve(t, c.script)
			resp, body := post(t, url+"/v1/chat/completions", opencode(false, c.after...))
			if c.why == "" {
				equal(t, "status", resp.StatusCode, 200)
				return
			}
			equal(t, "status", resp.StatusCode, 400)
			if !strings.Contains(string(body), c.why) || !strings.Contains(s.Requests()[0].Error, c.why) {
				t.Errorf("%s", body)
			}
		})
	}
}

func TestMCP(t *testing.T) {
	_, url := serve(t, "turns: [{tools: [{mcp: {server: tasks, tool: ready, arguments: {n: 1}}}]}]")
	m := heard(t, ok(t, url+"/v1/messages", claude(true)))
	equal(t, "Claude Code", at(m, "content", 0, "name"), "mcp__tasks__ready")
	equal(t, "Claude Code", at(m, "content", 0, "input"), obj{"n": 1})
	r := followed(t, ok(t, url+"/v1/responses", codex()))
	equal(t, "Codex", at(r, "output", 0, "name"), "ready")
	equal(t, "Codex", at(r, "output", 0, "namespace"), "mcp__tasks")
	c := joined(t, ok(t, url+"/v1/chat/completions", opencode(true)))
	equal(t, "opencode", at(c, "message", "tool_calls", 0, "name"), "tasks_ready")
	_, calls, _ := parts(t, ok(t, url+geminiStream, geminiCLI()))
	equal(t, "Gemini CLI", at(calls, 0, "functionCall", "name"), "mcp_tasks_ready")
}

// TestParallelSessions checks that sessions that run at the same time, each with its own
// failure, get the same answers as alone, to the byte.
func TestParallelSessions(t *testing.T) {
	const script = `
turns:
  - {text: one, fail: {status: 529, times: 2}}
  - {text: two}
`
	second := claude(true, obj{"role": "assistant", "content": "one"}, obj{"role": "user", "content": []obj{{"type": "tool_result"}}})
	run := func(url, session string) string {
		var all strings.Builder
		for _, body := range []obj{claude(true), claude(true), second, claude(true), claude(true), second} {
			resp, got := post(t, url+"/v1/messages", body, "x-claude-code-session-id", session)
			fmt.Fprintf(&all, "%d %s\n", resp.StatusCode, got)
		}
		return all.String()
	}
	_, alone := serve(t, script)
	want := map[string]string{}
	for i := range 8 {
		session := fmt.Sprint("session ", i)
		want[session] = run(alone, session)
		if n := strings.Count(want[session], "529 {"); n != 2 {
			t.Fatalf("%d failures, not 2:\n%s", n, want[session])
		}
	}

	_, shared := serve(t, script)
	var wg sync.WaitGroup
	for session, heard := range want {
		wg.Go(func() {
			if got := run(shared, session); got != heard {
				t.Errorf("%s heard, among others:\n%s\nand alone:\n%s", session, got, heard)
			}
		})
	}
	wg.Wait()
}

// TestSamePromptAgain checks that a loop that gives a session the same prompt again gets
// the same failure again.
func TestSamePromptAgain(t *testing.T) {
	_, url := serve(t, "turns: [{text: one, fail: {status: 503, times: 1}}]")
	again := claude(true, obj{"role": "assistant", "content": "one"}, obj{"role": "user", "content": "do it"})
	var got []int
	for _, body := range []obj{claude(true), claude(true), again, again} {
		resp, _ := post(t, url+"/v1/messages", body, "x-claude-code-session-id", "s")
		got = append(got, resp.StatusCode)
	}
	equal(t, "statuses", got, []int{503, 200, 503, 200})
}

// TestNamelessSessions checks that sessions without a name are distinguished by their content.
func TestNamelessSessions(t *testing.T) {
	s, url := serve(t, "turns: [{text: one, fail: {status: 503, times: 1}}]")
	ask := func(dir string) int {
		resp, _ := post(t, url+geminiStream, obj{"contents": []obj{{"role": "user", "parts": []obj{
			{"text": "<session_context>\n" + dir + "\n</session_context>"}, {"text": "do it"},
		}}}})
		return resp.StatusCode
	}
	equal(t, "statuses", []int{ask("/a"), ask("/b"), ask("/a"), ask("/b")}, []int{503, 503, 200, 200})
	equal(t, "attempt", s.Requests()[3].Attempt, 2)
}

func TestRecord(t *testing.T) {
	s, url := serve(t, "turns: [{text: hi}]")
	var log bytes.Buffer
	s.Log = &log
	if resp, err := http.Head(url); err != nil {
		t.Fatal(err)
	} else {
		resp.Body.Close()
	}
	ok(t, url+"/v1/messages?beta=true", claude(true), "x-api-key", "sk-real", "x-claude-code-session-id", "s1")
	post(t, url+"/elsewhere", "not JSON")
	post(t, url+"/v1/messages", "not JSON")
	post(t, url+"/v1/messages", claude(true), "Content-Encoding", "zstd")

	all := s.Requests()
	for i, want := range []Request{
		{Method: "HEAD", Path: "/", Status: 200, Outcome: Aside},
		{Method: "POST", Path: "/v1/messages?beta=true", Status: 200, Outcome: Answered, Prompt: "do it", Session: "s1", Model: "claude-opus-4-8", Stream: true, Attempt: 1},
		{Method: "POST", Path: "/elsewhere", Status: 404, Outcome: Refused, Error: "POST /elsewhere is not served here"},
		{Method: "POST", Path: "/v1/messages", Status: 400, Outcome: Refused},
		{Method: "POST", Path: "/v1/messages", Status: 415, Outcome: Refused},
	} {
		got := all[i]
		if got.N != i+1 || got.Host != strings.TrimPrefix(url, "http://") || got.Time.IsZero() {
			t.Errorf("request %d is %+v", i, got)
		}
		equal(t, "request", []any{got.Method, got.Path, got.Status, got.Outcome, got.Prompt, got.Session, got.Model, got.Stream, got.Attempt},
			[]any{want.Method, want.Path, want.Status, want.Outcome, want.Prompt, want.Session, want.Model, want.Stream, want.Attempt})
		if want.Error != "" {
			equal(t, "error", got.Error, want.Error)
		}
		equal(t, "has a reason", got.Error != "", got.Outcome == Refused)
	}
	equal(t, "turns", []int{all[0].Turn, all[1].Turn, all[2].Turn}, []int{-1, 0, -1})
	equal(t, "key", all[1].Header.Get("x-api-key"), "sk-real")

	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	equal(t, "lines", len(lines), len(all))
	equal(t, "body", decode(t, []byte(lines[1]))["body"], claude(true))
	equal(t, "header", at(decode(t, []byte(lines[1])), "header", "X-Api-Key", 0), "sk-real")
	equal(t, "body", decode(t, []byte(lines[2]))["body_base64"], []byte("not JSON"))
	if s.Err() != nil {
		t.Error(s.Err())
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestRecordCannotBeWritten(t *testing.T) {
	s, url := serve(t, "turns: [{text: hi}]")
	s.Log = full{}
	ok(t, url+"/v1/messages", claude(true))
	if s.Err() == nil {
		t.Error("nobody hears of it")
	}
}

func TestWait(t *testing.T) {
	s, url := serve(t, "turns: [{text: hi}]")
	var got []Request
	var wg sync.WaitGroup
	wg.Go(func() { got, _ = s.Wait(t.Context(), 2) })
	ok(t, url+"/v1/messages", claude(true))
	ok(t, url+"/v1/responses", codex())
	wg.Wait()
	equal(t, "requests", len(got), 2)

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, err := s.Wait(ctx, 3); err == nil || err.Error() != "enough" {
		t.Error(err)
	}
}

func TestModels(t *testing.T) {
	_, url := serve(t, "turns: [{text: hi}]")
	for _, c := range []struct{ path, header, key string }{
		{"/v1/models", "x-api-key", "data"},
		{"/v1/models", "authorization", "data"},
		{"/v1beta/models", "x-goog-api-key", "models"},
	} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url+c.path, nil)
		req.Header.Set(c.header, "k")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var v map[string]any
		err = json.NewDecoder(resp.Body).Decode(&v)
		resp.Body.Close()
		if err != nil || at(v, c.key, 0) == nil {
			t.Errorf("%v: %v %v", c, v, err)
		}
	}
}

// TestModelsOfCodex checks the list of models for Codex. An entry would need all details of
// a model. With an empty list, Codex uses its built-in knowledge.
func TestModelsOfCodex(t *testing.T) {
	_, url := serve(t, "turns: [{text: hi}]")
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/backend-api/codex/models?client_version=1.2.3", nil)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || strings.TrimSpace(string(text)) != `{"models":[]}` {
		t.Errorf("%d: %s, %v", resp.StatusCode, text, err)
	}
}
