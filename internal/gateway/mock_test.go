package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// stub plays a server, and remembers the requests it received.
type stub struct {
	mu   sync.Mutex
	seen []string
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	s.seen = append(s.seen, fmt.Sprintf("%s %s %s %v %s", r.Method, r.Host, r.URL.Path, r.Header, body))
	s.mu.Unlock()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch path, _, _ := strings.Cut(r.URL.Path[1:], "/"); path {
	case "cut":
		_, _ = io.WriteString(w, "half of ")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case "hang":
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	_, _ = fmt.Fprintf(w, "played: %d bytes", len(body))
}

func (s *stub) heard() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.seen, "\n")
}

// await waits until the stub has received something so often.
func (s *stub) await(t *testing.T, what string, times int) {
	for end := time.Now().Add(patience); strings.Count(s.heard(), what) < times; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("%s is not heard %d times", what, times)
			return
		}
	}
}

// playing returns an option that plays the servers of two names.
func playing(s *stub) func(*Config) {
	return func(c *Config) {
		c.Mock = &Mock{Hosts: []string{"api.example.com", "model.example.com"}, Player: s}
	}
}

// TestMocked checks that requests to a played server are answered here at every port, whatever the
// policy says: the gateway looks up no name, dials nothing and puts in no secret. Other requests
// are judged as ever.
func TestMocked(t *testing.T) {
	o := newOrigin(t, true, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the real one") })
	for name, p := range map[string]*policy.Policy{
		"denied":  document(t, 1, "deny: [api.example.com, other.example.com]\n"),
		"allowed": document(t, 1, "inspect: all\nallow: ['*.example.com', 127.0.0.0/8]\n"),
	} {
		t.Run(name, func(t *testing.T) {
			s := &stub{}
			w := start(t, p, map[string][]string{"api.example.com": here, "other.example.com": here}, o.trusting, playing(s))
			must(t, w.SetLoans(loan(func(l *wire.Loan) { l.Hosts = []string{"api.example.com", "other.example.com"} })))
			for _, h2 := range []bool{false, true} {
				c := w.client(t, h2)
				for _, url := range []string{"https://api.example.com/v1", fmt.Sprintf("https://API.example.com:%d/v1", o.port), "https://model.example.com/v1", "http://api.example.com/v1"} {
					status, text, _ := fetch(t, c, "POST", url, strings.NewReader("question"), "Authorization", "Bearer "+placeholder)
					if status != 200 || text != "played: 8 bytes" {
						t.Errorf("%s: %d %s", url, status, text)
					}
				}
			}
			if heard := s.heard(); !strings.Contains(heard, placeholder) || strings.Contains(heard, realValue) {
				t.Errorf("the mock heard %s", heard)
			}
			if got := w.asked(); len(got) != 0 {
				t.Errorf("the host's resolver was asked for %q", got)
			}
			if got := o.requests(); len(got) != 0 {
				t.Errorf("the real server got %q", got)
			}
			r := w.record(t, "a request", func(r spec.NetworkRecord) bool { return r.Event == spec.NetworkRequest })
			if !r.Mocked || r.Verdict != spec.VerdictAllow || r.Status != 200 || r.Up != 8 || r.Down == 0 || r.Rule != "" || r.Suggest != "" || r.Secret != "" || r.Reason != mockReason || r.Path != "/v1" {
				t.Errorf("the record says %+v", r)
			}
			w.client(t, false).CloseIdleConnections()
			_, err := w.in.DialName(t.Context(), "other.example.com", o.port)
			if (err == nil) != (name == "allowed") {
				t.Errorf("another host: %v", err)
			}
			w.valueless(t)
		})
	}
}

// TestMockedFlow checks that a change of rules does not end flows to a played server, that the
// pause of the network does, and that the log tells the flows apart.
func TestMockedFlow(t *testing.T) {
	s := &stub{}
	w := start(t, document(t, 1, "allow: [api.example.com]\n"), nil, playing(s))
	c := w.client(t, false)
	fetch(t, c, "GET", "https://api.example.com/", nil)
	w.SetPolicy(document(t, 2, "deny: [api.example.com]\n"))
	fetch(t, c, "GET", "https://api.example.com/", nil)
	w.Pause("no room")
	if status, text, _ := fetch(t, c, "GET", "https://api.example.com/", nil); status != http.StatusServiceUnavailable || !strings.Contains(text, "no room") {
		t.Errorf("%d %s", status, text)
	}
	if _, err := w.in.DialName(t.Context(), "model.example.com", 443); err == nil {
		t.Error("another connection is let through")
	}
	w.Pause("")
	c.CloseIdleConnections()
	r := w.record(t, "the flow", func(r spec.NetworkRecord) bool { return r.Event == spec.NetworkFlow && r.Mocked && r.Up > 0 })
	if r.Verdict != spec.VerdictAllow || r.Protocol != "https" || r.Addr.IsValid() || !strings.Contains(r.Reason, "mock") {
		t.Errorf("the record says %+v", r)
	}
}

// TestMockedTrouble checks that an answer that is cut off, or never comes, ends as it would with a
// server, and is not reported as a mistake of the gateway.
func TestMockedTrouble(t *testing.T) {
	s := &stub{}
	w := start(t, document(t, 1, ""), nil, playing(s))
	for _, h2 := range []bool{false, true} {
		c := w.client(t, h2)
		var raw atomic.Pointer[net.Conn]
		c.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, to string) (net.Conn, error) {
			conn, err := w.dialName(ctx, network, to)
			raw.Store(&conn)
			return conn, err
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example.com/cut", nil)
		must(t, err)
		resp, err := c.Do(r)
		must(t, err)
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if string(text) != "half of " || err == nil {
			t.Errorf("h2 %v: %q, %v", h2, text, err)
		}
		path := fmt.Sprintf("/hang/%t", h2)
		ctx, hangUp := context.WithCancel(t.Context())
		r, err = http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example.com"+path, nil)
		must(t, err)
		go func() {
			defer hangUp()
			s.await(t, path, 1)
			if !h2 { // a cut: a plain close could mean that it has sent all
				_ = (*raw.Load()).Close()
			}
		}()
		if resp, err := c.Do(r); err == nil {
			_ = resp.Body.Close()
			t.Errorf("h2 %v: it is answered: %d", h2, resp.StatusCode)
		}
		w.record(t, "the end of what hung", func(r spec.NetworkRecord) bool {
			return r.Event == spec.NetworkRequest && r.Path == path && r.Mocked
		})
	}
}

// TestMockedClose checks that the end of the gateway does not wait for an answer that never comes.
func TestMockedClose(t *testing.T) {
	s := &stub{}
	w := start(t, document(t, 1, ""), nil, playing(s))
	for _, h2 := range []bool{false, true} {
		c := w.client(t, h2)
		go func() {
			if resp, err := c.Get("https://api.example.com/hang"); err == nil {
				_ = resp.Body.Close()
			}
		}()
	}
	s.await(t, "/hang", 2)
	closed := make(chan struct{})
	go func() { defer close(closed); w.Close() }()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("it waits")
	}
}

