package server

import (
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/apitoken"
	"github.com/bothy-dev/bothy/internal/document"
)

// TestTable checks that each route has what the documentation needs, and that no two are the same.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Routes() {
		key := r.Method + " " + r.Pattern
		if seen[key] || r.Summary == "" || r.handle == nil {
			t.Errorf("%s: twice, or without a summary or a function", key)
		}
		seen[key] = true
		if r.Method != http.MethodGet && r.Scope == "" {
			t.Errorf("%s changes something without a scope", key)
		}
		if r.Method == http.MethodGet && r.Request != nil {
			t.Errorf("%s has a body", key)
		}
	}
}

// TestHost checks the calls about the host.
func TestHost(t *testing.T) {
	a := startAPI(t)
	if r := a.doUnix("GET", "/v1/version", nil); r.status != 200 || r.fieldAt("version") != document.ThisVersion().Version {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := a.doUnix("GET", "/v1/doctor", nil); r.status != 200 || r.fieldAt("checks") == nil {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := a.doUnix("GET", "/v1/openapi.json", nil); r.status != 200 || r.fieldAt("openapi") != "3.1.0" {
		t.Errorf("%d %.100s", r.status, r.body)
	}
}

// TestErrors checks that errors are documents with a reason, and statuses those of their classes.
func TestErrors(t *testing.T) {
	a := startAPI(t)
	for _, tt := range []struct {
		method, path string
		body         any
		status       int
		code         string
	}{
		{"GET", "/v1/nothing", nil, 404, "not_found"},
		{"GET", "/", nil, 404, "not_found"},
		{"POST", "/v1/version", nil, 405, "usage"},
		{"GET", "/v1/sandboxes/nope", nil, 404, "not_found"},
		{"POST", "/v1/sandboxes/nope:fly", nil, 404, "not_found"},
		{"GET", "/v1/sandboxes/nope:start", nil, 404, "not_found"},
		{"DELETE", "/v1/sandboxes/nope", nil, 404, "not_found"},
		{"DELETE", "/v1/sandboxes/nope?force=perhaps", nil, 400, "usage"},
		{"POST", "/v1/sandboxes/nope:stop?grace=-1s", nil, 400, "usage"},
		{"POST", "/v1/sandboxes/nope/exec", map[string]any{"args": []string{"true"}}, 404, "not_found"},
		{"POST", "/v1/sandboxes/nope/exec", nil, 400, "usage"},
		{"POST", "/v1/sandboxes/nope/exec", map[string]any{"args": []string{"true"}, "output": "loud"}, 400, "usage"},
		{"POST", "/v1/sandboxes/nope/exec", map[string]any{"args": []string{"true"}, "env": []string{"x"}}, 400, "usage"},
		{"PUT", "/v1/sandboxes/x", map[string]any{"agent": "shell"}, 400, "usage"},                  // the name is too short
		{"PUT", "/v1/sandboxes/one", map[string]any{"agent": "shell", "name": "two"}, 400, "usage"}, // two names
		{"PUT", "/v1/sandboxes/one", map[string]any{"agent": "shell", "remove": true}, 400, "usage"},
		{"PUT", "/v1/sandboxes/one", map[string]any{"agent": "shell", "workspaces": []string{"."}}, 400, "usage"},
		{"PUT", "/v1/sandboxes/one", map[string]any{"agent": "shell", "wings": 2}, 400, "usage"},
		{"PUT", "/v1/sandboxes/one", `{"agent":"shell"}{"agent":"shell"}`, 400, "usage"},
		{"PUT", "/v1/sandboxes/one", `{"agent":`, 400, "usage"},
		{"PUT", "/v1/sandboxes/one", map[string]any{"agent": "nobody-knows-it"}, 404, "not_found"},
		{"PUT", "/v1/sandboxes/one", map[string]any{"agent": "shell", "workspaces": []string{a.store.Path()}}, 403, "denied"},
	} {
		r := a.doUnix(tt.method, tt.path, tt.body)
		if r.status != tt.status || r.fieldAt("error.code") != tt.code || r.fieldAt("error.why") == "" {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, r.status, r.body)
		}
	}
	if r := a.doUnix("POST", "/v1/version", nil); r.header.Get("Allow") != "GET" {
		t.Errorf("Allow: %q", r.header.Get("Allow"))
	}
	if r := a.doUnix("GET", "/v1/sandboxes", nil); len(r.fieldAt("sandboxes").([]any)) != 0 {
		t.Errorf("something was half made: %s", r.body)
	}
}

// TestSandboxes creates, finds, changes and removes a sandbox.
func TestSandboxes(t *testing.T) {
	a := startAPI(t)
	wish := map[string]any{"agent": "shell", "workspaces": []string{filepath.Join(a.home, "proj")}, "env": []string{"A=1"}}
	if r := a.doUnix("PUT", "/v1/sandboxes/one", wish); r.status != 201 || r.fieldAt("name") != "one" {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if r := a.doUnix("PUT", "/v1/sandboxes/one", wish); r.status != 200 || r.fieldAt("name") != "one" {
		t.Errorf("again: %d %s", r.status, r.body)
	}
	for name, other := range map[string]map[string]any{
		"limits":      {"agent": "shell", "workspaces": wish["workspaces"], "limits": map[string]any{"pids": 77}},
		"directories": {"agent": "shell"},
		"variables":   {"agent": "shell", "workspaces": wish["workspaces"], "env": []string{"A=2"}},
		"user":        {"agent": "shell", "workspaces": wish["workspaces"], "user": "root"},
	} {
		if r := a.doUnix("PUT", "/v1/sandboxes/one", other); r.status != 409 || r.fieldAt("error.exit") != 5.0 {
			t.Errorf("other %s: %d %s", name, r.status, r.body)
		}
	}
	r := a.doUnix("POST", "/v1/sandboxes", wish)
	if r.status != 201 || r.header.Get("Location") != "/v1/sandboxes/shell-proj" {
		t.Errorf("%d %s %s", r.status, r.header, r.body)
	}
	if r := a.doUnix("GET", "/v1/sandboxes", nil); len(r.fieldAt("sandboxes").([]any)) != 2 {
		t.Errorf("%s", r.body)
	}
	if r := a.doUnix("GET", "/v1/sandboxes/one", nil); r.status != 200 || r.fieldAt("status.state") != "stopped" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := a.doUnix("PATCH", "/v1/sandboxes/one", map[string]any{"checkpoint": "10m", "budget": map[string]any{"max_tokens": 1000}}); r.status != 200 ||
		r.fieldAt("checkpoint") != "10m0s" || r.fieldAt("budget.tokens") != 1000.0 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := a.doUnix("PATCH", "/v1/sandboxes/one", map[string]any{"checkpoint": "off"}); r.status != 200 || r.fieldAt("checkpoint") != nil || r.fieldAt("budget.tokens") != 1000.0 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := a.doUnix("PATCH", "/v1/sandboxes/one", map[string]any{"checkpoint": "sometimes"}); r.status != 400 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := a.doUnix("POST", "/v1/sandboxes/one:stop", nil); r.status != 200 || r.fieldAt("state") != "stopped" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := a.doUnix("DELETE", "/v1/sandboxes/one", nil); r.status != 204 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := a.doUnix("GET", "/v1/sandboxes/one", nil); r.status != 404 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// TestConcurrentPut checks that of several clients that name one sandbox exactly one creates it.
func TestConcurrentPut(t *testing.T) {
	a := startAPI(t)
	wish := map[string]any{"agent": "shell", "workspaces": []string{filepath.Join(a.home, "proj")}}
	var mu sync.Mutex
	count := map[int]int{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			r := a.doUnix("PUT", "/v1/sandboxes/same", wish)
			mu.Lock()
			defer mu.Unlock()
			count[r.status]++
		})
	}
	all.Wait()
	if count[201] != 1 || count[200] != 7 {
		t.Errorf("%v", count)
	}
}

// TestIdempotency checks that a key repeats the answer, and not the effect.
func TestIdempotency(t *testing.T) {
	a := startAPI(t)
	key := func(r *http.Request) { r.Header.Set("Idempotency-Key", "k-1") }
	wish := map[string]any{"agent": "shell", "workspaces": []string{filepath.Join(a.home, "proj")}}
	first := a.doUnix("POST", "/v1/sandboxes", wish, key)
	again := a.doUnix("POST", "/v1/sandboxes", wish, key)
	if first.status != 201 || again.status != 201 || string(first.body) != string(again.body) || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%d %s; %d %s", first.status, first.body, again.status, again.body)
	}
	if r := a.doUnix("GET", "/v1/sandboxes", nil); len(r.fieldAt("sandboxes").([]any)) != 1 {
		t.Errorf("%s", r.body)
	}
	if r := a.doUnix("POST", "/v1/sandboxes", map[string]any{"agent": "shell"}, key); r.status != 409 {
		t.Errorf("another body: %d %s", r.status, r.body)
	}
	if r := a.doUnix("DELETE", "/v1/sandboxes/nope", nil, key); r.status != 404 {
		t.Errorf("another path: %d %s", r.status, r.body)
	}
	if r := a.doUnix("POST", "/v1/sandboxes", wish, func(r *http.Request) { r.Header.Set("Idempotency-Key", strings.Repeat("x", 300)) }); r.status != 400 {
		t.Errorf("a long key: %d %s", r.status, r.body)
	}
}

