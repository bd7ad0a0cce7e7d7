package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

const (
	placeholder = "sk-test-PLACEHOLDER0123456789abcdef"
	realValue   = "sk-test-REALREALREAL0123456789abcde"
)

func loan(change ...func(*wire.Loan)) []wire.Loan {
	l := wire.Loan{Value: wire.Value(realValue), Lease: spec.Lease{
		ID: "lease1", Secret: "api", Hosts: []string{"api.example.com"}, Place: spec.Place{Kind: spec.PlaceBearer}, Placeholder: placeholder,
	}}
	for _, c := range change {
		c(&l)
	}
	return []wire.Loan{l}
}

// valueless reports records that contain the value.
func (w *world) valueless(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.records {
		if strings.Contains(fmt.Sprintf("%+v", r), realValue) {
			t.Errorf("the log has the value: %+v", r)
		}
	}
}

// TestSecretIsLent checks that a secret goes to its host in its place and nowhere else, and does
// not come back. Hosts that were inspected before and hosts that were not are treated alike.
func TestSecretIsLent(t *testing.T) {
	var mu sync.Mutex
	var auth []string
	arrived := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return auth
	}
	o := newOrigin(t, true, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return // a body that broke off
		}
		mu.Lock()
		auth = append(auth, r.Header.Get("Authorization"))
		mu.Unlock()
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		w.Header().Set("Trailer", "X-Late")
		fmt.Fprintf(w, "%v %s", r.Header, r.RequestURI)
		w.Header().Set("X-Late", r.Header.Get("Authorization"))
	})
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com, other.example.com]\n"), apiHosts, o.trusting)
	must(t, w.SetLoans(loan()))
	url := fmt.Sprintf("https://api.example.com:%d/", o.port)
	for _, h2 := range []bool{false, true} {
		c := w.client(t, h2)
		status, text, head := fetch(t, c, "GET", url, nil, "Authorization", "Bearer "+placeholder, "Cookie", "session=attacker", "X-Api-Key", "attacker")
		if status != 200 || strings.Contains(text+fmt.Sprint(head), realValue) || strings.Contains(text, "attacker") {
			t.Errorf("%d %s %v", status, text, head)
		}
		if got := arrived(); got[len(got)-1] != "Bearer "+realValue {
			t.Errorf("the server got %q", got)
		}
		status, text, _ = fetch(t, c, "POST", fmt.Sprintf("https://other.example.com:%d/", o.port), strings.NewReader("take this: "+placeholder))
		if status != 403 || !strings.Contains(text, "placeholder") {
			t.Errorf("%d %s", status, text)
		}
		if status, _, _ = fetch(t, c, "POST", url, strings.NewReader("my environment has "+placeholder)); status != 200 {
			t.Errorf("a conversation about the placeholder: %d", status)
		}
		n := len(arrived())
		if status, _, _ = fetch(t, c, "GET", url+placeholder, nil); status != 403 || len(arrived()) != n {
			t.Errorf("%d, %d requests arrived", status, len(arrived())-n)
		}
	}
	r := w.record(t, "the use", func(r spec.NetworkRecord) bool { return r.Event == spec.NetworkSecret })
	if r.Secret != "api" || r.Lease != "lease1" || r.Name != "api.example.com" || r.Method != http.MethodGet {
		t.Errorf("%+v", r)
	}
	if _, err := w.in.DialName(t.Context(), strings.ToLower(placeholder)+".example.com", 443); err == nil {
		t.Error("a placeholder was looked up")
	}
	for event, place := range map[string][2]string{spec.NetworkRequest: {"other.example.com", "body"}, spec.NetworkLookup: {"", "name that is looked up"}} {
		name, where := place[0], place[1]
		r := w.record(t, "the refusal of a "+event, func(r spec.NetworkRecord) bool { return r.Event == event && r.Verdict == spec.VerdictDeny })
		if r.Secret != "api" || r.Lease != "lease1" || r.Name != name || !strings.HasPrefix(r.Reason, "the placeholder of secret api in the "+where+" is refused") {
			t.Errorf("%+v", r)
		}
	}
	w.valueless(t)
}

