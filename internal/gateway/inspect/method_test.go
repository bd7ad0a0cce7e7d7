package inspect

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/gateway/inspect/upstream"
	"github.com/bothy-dev/bothy/internal/gateway/uploadlimit"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// TestMethodInForm checks that a form that asks for another method is judged as that method, before
// the server has the field.
func TestMethodInForm(t *testing.T) {
	const urlencoded = "application/x-www-form-urlencoded"
	for name, c := range map[string]struct {
		rules, head, body string
		passes            bool
	}{
		"no field":            {"", "Content-Type: " + urlencoded, "a=b&method=c", true},
		"a field":             {"", "Content-Type: " + urlencoded + "; charset=utf-8", "a=b&_method=DELETE", false},
		"without a type":      {"", "X: y", "a=b&_method=DELETE", false},
		"in parts":            {"", "Content-Type: multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"_method\"\r\n\r\nDELETE\r\n--x--\r\n", false},
		"compressed":          {"", "Content-Encoding: gzip\r\nContent-Type: " + urlencoded, "\x1f\x8b", false},
		"of another type":     {"", "Content-Type: text/plain", "_method=DELETE", true},
		"every method passes": {"all", "Content-Type: " + urlencoded, "_method=DELETE", true},
		"denied":              {"deny", "Content-Type: " + urlencoded, "_method=DELETE", false},
		"denied another":      {"deny", "Content-Type: " + urlencoded, "a=b", true},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(chan string, 1)
			f := newFar(t, func(_ int, conn net.Conn, r *bufio.Reader) {
				defer close(got)
				q, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				b, err := io.ReadAll(q.Body)
				if err == nil {
					say(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
				got <- string(b)
			})
			conf := passing(t, "far.example", f.listener.Addr())
			if c.rules != "all" {
				p := rulesOf(t, c.rules)
				conf.Judge = func(h upstream.Host, r *policy.Request) policy.Decision { return decide(p, h, r) }
			}
			records := make(chan spec.NetworkRecord, 1)
			conf.Log = func(r spec.NetworkRecord, _ *policy.Decision) { records <- r }
			conn := serving(t, New(conf))
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\n"+host+"%s\r\nContent-Length: %d\r\n\r\n%s", c.head, len(c.body), c.body)
			resp, body := answerTo(t, "POST", bufio.NewReader(conn))
			if c.passes != (resp.StatusCode == http.StatusOK) || !c.passes && (resp.StatusCode != http.StatusForbidden || !strings.Contains(body, "the body asks for another method")) {
				t.Errorf("%s: %s", resp.Status, body)
			}
			if r := <-records; c.passes != (r.Verdict != spec.VerdictDeny) {
				t.Errorf("the record is %+v", r)
			}
			if !strings.HasPrefix(c.head, "Content-Encoding") { // its head gets it refused
				if b := <-got; c.passes != (b == c.body) || !c.passes && strings.Contains(b, "_method") {
					t.Errorf("the server has %q", b)
				}
			}
		})
	}
}

// TestBoundsOfMethodInForm checks that a form that asks for another method may have only the body,
// and send only the bytes, that the rule for that method allows.
func TestBoundsOfMethodInForm(t *testing.T) {
	const kib = 1 << 10
	long := strings.Repeat("a", 2*kib)
	for name, c := range map[string]struct {
		post, any policy.Rule // they allow POST, and any method
		body      string
		status    int
		says      string
	}{
		"within the limit":      {any: policy.Rule{HTTP: policy.Conditions{MaxBody: kib}}, body: "_method=PUT&a=b", status: 200},
		"no field":              {any: policy.Rule{HTTP: policy.Conditions{MaxBody: kib}}, body: "a=" + long, status: 200},
		"beyond the limit":      {any: policy.Rule{HTTP: policy.Conditions{MaxBody: kib}}, body: "_method=PUT&a=" + long, status: 413, says: "body up to 1024 bytes"},
		"a field beyond it":     {any: policy.Rule{HTTP: policy.Conditions{MaxBody: kib}}, body: "a=" + long + "&_method=PUT", status: 413, says: "body up to 1024 bytes"},
		"the first limit":       {post: policy.Rule{HTTP: policy.Conditions{MaxBody: kib}}, any: policy.Rule{HTTP: policy.Conditions{MaxBody: 100}}, body: "_method=PUT&a=" + long, status: 413, says: "body up to 100 bytes"},
		"counts for another":    {post: policy.Rule{MaxUpload: 9 * kib}, any: policy.Rule{MaxUpload: kib}, body: "_method=PUT&a=" + long, status: 403, says: "max_upload are used up"},
		"counts, and is enough": {post: policy.Rule{MaxUpload: 9 * kib}, any: policy.Rule{MaxUpload: 8 * kib}, body: "_method=PUT&a=" + long, status: 200},
		"was not counted":       {any: policy.Rule{MaxUpload: 9 * kib}, body: "_method=PUT&a=b", status: 403, says: "not counted"},
		"need not be counted":   {any: policy.Rule{MaxUpload: 9 * kib}, body: "a=b", status: 200},
	} {
		t.Run(name, func(t *testing.T) {
			c.post.HTTP.Methods = []string{"POST"}
			var rules []policy.Rule
			for _, r := range []policy.Rule{c.post, c.any} {
				parsed, err := policy.ParseRule(policy.Allow, "far.example")
				if err != nil {
					t.Fatal(err)
				}
				parsed.HTTP, parsed.MaxUpload = r.HTTP, r.MaxUpload
				rules = append(rules, parsed)
			}
			p, err := policy.Compile(1, policy.Input{Layer: policy.LayerUser, Block: policy.Block{Allow: rules}})
			if err != nil {
				t.Fatal(err)
			}
			f := newFar(t, func(_ int, conn net.Conn, r *bufio.Reader) {
				q, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				if _, err := io.ReadAll(q.Body); err == nil {
					say(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
			})
			conf, ledger := passing(t, "far.example", f.listener.Addr()), uploadlimit.New(nil, nil)
			conf.Judge = func(h upstream.Host, r *policy.Request) policy.Decision { return decide(p, h, r) }
			conf.Outflow = func(b *policy.Budget) *uploadlimit.Meter { return ledger.Meter(b.Target, b.Limit) }
			conn := serving(t, New(conf))
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\n"+host+"Content-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(c.body), c.body)
			resp, body := answerTo(t, "POST", bufio.NewReader(conn))
			if resp.StatusCode != c.status || !strings.Contains(body, c.says) {
				t.Errorf("%s: %s", resp.Status, body)
			}
		})
	}
}

// rulesOf allows GET and POST, or all but DELETE.
func rulesOf(t *testing.T, kind string) *policy.Policy {
	t.Helper()
	rule := func(a policy.Action, c policy.Conditions) []policy.Rule {
		r, err := policy.ParseRule(a, "far.example")
		if err != nil {
			t.Fatal(err)
		}
		r.HTTP = c
		return []policy.Rule{r}
	}
	b := policy.Block{Allow: rule(policy.Allow, policy.Conditions{Methods: []string{"GET", "POST"}})}
	if kind == "deny" {
		b = policy.Block{Allow: rule(policy.Allow, policy.Conditions{}), Deny: rule(policy.Deny, policy.Conditions{Methods: []string{"DELETE"}})}
	}
	p, err := policy.Compile(1, policy.Input{Layer: policy.LayerUser, Block: b})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
