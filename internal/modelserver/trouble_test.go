package modelserver

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bothy-dev/bothy/internal/modelscript"
)

// noon is the current time for limits in these tests.
var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// asks are the four kinds of requests.
var asks = map[string]struct {
	path string
	body obj
}{
	"anthropic": {"/v1/messages", claude(true)},
	"responses": {"/v1/responses", codex()},
	"chat":      {"/v1/chat/completions", opencode(true)},
	"gemini":    {geminiStream, geminiCLI()},
}

func TestStatus(t *testing.T) {
	_, url := serve(t, `
turns:
  - text: later
    fail: {status: 529, times: 1, message: busy, type: mine, headers: {x-mine: yes}, retry_after: 1500ms}
`)
	for name, where := range map[string][]any{
		"anthropic": {"error", "type"}, "responses": {"error", "code"}, "chat": {"error", "type"}, "gemini": {"error", "status"},
	} {
		a := asks[name]
		resp, body := post(t, url+a.path, a.body, "x-session-id", name)
		equal(t, name, resp.StatusCode, 529)
		equal(t, name, at(decode(t, body), where...), "mine")
		equal(t, name, at(decode(t, body), "error", "message"), "busy")
		equal(t, name, resp.Header.Get("x-mine"), "yes")
		equal(t, name, resp.Header.Get("retry-after"), "2")
		if !strings.Contains(string(ok(t, url+a.path, a.body, "x-session-id", name)), "later") {
			t.Errorf("%s: the second attempt is not answered", name)
		}
	}
}

// TestFailedLate checks that the stream reports the error in each provider's own form. A
// client that does not want a stream sees it in the status.
func TestFailedLate(t *testing.T) {
	_, url := serve(t, `turns: [{text: "`+longText+`", fail: {status: 529, type: overloaded_error, after: 1}}]`)
	for name, want := range map[string]string{
		"anthropic": "event: error\ndata: {\"error\":{\"message\":\"Overloaded\",\"type\":\"overloaded_error\"},\"type\":\"error\"}\n\n",
		"responses": "event: response.failed\ndata: {\"response\":{\"error\":{\"code\":\"overloaded_error\",\"message\":\"Overloaded\"},\"object\":\"response\",\"status\":\"failed\"},\"type\":\"response.failed\"}\n\n",
		"chat":      "data: {\"error\":{\"code\":\"overloaded_error\",\"message\":\"Overloaded\",\"param\":null,\"type\":\"overloaded_error\"}}\n\n",
		"gemini":    "data: {\"error\":{\"code\":529,\"message\":\"Overloaded\",\"status\":\"overloaded_error\"}}\n\n",
	} {
		a := asks[name]
		resp, body := post(t, url+a.path, a.body)
		equal(t, name, resp.StatusCode, 200)
		if text := string(body); !strings.HasSuffix(text, want) || strings.Count(text, "data: ") != 2 {
			t.Errorf("%s: the stream is %s", name, text)
		}
	}
	resp, _ := post(t, url+"/v1/messages", claude(false))
	equal(t, "whole", resp.StatusCode, 529)
}

func TestBody(t *testing.T) {
	_, url := serve(t, `turns: [{fail: {status: 502, body: "<html>", headers: {content-type: text/html}}}]`)
	resp, body := post(t, url+"/v1/messages", claude(true))
	equal(t, "body", string(body), "<html>")
	equal(t, "type", resp.Header.Get("content-type"), "text/html")
}

func TestLimits(t *testing.T) {
	const reset = "1780322400" // noon and two hours
	for kind, all := range map[string]map[string]func(t *testing.T, h http.Header, body map[string]any){
		"subscription": {
			"anthropic": func(t *testing.T, h http.Header, body map[string]any) {
				equal(t, "type", at(body, "error", "type"), "rate_limit_error")
				equal(t, "status", h.Get("anthropic-ratelimit-unified-status"), "rejected")
				equal(t, "retry after", h.Get("retry-after"), "7200")
				equal(t, "claim", h.Get("anthropic-ratelimit-unified-representative-claim"), "five_hour")
				equal(t, "reset", h.Get("anthropic-ratelimit-unified-reset"), reset)
			},
			"responses": func(t *testing.T, h http.Header, body map[string]any) {
				equal(t, "type", at(body, "error", "type"), "usage_limit_reached")
				equal(t, "no retry", h.Get("retry-after"), "")
				equal(t, "seconds", at(body, "error", "resets_in_seconds"), 7200)
				equal(t, "reset", h.Get("x-codex-primary-reset-at"), reset)
			},
			"gemini": func(t *testing.T, _ http.Header, body map[string]any) {
				equal(t, "quota", at(body, "error", "details", 0, "violations", 0, "quotaId"), "GenerateRequestsPerDayPerProjectPerModel")
			},
		},
		"rate": {
			"anthropic": func(t *testing.T, h http.Header, _ map[string]any) {
				equal(t, "retry after", h.Get("retry-after"), "7200")
				equal(t, "remaining", h.Get("anthropic-ratelimit-requests-remaining"), "0")
				equal(t, "reset", h.Get("anthropic-ratelimit-requests-reset"), "2026-06-01T14:00:00Z")
				equal(t, "of no subscription", h.Get("anthropic-ratelimit-unified-status"), "")
			},
			"chat": func(t *testing.T, h http.Header, body map[string]any) {
				equal(t, "retry after", h.Get("retry-after"), "7200")
				equal(t, "code", at(body, "error", "code"), "rate_limit_exceeded")
				equal(t, "reset", h.Get("x-ratelimit-reset-requests"), "2h0m0s")
			},
			"gemini": func(t *testing.T, _ http.Header, body map[string]any) {
				equal(t, "status", at(body, "error", "status"), "RESOURCE_EXHAUSTED")
				equal(t, "delay", at(body, "error", "details", 0, "retryDelay"), "7200s")
			},
		},
	} {
		s, url := serve(t, "turns: [{fail: {status: 429, limit: {kind: "+kind+", resets: 2h}}}]")
		s.Now = func() time.Time { return noon }
		for name, check := range all {
			t.Run(kind+" "+name, func(t *testing.T) {
				resp, body := post(t, url+asks[name].path, asks[name].body)
				equal(t, "status", resp.StatusCode, 429)
				check(t, resp.Header, decode(t, body))
			})
		}
	}
}

