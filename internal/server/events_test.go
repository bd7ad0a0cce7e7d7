package server

import (
	"bufio"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/apitoken"
	"github.com/bothy-dev/bothy/internal/audit"
)

// stream is an open stream of events.
type stream struct {
	t     *testing.T
	resp  *http.Response
	lines *bufio.Scanner
}

// follow opens a stream of events.
func (a *api) follow(path string, edit ...func(*http.Request)) *stream {
	a.t.Helper()
	req := request(a.t, "GET", "http://"+a.tcp+path, nil)
	for _, e := range edit {
		e(req)
	}
	resp, err := http.DefaultClient.Do(req)
	must(a.t, err)
	a.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		a.t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	return &stream{a.t, resp, bufio.NewScanner(resp.Body)}
}

// nextLine returns the rest of the next line with a prefix; "" at the end of the stream.
func (s *stream) nextLine(prefix string) string {
	for s.lines.Scan() {
		if text, ok := strings.CutPrefix(s.lines.Text(), prefix); ok {
			return text
		}
	}
	return ""
}

// recorder makes a sandbox and returns a function that records events of it.
func (a *api) recorder(name string) func(kind string) {
	a.t.Helper()
	id := a.doUnix("PUT", "/v1/sandboxes/"+name, map[string]any{"agent": "shell"}).fieldAt("id").(string)
	path := a.store.Sandbox(id).Log("events.jsonl")
	must(a.t, os.MkdirAll(filepath.Dir(path), 0o700))
	l, err := audit.Open(path, audit.Options{})
	must(a.t, err)
	a.t.Cleanup(func() { _ = l.Close() })
	return func(kind string) { must(a.t, l.Write(kind, map[string]any{"x": "\x1b]0;\u202e"})) }
}

// TestEvents checks that a stream has events as they come, and that a client that comes back misses none.
func TestEvents(t *testing.T) {
	a := startAPI(t)
	token := withBearer(a.newToken(apitoken.Wish{Scopes: []apitoken.Scope{apitoken.Read}}))
	one := a.recorder("one")
	one("started")
	s := a.follow("/v1/events", token)
	s.nextLine("id: ")
	one("saved")
	cursor := s.nextLine("id: ")
	if kind, data := s.nextLine("event: "), s.nextLine("data: "); kind != "saved" || !strings.Contains(data, `"sandbox":"one"`) || strings.ContainsAny(data, "\x1b\u202e") {
		t.Errorf("%q %q", kind, data)
	}
	s.resp.Body.Close()
	one("stopped")
	two := a.recorder("two")
	two("started")
	again := a.follow("/v1/events?since=now", token, func(r *http.Request) { r.Header.Set("Last-Event-ID", cursor) })
	if a, b := again.nextLine("event: "), again.nextLine("event: "); a != "stopped" || b != "started" {
		t.Errorf("%q %q", a, b)
	}
	old := a.follow("/v1/events?since=start&sandbox=one&type=started,stopped", token)
	if a, b := old.nextLine("event: "), old.nextLine("event: "); a != "started" || b != "stopped" {
		t.Errorf("%q %q", a, b)
	}
	mine := withBearer(a.newToken(apitoken.Wish{Scopes: []apitoken.Scope{apitoken.Read}, Sandboxes: []string{"one"}}))
	a.follow("/v1/events?sandbox=one", mine)
	for path, status := range map[string]int{"/v1/events": 403, "/v1/events?sandbox=two": 403} {
		if r := a.overTCP("GET", path, nil, mine); r.status != status {
			t.Errorf("%s: %d", path, r.status)
		}
	}
	for path, status := range map[string]int{"/v1/events?since=nonsense": 400, "/v1/events?sandbox=nope": 404} {
		if r := a.overTCP("GET", path, nil, token); r.status != status {
			t.Errorf("%s: %d", path, r.status)
		}
	}
}

// TestEventsEnd checks that a stream ends with its token, and with the server, and says why.
func TestEventsEnd(t *testing.T) {
	a := startAPI(t)
	book := apitoken.Open(a.store)
	text, made, err := book.Create(apitoken.Wish{Scopes: []apitoken.Scope{apitoken.Read}})
	must(t, err)
	s := a.follow("/v1/events", withBearer(text))
	s.nextLine("id: ")
	must(t, book.Remove(made.ID))
	if why := s.nextLine(": ended: "); !strings.Contains(why, "the token") {
		t.Errorf("%q", why)
	}
	other := a.follow("/v1/events", withBearer(a.newToken(apitoken.Wish{Scopes: []apitoken.Scope{apitoken.Read}})))
	other.nextLine("id: ")
	go a.stop()
	if why := other.nextLine(": ended: "); why != errClosing.Error() {
		t.Errorf("%q", why)
	}
}
