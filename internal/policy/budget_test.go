package policy

import (
	"math"
	"strings"
	"testing"
	"time"
)

// budgetOf returns the budget for a question: "target limit", "none", or "denied".
func budgetOf(p *Policy, q Query) string {
	d := p.Decide(q)
	switch {
	case !d.Allowed():
		return "denied"
	case d.Budget == nil:
		return "none"
	}
	return d.Budget.Target + " " + sizeText(d.Budget.Limit)
}

// asks is ask that also reads a connection without the word.
func asks(t *testing.T, text string) Query {
	t.Helper()
	if !strings.Contains(text, " ") {
		text = "connect " + text
	}
	return ask(t, text)
}

// TestBudget checks that of several rules the one with the largest budget counts.
func TestBudget(t *testing.T) {
	for _, tt := range []struct {
		name, rules string
		want        map[string]string
	}{
		{"one rule", `{allow: [{host: "A.example.com:443", max_upload: 5KiB}, b.example.com]}`, map[string]string{
			"a.example.com": "a.example.com:443 5KiB", "GET https://a.example.com/": "a.example.com:443 5KiB",
			"b.example.com": "none", "c.example.com": "denied",
		}},
		{"a larger one", `{allow: [{host: a.example.com, max_upload: 5KiB}, {host: "*.example.com", max_upload: 7KiB}]}`, map[string]string{
			"a.example.com": "*.example.com 7KiB", "b.example.com": "*.example.com 7KiB", "POST https://a.example.com/": "*.example.com 7KiB",
		}},
		{"one without", `{allow: [{host: a.example.com, max_upload: 5KiB}, "*.example.com"]}`, map[string]string{"a.example.com": "none"}},
		{"the default", `{default: allow, allow: [{host: a.example.com, max_upload: 5KiB}]}`, map[string]string{
			"a.example.com": "none", "GET https://a.example.com/": "none",
		}},
		{"one without, of some requests", `{allow: [{host: a.example.com, max_upload: 5KiB}, {host: a.example.com, methods: [GET]}]}`, map[string]string{
			"a.example.com":              "a.example.com 5KiB", // the connection's requests are not parsed
			"GET https://a.example.com/": "none", "POST https://a.example.com/": "a.example.com 5KiB",
		}},
		{"of some requests", `{allow: [{host: a.example.com, methods: [POST], max_upload: 5KiB}, {host: a.example.com, methods: [GET, POST], paths: ["/x"], max_upload: 6KiB}]}`, map[string]string{
			"a.example.com":               "none", // its requests have them
			"POST https://a.example.com/": "a.example.com 5KiB", "POST https://a.example.com/x": "a.example.com 6KiB",
			"GET https://a.example.com/x": "a.example.com 6KiB", "GET https://a.example.com/": "denied",
		}},
		{"a deny", `{allow: [{host: a.example.com, max_upload: 5KiB}], deny: [{host: a.example.com, methods: [PUT]}, "10.0.0.0/8"]}`, map[string]string{
			"PUT https://a.example.com/": "denied", "POST https://a.example.com/": "a.example.com 5KiB", "10.1.2.3": "denied",
		}},
		{"passed through", `{allow: [{host: a.example.com, max_upload: 5KiB, passthrough: true}]}`, map[string]string{"a.example.com": "a.example.com 5KiB"}},
		{"addresses", `{allow: [{host: "10.0.0.0/8", max_upload: 1}]}`, map[string]string{"10.1.2.3": "10.0.0.0/8 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := compile(t, Input{LayerUser, blockOf(t, tt.rules)})
			for text, want := range tt.want {
				if got := budgetOf(p, asks(t, text)); got != want {
					t.Errorf("%s: %s, want %s", text, got, want)
				}
			}
		})
	}
}