// TestCut checks that a stream is cut after its second event, and other answers in the
// middle. Both are whole the second time.
func TestCut(t *testing.T) {
	_, url := serve(t, `turns: [{text: "`+longText+`", fail: {cut: true, after: 2, times: 1}}]`)
	for name, a := range asks {
		t.Run(name, func(t *testing.T) {
			got, err := read(t, url+a.path, a.body, name)
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("the stream ends with %v", err)
			}
			equal(t, "events", len(events(t, got)), 2)
			whole := ok(t, url+a.path, a.body, "x-session-id", name)
			if !strings.HasPrefix(string(whole), string(got)) {
				t.Errorf("%q was the beginning of %q", got, whole)
			}
		})
	}
	got, err := read(t, url+"/v1/messages", claude(false), "whole")
	if !errors.Is(err, io.ErrUnexpectedEOF) || len(got) == 0 {
		t.Errorf("%q ends with %v", got, err)
	}
	if whole := ok(t, url+"/v1/messages", claude(false), "x-session-id", "whole"); !strings.HasPrefix(string(whole), string(got)) {
		t.Errorf("%q was the beginning of %q", got, whole)
	}
}

// TestCutLate checks that a stream that is cut late still lacks its end.
func TestCutLate(t *testing.T) {
	_, url := serve(t, `turns: [{text: "`+longText+`", fail: {cut: true, after: 1000}}]`)
	for name, a := range asks {
		got, err := read(t, url+a.path, a.body, name)
		if !errors.Is(err, io.ErrUnexpectedEOF) || len(got) == 0 {
			t.Errorf("%s: %q ends with %v", name, got, err)
		}
		for _, end := range []string{"message_stop", "response.completed", "[DONE]", `"STOP"`} {
			if strings.Contains(string(got), end) {
				t.Errorf("%s: %s is sent", name, end)
			}
		}
	}
}

func TestCutBeforeAll(t *testing.T) {
	for name, a := range asks {
		s, url := serve(t, "turns: [{fail: {cut: true}}]")
		if got, err := read(t, url+a.path, a.body, "s"); err == nil || got != nil {
			t.Errorf("%s: %q %v", name, got, err)
		}
		all, err := s.Wait(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, name, all[0].Status, 0)
		equal(t, name, all[0].Outcome, Failed)
	}
}

// read returns an answer up to the point where it breaks. The answer is nil without a status.
func read(t *testing.T, url string, body any, session string) ([]byte, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(string(encode(body))))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Session-Id", session)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// TestHang checks that a hanging request is recorded while it hangs, and ends when the
// client leaves.
func TestHang(t *testing.T) {
	s, url := serve(t, "turns: [{fail: {hang: forever}}]")
	ctx, leave := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/messages", strings.NewReader(string(encode(claude(true)))))
	left := make(chan error)
	go func() {
		_, err := http.DefaultClient.Do(req) //nolint:bodyclose // there is none
		left <- err
	}()
	all, err := s.Wait(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "outcome", all[0].Outcome, Failed)
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestHangMidway checks that the events before the hang arrive, and that Close ends it.
func TestHangMidway(t *testing.T) {
	s, url := serve(t, `turns: [{text: "`+longText+`", fail: {hang: forever, after: 2}}]`)
	resp, err := http.Post(url+"/v1/messages", "application/json", strings.NewReader(string(encode(claude(true)))))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body := bufio.NewReader(resp.Body)
	for range 6 {
		if _, err := body.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	if _, err := body.ReadByte(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

// TestTimes checks that delays and hangs take the time in the script.
func TestTimes(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		takes  time.Duration
		breaks bool
	}{
		"delay":          {"turns: [{text: hi, delay: 90s}]", 90 * time.Second, false},
		"delayed status": {"turns: [{delay: 5s, fail: {status: 500}}]", 5 * time.Second, false},
		"hang":           {"turns: [{fail: {hang: 1h}}]", time.Hour, true},
		"both":           {"turns: [{text: hi, delay: 1m, fail: {hang: 1h, after: 1}}]", time.Hour + time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				script, err := modelscript.Parse([]byte(c.script))
				if err != nil {
					t.Fatal(err)
				}
				s, err := New(script)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				equal(t, "broken", broken(t, s), c.breaks)
				equal(t, "time", time.Since(began), c.takes)
			})
		})
	}
}

// broken asks without a network, and reports whether the server broke the
// connection.
func broken(t *testing.T, s *Server) (broke bool) {
	defer func() { broke = recover() == http.ErrAbortHandler }() //nolint:errorlint // what the package panics with
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/messages", strings.NewReader(string(encode(claude(true)))))
	s.ServeHTTP(httptest.NewRecorder(), req)
	return false
}