// TestC4ClearText checks that in clear text nothing is exchanged, and that a request with a
// placeholder is cut off (C4).
func TestC4ClearText(t *testing.T) {
	o := newOrigin(t, false, func(http.ResponseWriter, *http.Request) {})
	port, _ := echo(t, "")
	w := start(t, document(t, 1, "allow: [api.example.com, other.example.com]\n"), apiHosts)
	must(t, w.SetLoans(loan()))
	status, _, _ := fetch(t, w.client(t, false), "GET", fmt.Sprintf("http://api.example.com:%d/", o.port), nil, "Authorization", "Bearer "+placeholder)
	if status != 403 || len(o.requests()) > 0 {
		t.Errorf("%d, %v", status, o.requests())
	}
	// A bound host is asked over HTTP, or not at all.
	if c, err := w.in.DialName(t.Context(), "api.example.com", port); err == nil {
		defer c.Close()
		_, _ = io.WriteString(c, "hello "+placeholder+"\n")
		_ = c.SetDeadline(time.Now().Add(patience))
		if b, err := io.ReadAll(c); len(b) > 0 || !isReset(err) {
			t.Errorf("%q, %v", b, err)
		}
	}
	for _, host := range []string{"other.example.com"} {
		c, err := w.in.DialName(t.Context(), host, port)
		must(t, err)
		defer c.Close()
		_, _ = io.WriteString(c, "hello\n")
		in := bufio.NewReader(c)
		_ = c.SetDeadline(time.Now().Add(patience))
		line, err := in.ReadString('\n')
		if err != nil || line != "hello\n" {
			t.Fatalf("%s: %q %v", host, line, err)
		}
		_, _ = io.WriteString(c, "x "+placeholder[:10])
		_, _ = io.WriteString(c, placeholder[10:]+"\n")
		if line, err = in.ReadString('\n'); err == nil || strings.Contains(line, placeholder) || isTimeout(err) {
			t.Errorf("%s: %q %v", host, line, err)
		}
	}
}

// TestC2WhatServersRemember checks a server that quotes its request in an answer that cannot be
// read: the quote does not arrive. A server that remembers a value cannot reveal it once the secret
// was taken back.
func TestC2WhatServersRemember(t *testing.T) {
	var kept string
	o := newOrigin(t, true, func(w http.ResponseWriter, r *http.Request) {
		if v := r.Header.Get("Authorization"); v != "" {
			kept = v
		}
		if r.URL.Path != "/broken" {
			_, _ = io.WriteString(w, "remember "+kept)
			return
		}
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprintf(rw, "HTTP/1.1 200 OK\r\nno header %s\r\n\r\n", kept)
		_ = rw.Flush()
	})
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com]\n"), apiHosts, o.trusting)
	must(t, w.SetLoans(loan()))
	c := w.client(t, false)
	url := fmt.Sprintf("https://api.example.com:%d/", o.port)
	for _, path := range []string{"broken", "kept"} {
		_, text, _ := fetch(t, c, "GET", url+path, nil, "Authorization", "Bearer "+placeholder)
		if strings.Contains(text, realValue) {
			t.Errorf("%s: %s", path, text)
		}
	}
	must(t, w.SetLoans(loan(func(l *wire.Loan) { l.Taken = true })))
	status, text, _ := fetch(t, c, "GET", url, nil)
	if status != 200 || !strings.Contains(text, "remember") || strings.Contains(text, realValue) {
		t.Errorf("%d %s", status, text)
	}
	if status, _, _ := fetch(t, c, "GET", url, nil, "Authorization", "Bearer "+placeholder); status != 403 {
		t.Errorf("with what was taken back: %d", status)
	}
	w.valueless(t)
}

// TestC12RevokedSecretEndsRequests checks that taking a secret back, and the end of its lease, end
// the requests that use it (C12).
func TestC12RevokedSecretEndsRequests(t *testing.T) {
	began := make(chan struct{}, 4)
	o := newOrigin(t, true, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/again" {
			return
		}
		w.(http.Flusher).Flush()
		began <- struct{}{}
		<-r.Context().Done()
	})
	w := start(t, document(t, 1, "allow: [api.example.com]\n"), apiHosts, o.trusting)
	for name, take := range map[string]func(){
		"revoked": func() { must(t, w.SetLoans(nil)) },
		"ended": func() {
			must(t, w.SetLoans(loan(func(l *wire.Loan) { l.Until = time.Now().Add(300 * time.Millisecond) })))
		},
	} {
		must(t, w.SetLoans(loan()))
		url := fmt.Sprintf("https://api.example.com:%d/", o.port)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+name, nil)
		must(t, err)
		r.Header.Set("Authorization", "Bearer "+placeholder)
		c := w.client(t, true)
		resp, err := c.Do(r)
		must(t, err)
		<-began
		take()
		if b, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("%s: it ended with %q as if complete", name, b)
		}
		must(t, resp.Body.Close())
		end := w.record(t, "the end", func(r spec.NetworkRecord) bool { return r.Event == spec.NetworkRequest && r.Path == "/"+name })
		if end.Verdict != spec.VerdictDeny || !strings.Contains(end.Reason, "not lent any more") || end.Secret != "api" {
			t.Errorf("%s: %+v", name, end)
		}
		if status, _, _ := fetch(t, c, "GET", url+"again", nil, "Authorization", "Bearer "+placeholder); name == "ended" && status != 403 {
			t.Errorf("%s: the next one: %d", name, status)
		}
	}
}