// TestBudgetAndBody checks that a budget comes with its rule's body limit. No single rule
// lets out as much as two rules together.
func TestBudgetAndBody(t *testing.T) {
	p := compile(t, Input{LayerUser, blockOf(t, `{allow: [{host: a.example.com, max_body: 10}, {host: a.example.com, max_upload: 5KiB}]}`)})
	q := ask(t, "POST https://a.example.com/")
	for body, want := range map[int64]struct{ limit, room int64 }{5: {10, 0}, -1: {10, 0}, 11: {NoLimit, 5 << 10}} {
		q.Request.Body = body
		d := p.Decide(q)
		room := int64(0)
		if d.Budget != nil {
			room = d.Budget.Limit
		}
		if !d.Allowed() || d.MaxBody != want.limit || room != want.room {
			t.Errorf("a body of %d: at most %d, %+v", body, d.MaxBody, d.Budget)
		}
	}
}

// TestUsedUp checks that a used-up budget is a denial, and that its reason says so. The
// suggested command allows more with a rule that is not wider.
func TestUsedUp(t *testing.T) {
	p := compile(t, Input{LayerUser, blockOf(t, `{allow: [
		{host: a.example.com:443, max_upload: 50MiB, why: "the weekly report"},
		{host: b.example.com, methods: [PUT, POST], paths: ["/in/*"], headers: {x-kind: "*"}, max_body: 10MiB, websocket: true, max_upload: 1000},
		{host: c.example.com, query: ["a=b"], max_upload: 9},
		{host: d.example.com, until: "2026-11-20T18:00:00Z", max_upload: 1GiB}]}`)})
	for text, want := range map[string]struct{ reason, command, note string }{
		"a.example.com": {
			`a.example.com:443 is allowed, but rule "a.example.com:443 upload up to 50MiB in all" (user) lets out no more: the 50MiB of its max_upload are used up (the weekly report)`,
			"bothy policy allow a.example.com:443 --max-upload 100MiB --why 'the weekly report' --sandbox box", "",
		},
		"d.example.com": {"1GiB of its max_upload", "bothy policy allow d.example.com --max-upload 2GiB --sandbox box", "ends at 2026-11-20T18:00:00Z"},
	} {
		d := p.Decide(asks(t, text))
		no := d.UsedUp(0)
		s := no.Suggest()
		if no.Allowed() || no.Cause != CauseUpload || !strings.Contains(no.Reason(), want.reason) || s.Command("box") != want.command || !strings.Contains(s.Note, want.note) {
			t.Errorf("%s: %s: %q: %q: %q", text, no.Cause, no.Reason(), s.Command("box"), s.Note)
		}
	}
	q := ask(t, "PUT https://b.example.com/in/x")
	q.Request.Header = map[string][]string{"X-Kind": {"y"}}
	d := p.Decide(q)
	no := d.UsedUp(0)
	s := no.Suggest()
	if got, want := s.Command("box"), `bothy policy allow b.example.com --method PUT --method POST --path '/in/*' --websocket --header 'x-kind: *' --max-body 10MiB --max-upload 10KiB --sandbox box`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	q = ask(t, "GET https://c.example.com/?a=b")
	d = p.Decide(q)
	no = d.UsedUp(0)
	if s := no.Suggest(); s.Command("box") != "" || s.Note == "" {
		t.Errorf("%q, %q", s.Command("box"), s.Note)
	}
	q = asks(t, "e.example.com")
	d = p.Decide(q)
	if no := d.UsedUp(0); no.Cause != d.Cause {
		t.Errorf("without a budget it becomes %s", no.Cause)
	}
}