// TestMockedNotHTTP checks that a played server gets nothing but HTTP.
func TestMockedNotHTTP(t *testing.T) {
	w := start(t, document(t, 1, "allow: [api.example.com]\n"), nil, playing(&stub{}))
	c, err := w.in.DialName(t.Context(), "api.example.com", 22)
	must(t, err)
	defer func() { _ = c.Close() }()
	_, _ = io.WriteString(c, "SSH-2.0-client\r\n")
	if text, err := io.ReadAll(c); err == nil && !strings.HasPrefix(string(text), "HTTP/1.1 400") {
		t.Errorf("%q", text)
	}
}

// TestMockedAdvice checks that a program inside can ask which servers are played.
func TestMockedAdvice(t *testing.T) {
	w := start(t, document(t, 1, ""), nil, playing(&stub{}))
	c := w.client(t, false)
	if _, text, _ := fetch(t, c, "GET", "http://policy.bothy/", nil); !strings.Contains(text, "by a mock, whatever the rules\n  api.example.com model.example.com\n") {
		t.Error(text)
	}
	for _, accept := range []string{"text/plain", "application/json"} {
		_, text, _ := fetch(t, c, "GET", "http://policy.bothy/check?url=https://api.example.com/v1", nil, "Accept", accept)
		if !strings.Contains(text, "allowed") || !strings.Contains(text, "mock answers it") || strings.Contains(text, "policy allow") {
			t.Error(text)
		}
	}
}
