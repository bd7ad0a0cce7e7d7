package modelserver

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestBounds checks that a client cannot make the server store more than its limits.
func TestBounds(t *testing.T) {
	s, url := serve(t, "turns: [{text: hello}]")
	url += "/v1/chat/completions"
	ask := func(fields obj) obj {
		q := obj{"model": "m", "messages": []obj{{"role": "user", "content": "hi"}}}
		maps.Copy(q, fields)
		return q
	}
	for name, c := range map[string]struct {
		body any
		why  string
	}{
		"a large body":   {`{"model": "` + strings.Repeat("x", maxBody) + `"}`, "too large"},
		"many values":    {`{"model": "m", "messages": [` + strings.Repeat(`{},`, maxBody/4) + `{}]}`, "values"},
		"a long name":    {ask(obj{"model": strings.Repeat("x", maxName+1)}), "name of the model"},
		"a large schema": {ask(obj{"response_format": obj{"json_schema": obj{"schema": obj{"enum": []string{strings.Repeat("x", maxAside)}}}}}), "least answer"},
		"many turns":     {ask(obj{"messages": []obj{{"role": "user", "content": strings.Repeat("x", maxBody/2)}, {"role": "assistant", "content": "a"}, {"role": "tool", "content": ""}}}), "no turn 1"},
	} {
		resp, body := post(t, url, c.body)
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), c.why) || len(body) > 8<<10 {
			t.Errorf("%s: %d, %d bytes: %.300s", name, resp.StatusCode, len(body), body)
		}
	}
	for _, q := range s.Requests() {
		equal(t, "outcome", q.Outcome, Refused)
	}
}

// TestCrowd checks that too many requests at once are refused, and served again when the
// others have ended.
func TestCrowd(t *testing.T) {
	s, url := serve(t, "conversations: [{match: wait, turns: [{fail: {hang: forever}}]}]\nturns: [{text: hello}]")
	url += "/v1/chat/completions"
	for range maxOpen {
		go func() {
			resp, err := http.Post(url, "application/json", strings.NewReader(`{"messages":[{"role":"user","content":"wait"}]}`))
			if err == nil {
				_ = resp.Body.Close()
			}
		}()
	}
	if _, err := s.Wait(t.Context(), maxOpen); err != nil {
		t.Fatal(err)
	}
	const question = `{"messages":[{"role":"user","content":"hi"}]}`
	resp, body := post(t, url, question)
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "already") {
		t.Errorf("%d: %s", resp.StatusCode, body)
	}
	s.Close()
	for end := time.Now().Add(time.Minute); s.open.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("they do not end")
		}
	}
}

// TestTold checks that a request recorded for a log has no credentials, and that the server
// does not keep it.
func TestTold(t *testing.T) {
	s, url := serve(t, "turns: [{text: hello}]")
	var told []Request
	s.Record = func(q Request) { told = append(told, q) }
	ok(t, url+"/v1beta/models/m:generateContent?key=canary-query", obj{"contents": []obj{{"role": "user", "parts": []obj{{"text": strings.Repeat("hi ", maxTold)}, {"text": "bye"}}}}},
		"X-Goog-Api-Key", "canary-header", "Authorization", "Bearer canary-bearer", "Cookie", "canary-cookie")
	post(t, url+"/elsewhere/"+strings.Repeat("x", 3000), `{"canary": "body"}`)
	if len(told) != 2 || len(s.Requests()) != 0 {
		t.Fatalf("%d told, %d kept", len(told), len(s.Requests()))
	}
	for i, q := range told {
		line := string(encode(q.Told()))
		if strings.Contains(line, "canary") || len(line) > 8<<10 {
			t.Errorf("%s", line)
		}
		equal(t, "number", q.Told().N, i+1)
	}
	first := told[0].Told()
	equal(t, "path", first.Path, "/v1beta/models/m:generateContent")
	equal(t, "turn", *first.Turn, 0)
	equal(t, "prompt", first.Prompt, "bye")
	equal(t, "outcome", first.Outcome, "answered")
	equal(t, "no turn", told[1].Told().Turn, nil)
}

// TestValues checks that text inside a string does not count as values.
func TestValues(t *testing.T) {
	for text, values := range map[string]int{
		`{"messages":[{"a":1},{"b":"x"}]}`:       5,
		`{"text":"[[[{{{,,,\\\"[[["}`:            1,
		`{"text":"\\","more":[[],[]],"n":[1,2]}`: 9,
	} {
		if !hasValues([]byte(text), values) || hasValues([]byte(text), values+1) {
			t.Errorf("%s: not %d values", text, values)
		}
	}
}
