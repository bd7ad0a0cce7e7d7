package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestPause checks that a paused network lets nothing new through, by name or by address, and sends
// no query outside. Active flows go on. Afterwards all works as before.
func TestPause(t *testing.T) {
	port, seen := echo(t, "")
	w := start(t, rules(t, 1, "allow api.example.com", "allow late.example.com", "allow 127.0.0.0/8"),
		map[string][]string{"api.example.com": here, "late.example.com": here})
	first, err := w.in.DialName(t.Context(), "api.example.com", port)
	must(t, err)
	defer first.Close()
	talk := func() error {
		if _, err := io.WriteString(first, "x"); err != nil {
			return err
		}
		_, err := io.ReadFull(first, make([]byte, 1))
		return err
	}
	must(t, talk())

	w.Pause("the log is full")
	asked, callers := len(w.asked()), seen()
	if c, err := w.in.DialName(t.Context(), "api.example.com", port); err == nil {
		c.Close()
		t.Error("a name is still reached")
	}
	if a, err := w.in.Resolver(false).LookupHost(t.Context(), "late.example.com."); err == nil {
		t.Errorf("a new name is at %v", a)
	}
	must(t, talk())
	if len(w.asked()) != asked || seen() != callers {
		t.Errorf("outside they asked for %v, and %d came", w.asked(), seen())
	}
	r := w.record(t, "the refusal", func(r spec.NetworkRecord) bool { return r.Verdict == spec.VerdictDeny })
	if !strings.Contains(r.Reason, "the log is full") || r.Suggest != "" {
		t.Errorf("it says %+v", r)
	}

	w.Pause("")
	c, err := w.in.DialName(t.Context(), "late.example.com", port)
	must(t, err)
	c.Close()
}

// TestPauseStopsRequests checks that no further request passes on an inspected connection, and that
// the inside learns why.
func TestPauseStopsRequests(t *testing.T) {
	o := newOrigin(t, true, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com]\n"), map[string][]string{"api.example.com": here}, o.trusting)
	c := w.client(t, false)
	url := fmt.Sprintf("https://api.example.com:%d/", o.port)
	if status, text, _ := fetch(t, c, "GET", url+"first", nil); status != 200 || text != "hello" {
		t.Fatalf("%d %q", status, text)
	}
	w.Pause("the log is full")
	if status, text, _ := fetch(t, c, "GET", url+"second", nil); status != http.StatusServiceUnavailable || !strings.Contains(text, "the log is full") {
		t.Errorf("%d %q", status, text)
	}
	w.Pause("")
	if status, _, _ := fetch(t, c, "GET", url+"third", nil); status != 200 {
		t.Errorf("%d", status)
	}
	if got := strings.Join(o.requests(), ", "); got != "GET /first, GET /third" {
		t.Errorf("outside they saw %s", got)
	}
}