// TestProjectHasNoBudget checks that a project only narrows. It sets no budget and removes
// none.
func TestProjectHasNoBudget(t *testing.T) {
	r := rule(t, Allow, "a.example.com")
	r.MaxUpload = 5
	_, err := Compile(1, Input{LayerProject, Block{Allow: []Rule{r}}})
	if err == nil || !strings.Contains(err.Error(), "max_upload") {
		t.Errorf("%v", err)
	}
	plain := r
	plain.MaxUpload = 0
	p, err := Compile(1, Input{LayerUser, Block{Allow: []Rule{r}}}, Input{LayerProject, Block{Allow: []Rule{plain}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := budgetOf(p, asks(t, "a.example.com")); got != "a.example.com 5" {
		t.Error(got)
	}
}

// TestSuggestionsAreBounded checks that a suggestion next to a rule with a budget, or after
// one, keeps that budget.
func TestSuggestionsAreBounded(t *testing.T) {
	p := policyOf(t, LayerUser, `
allow:
  - {host: "api.example.com:443", methods: [GET], max_upload: 1MiB}
  - {host: "old.example.com:443", max_upload: 2MiB, until: 2001-01-01T00:00:00Z}
`)
	for text, want := range map[string]int64{
		"POST https://api.example.com/u": 1 << 20,
		"old.example.com:443":            2 << 20,
		"new.example.com:443":            0,
	} {
		d := p.Decide(asks(t, text))
		s := d.Suggest()
		r, ok := s.Rule()
		if !ok || r.MaxUpload != want || strings.Contains(s.Command(""), "--max-upload") != (want > 0) {
			t.Errorf("%s: %+v, %q", text, r, s.Command(""))
		}
	}
}

// TestSuggestedBudgetSuffices checks that the suggested budget is enough for the refused
// request, as far as its size is known, whatever was sent before.
func TestSuggestedBudgetSuffices(t *testing.T) {
	p := compile(t, Input{LayerUser, blockOf(t, `{allow: [{host: a.example.com, methods: [PUT], max_upload: 1MiB}]}`)})
	for _, tt := range []struct {
		body, sent int64
		want, note string
	}{
		{0, 1 << 20, "2MiB", ""},
		{-1, 1 << 20, "2MiB", "it may take more"},
		{1000, 1 << 20, "2MiB", ""},
		{1 << 20, 1 << 20, "3MiB", ""},
		{10 << 20, 1 << 20, "13MiB", ""},
		{10 << 20, 1000, "13MiB", ""},                                    // the attempt uses up the rest
		{100 << 20, 1 << 20, "2MiB", "the request says that it has 100"}, // the sender may claim any length
		{1000, 7 << 20, "8MiB", ""},                                      // an earlier budget was larger
		{math.MaxInt64, 1 << 20, "2MiB", "the request says that it has"},
	} {
		q := ask(t, "PUT https://a.example.com/x")
		q.Request.Body = tt.body
		d := p.Decide(q)
		no := d.UsedUp(tt.sent)
		s := no.Suggest()
		if !strings.Contains(s.Command("box"), "--max-upload "+tt.want+" ") || !strings.Contains(s.Note, tt.note) || (s.Note == "") != (tt.note == "") {
			t.Errorf("%+v: %s (%s)", tt, s.Command("box"), s.Note)
		}
	}
	// A connection whose requests are not parsed states no size. It may have sent far more
	// than today's budget.
	open := compile(t, Input{LayerUser, blockOf(t, `{allow: [{host: a.example.com, max_upload: 1MiB}]}`)})
	for sent, want := range map[int64]string{0: "2MiB", 1 << 20: "2MiB", 100 << 20: "101MiB"} {
		d := open.Decide(Query{Stage: StageConnect, Name: "a.example.com", Port: 443, Now: time.Now()})
		no := d.UsedUp(sent)
		if s := no.Suggest(); !strings.Contains(s.Command("box"), "--max-upload "+want+" ") || s.Note != "" {
			t.Errorf("a connection after %d: %s (%s)", sent, s.Command("box"), s.Note)
		}
	}
	// size must be at least the number of bytes that the request takes on the wire.
	r := Request{Method: "POST", Host: "a.example.com", Path: "/x", Query: "a=b", Header: map[string][]string{"Accept": {"a", "b"}}, Body: 64 << 10}
	if least := int64(len("POST /x?a=b HTTP/1.1\r\nHost: a.example.com\r\nAccept: a\r\nAccept: b\r\nContent-Length: 65536\r\n\r\n") + 64<<10 + 64<<10/(1<<10)*9); r.estimateSize() < least {
		t.Errorf("%d bytes, not %d", r.estimateSize(), least)
	}
}