// TestRights checks that a token allows its scopes and its sandboxes only.
func TestRights(t *testing.T) {
	a := startAPI(t)
	wish := map[string]any{"agent": "shell", "workspaces": []string{filepath.Join(a.home, "proj")}}
	a.doUnix("PUT", "/v1/sandboxes/mine", wish)
	a.doUnix("PUT", "/v1/sandboxes/other", map[string]any{"agent": "shell"})
	id := a.doUnix("GET", "/v1/sandboxes/other", nil).fieldAt("id").(string)
	reads := withBearer(a.newToken(apitoken.Wish{Scopes: []apitoken.Scope{apitoken.Read}}))
	admin := withBearer(a.newToken(apitoken.Wish{Scopes: []apitoken.Scope{apitoken.Admin}}))
	mine := withBearer(a.newToken(apitoken.Wish{Scopes: apitoken.Scopes, Sandboxes: []string{"mine"}}))
	over := withBearer(a.newToken(apitoken.Wish{Scopes: apitoken.Scopes, Lasts: time.Nanosecond}))
	for _, tt := range []struct {
		name, method, path string
		by                 func(*http.Request)
		status             int
	}{
		{"no token", "GET", "/v1/version", func(*http.Request) {}, 401},
		{"a wrong token", "GET", "/v1/version", withBearer("bothy_" + strings.Repeat("0", 40)), 401},
		{"an empty token", "GET", "/v1/version", withBearer(""), 401},
		{"two headers", "GET", "/v1/version", func(r *http.Request) { reads(r); r.Header.Add("Authorization", "Bearer x") }, 401},
		{"another scheme", "GET", "/v1/version", func(r *http.Request) { r.Header.Set("Authorization", "Basic eDp5") }, 401},
		{"an expired token", "GET", "/v1/version", over, 401},
		{"read reads", "GET", "/v1/sandboxes", reads, 200},
		{"read does not remove", "DELETE", "/v1/sandboxes/mine", reads, 403},
		{"read does not run", "POST", "/v1/sandboxes/mine:start", reads, 403},
		{"admin does not read", "GET", "/v1/sandboxes", admin, 403},
		{"a sandbox of the token", "GET", "/v1/sandboxes/mine", mine, 200},
		{"another sandbox", "GET", "/v1/sandboxes/other", mine, 403},
		{"another sandbox by its id", "GET", "/v1/sandboxes/" + id, mine, 403},
		{"a sandbox that does not exist", "GET", "/v1/sandboxes/none", mine, 403},
		{"all sandboxes", "GET", "/v1/sandboxes", mine, 403},
		{"a new sandbox", "POST", "/v1/sandboxes", mine, 403},
		{"the version", "GET", "/v1/version", mine, 200},
	} {
		if r := a.overTCP(tt.method, tt.path, nil, tt.by); r.status != tt.status {
			t.Errorf("%s: %d %s", tt.name, r.status, r.body)
		}
		if strings.HasPrefix(tt.name, "a wrong") || strings.HasPrefix(tt.name, "read does") { // a token counts over the socket, too
			if r := a.doUnix(tt.method, tt.path, nil, tt.by); r.status != tt.status {
				t.Errorf("%s, over the socket: %d %s", tt.name, r.status, r.body)
			}
		}
	}
}

// TestRemovedToken checks that a removed token is refused at once.
func TestRemovedToken(t *testing.T) {
	a := startAPI(t)
	book := apitoken.Open(a.store)
	text, made, err := book.Create(apitoken.Wish{Scopes: []apitoken.Scope{apitoken.Read}})
	must(t, err)
	if r := a.overTCP("GET", "/v1/sandboxes", nil, withBearer(text)); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	must(t, book.Remove(made.ID))
	if r := a.overTCP("GET", "/v1/sandboxes", nil, withBearer(text)); r.status != 401 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// TestBusy checks that a request beyond the limit of its kind is refused with a reason.
func TestBusy(t *testing.T) {
	s := &Server{slots: newSlots()}
	for range cap(s.slots[terminals]) {
		_, err := s.takeSlot(terminals)
		must(t, err)
	}
	_, err := s.takeSlot(terminals)
	if full, ok := errors.AsType[*busy](err); !ok || full.status() != http.StatusTooManyRequests || full.Error() == "" {
		t.Errorf("%v", err)
	}
	release, err := s.takeSlot(plain)
	must(t, err)
	release()
	if len(s.slots[plain]) != 0 {
		t.Error("a place was not given back")
	}
}
