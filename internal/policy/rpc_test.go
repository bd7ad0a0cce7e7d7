package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/policy/gitrepo"
	"github.com/bothy-dev/bothy/internal/policy/rpccall"
)

const callsPolicy = `
allow:
  - {host: "mcp.example.com:443", paths: [/mcp], rpc: [initialize, "notifications/*", tools/list, "tools/call search_*", tools/call get]}
  - {host: "all.example.com:443", rpc: [tools/call, response], methods: [POST, GET, DELETE]}
  - {host: "any.example.com:443", rpc: ["*"], query: [method=x]}
  - {host: "two.example.com:443", rpc: [a/*], max_body: 10}
  - {host: "two.example.com:443", rpc: [b]}
`

// calling is ask with calls in the body: "METHOD URL rpc CALL, CALL".
func calling(tb testing.TB, text string) Query {
	tb.Helper()
	text, calls, ok := strings.Cut(text, " rpc ")
	q := ask(tb, text)
	if ok {
		q.Request.RPC = strings.Split(calls, ", ")
	}
	return q
}

func TestCalls(t *testing.T) {
	p := policyOf(t, LayerUser, callsPolicy)
	for _, text := range []string{
		"+POST https://mcp.example.com/mcp rpc tools/list",
		"+POST https://mcp.example.com/mcp rpc notifications/initialized",
		"+POST https://mcp.example.com/mcp rpc notifications/tools/list_changed",
		"+POST https://mcp.example.com/mcp rpc tools/call search_docs",
		"+POST https://mcp.example.com/mcp rpc tools/call search_",
		"+POST https://mcp.example.com/mcp rpc tools/call get",
		"+POST https://mcp.example.com/mcp rpc tools/list, initialize, tools/call get",
		"+POST https://mcp.example.com/mcp?sessionId=1 rpc tools/list",
		"-POST https://mcp.example.com/mcp rpc tools/call delete_all",
		"-POST https://mcp.example.com/mcp rpc tools/call get2",
		"-POST https://mcp.example.com/mcp rpc tools/call Get",
		"-POST https://mcp.example.com/mcp rpc tools/call search_/../delete",
		"-POST https://mcp.example.com/mcp rpc notifications/..",
		"-POST https://mcp.example.com/mcp rpc tools/lists",
		"-POST https://mcp.example.com/mcp rpc response",
		"-POST https://mcp.example.com/mcp rpc tools/list, tools/call delete_all",
		"-POST https://mcp.example.com/mcp rpc tools/call delete_all, tools/list",
		"-POST https://mcp.example.com/other rpc tools/list",
		"-POST https://mcp.example.com/mcp?method=tools/list rpc tools/list",
		"-POST https://mcp.example.com/mcp?PARAMS=x rpc tools/list",
		"-POST https://mcp.example.com/mcp?%6ason%72pc=x rpc tools/list",
		"-POST https://mcp.example.com/mcp?x=%zz rpc tools/list",
		"-POST https://mcp.example.com/mcp?+method=x rpc tools/list", // as PHP reads it
		"-POST https://mcp.example.com/mcp?method%00z=x rpc tools/list",
		"-POST https://mcp.example.com/mcp?params[name]=x rpc tools/list",
		"+POST https://mcp.example.com/mcp?methods=x rpc tools/list",
		"-GET https://mcp.example.com/mcp", "-DELETE https://mcp.example.com/mcp", "-PUT https://mcp.example.com/mcp rpc tools/list",
		// A malformed call cannot be understood as a question.
		"-POST https://mcp.example.com/mcp rpc tools/call", "-POST https://mcp.example.com/mcp rpc tools/list x",
		"-POST https://mcp.example.com/mcp rpc tools/call search_*", "-POST https://mcp.example.com/mcp rpc tools/call search_ x",
		"-POST https://mcp.example.com/mcp rpc ", "-POST https://mcp.example.com/mcp rpc notifications/ä",
		// A rule without a tool is about all tools. A rule has to name answers.
		"+POST https://all.example.com/ rpc tools/call delete_all", "+POST https://all.example.com/ rpc response", "-POST https://all.example.com/ rpc tools/list",
		"+GET https://all.example.com/", "+DELETE https://all.example.com/", "-GET https://all.example.com/?method=tools/call", "-HEAD https://all.example.com/",
		"-GET wss://all.example.com/",
		"+POST https://any.example.com/?method=x rpc whatever", "-POST https://any.example.com/?method=x rpc response", "-POST https://any.example.com/ rpc whatever",
		// One rule must admit all calls of a batch.
		"+POST https://two.example.com/ rpc a/1, a/2", "+POST https://two.example.com/ rpc b", "-POST https://two.example.com/ rpc a/1, b",
	} {
		q := calling(t, text[1:])
		d := p.Decide(q)
		if d.Allowed() != (text[0] == '+') || d.Cause == CauseBody {
			t.Errorf("%s: %s", text, d.Reason())
		}
		if d.Cause == CauseRequest && len(q.Request.RPC) > 0 && !strings.Contains(d.Reason(), rpccall.Text(q.Request.RPC)) {
			t.Errorf("%s: the reason does not name the calls: %s", text, d.Reason())
		}
	}
}

// TestUnreadCalls checks that the body is asked for only where its calls matter.
func TestUnreadCalls(t *testing.T) {
	p := policyOf(t, LayerUser, callsPolicy+"  - {host: open.example.com, rpc: [a]}\n  - {host: open.example.com, methods: [POST], paths: [/open]}\n",
		LayerProject, "allow: [{host: \"*.example.com\", rpc: [b, tools/list]}, {host: open.example.com}]\n")
	for text, want := range map[string]Cause{
		"POST https://mcp.example.com/mcp":          CauseBody,
		"POST https://mcp.example.com/mcp?method=x": CauseRequest,
		"POST https://mcp.example.com/other":        CauseRequest,
		"GET https://mcp.example.com/mcp":           CauseRequest,
		"POST https://open.example.com/open":        CauseRule,
		"POST https://open.example.com/":            CauseBody,
		"POST https://none.example.com/":            CauseNoRule,
		"GET https://all.example.com/":              CauseProject,
		"POST https://two.example.com/":             CauseBody,
		"POST https://two.example.com/ rpc a/1":     CauseProject,
		"POST https://two.example.com/ rpc b":       CauseRule,
	} {
		d := p.Decide(calling(t, text))
		if d.Cause != want || d.Allowed() != (want == CauseRule) {
			t.Errorf("%s: %s: %s", text, d.Cause, d.Reason())
		}
	}
	for text, most := range map[string]int64{"POST https://two.example.com/ rpc a/1": 10, "POST https://two.example.com/ rpc b": 1 << 20, "GET https://all.example.com/": 0} {
		for _, size := range []int64{most, most + 1, -1} {
			q := calling(t, text)
			q.Request.Body = size
			want := size == most || most == 1<<20 || size == -1 && most > 0
			if d := policyOf(t, LayerUser, callsPolicy).Decide(q); d.Allowed() != want {
				t.Errorf("%s with %d bytes: %s", text, size, d.Reason())
			}
		}
	}
	for text, want := range map[string]string{
		"connect mcp.example.com:443": "must", "connect all.example.com:443": "must",
	} {
		if d := p.Decide(ask(t, text)); d.Inspection.String() != want {
			t.Errorf("%s: inspection %s", text, d.Inspection)
		}
	}
	x := p.Explain(ask(t, "POST https://mcp.example.com/mcp"))
	if text := x.Text(""); !strings.Contains(text, "allows some calls") || !strings.Contains(text, "its body has to be judged") || !strings.Contains(text, "--rpc") {
		t.Errorf("%s", text)
	}
}

func TestSuggestCalls(t *testing.T) {
	p := policyOf(t, LayerUser, callsPolicy)
	for text, want := range map[string]string{
		"POST https://mcp.example.com/mcp rpc tools/call delete_all":                      "bothy policy allow mcp.example.com:443 --path /mcp --rpc 'tools/call delete_all' --sandbox box",
		"POST https://mcp.example.com/mcp rpc tools/call a, tools/list, tools/call a":     "bothy policy allow mcp.example.com:443 --path /mcp --rpc 'tools/call a' --rpc tools/list --sandbox box",
		"POST https://mcp.example.com/mcp rpc response":                                   "bothy policy allow mcp.example.com:443 --path /mcp --rpc response --sandbox box",
		"GET https://mcp.example.com/mcp":                                                 "bothy policy allow mcp.example.com:443 --method GET --path /mcp --sandbox box",
		"POST https://mcp.example.com/other":                                              "bothy policy allow mcp.example.com:443 --method POST --path /other --sandbox box",
		"POST https://mcp.example.com/mcp?method=tools/call":                              "", // a rule without calls would let every call pass
		"POST https://mcp.example.com/mcp":                                                "",
		"POST https://mcp.example.com/mcp rpc tools/call $(x)":                            "",
		"POST https://mcp.example.com/mcp rpc " + strings.Join(manyCalls(17), ", "):       "",
		"POST https://mcp.example.com/mcp rpc tools/call x!'y, tools/call `rm`, tools/ca": "",
	} {
		d := p.Decide(calling(t, text))
		s := d.Suggest()
		if got := s.Command("box"); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		if want == "" {
			continue
		}
		r, ok := s.Rule()
		if !ok {
			t.Errorf("%s: it suggests no rule", text)
			continue
		}
		after := compile(t, Input{LayerUser, blockOf(t, callsPolicy)}, Input{LayerSandbox, Block{Allow: []Rule{r}}})
		if d := after.Decide(calling(t, text)); !d.Allowed() {
			t.Errorf("%s: with the rule %s: %s", text, &r, d.Reason())
		}
	}
}

func manyCalls(n int) []string {
	var list []string
	for i := range n {
		list = append(list, "call/"+strings.Repeat("x", i+1))
	}
	return list
}

func TestParseCall(t *testing.T) {
	q, err := ParseCall("https://a.example/mcp", "", []string{"tools/call x"}, noon)
	if err != nil || q.Request.Method != callMethod || !slices.Equal(q.Request.RPC, []string{"tools/call x"}) {
		t.Errorf("%+v %v", q, err)
	}
	if q, err := ParseCall("https://a.example/mcp", "", nil, noon); err != nil || q.Request.Method == callMethod || q.Request.RPC != nil {
		t.Errorf("%+v %v", q, err)
	}
	for _, c := range [][]string{{""}, {"tools/call"}, {"a b"}, {"a*"}, {"a", "a\n"}} {
		if _, err := ParseCall("https://a.example/mcp", "", c, noon); err == nil {
			t.Errorf("%q is read", c)
		}
	}
	if _, err := ParseCall("a.example", "", []string{"a"}, noon); err == nil {
		t.Error("a call without a URL is read")
	}
}

// TestCallsMatterWhereTheyAreAskedFor checks random rules. A request whose body is needed
// is denied, without a suggestion, until the body is read. If the body is not needed, the
// answer is the same for any body. A list of calls passes only if each call passes.
func TestCallsMatterWhereTheyAreAskedFor(t *testing.T) {
	always(t, func(t *testing.T, c choice) {
		p := must(t, randomInputs(c))
		for _, q := range asked(c) {
			if q.Request == nil {
				continue
			}
			r := *q.Request
			r.RPC, q.Request = nil, &r
			before := p.Decide(q)
			if before.Cause == CauseBody && (before.Allowed() || before.Suggest().Command("") != "") {
				t.Fatalf("%+v: %s", r, before.Reason())
			}
			some := false
			for _, list := range [][]string{{"a"}, {"b"}, {"tools/list"}, {"tools/call x"}, {rpccall.Answer}, {"a", "tools/call x"}, {"a", "b"}} {
				r.RPC = list
				after := p.Decide(q)
				some = some || after.Allowed()
				if r.Method == callMethod && before.Cause != CauseBody && before.Allowed() != after.Allowed() {
					t.Fatalf("%+v: unread %s; then %s", r, before.Reason(), after.Reason())
				}
				for _, one := range list {
					r.RPC = []string{one}
					if alone := p.Decide(q); after.Allowed() && !alone.Allowed() {
						t.Fatalf("%+v: %q is let through, and not %q", r, list, one)
					}
				}
			}
			if before.Cause == CauseBody && !some && before.missed == nil {
				t.Fatalf("%+v: %s", r, before.Reason())
			}
		}
	})
}

// TestSuggestNoWayRoundCalls checks that no suggestion would let a call pass unjudged to a server that
// reads paths differently.
func TestSuggestNoWayRoundCalls(t *testing.T) {
	p := policyOf(t, LayerUser, callsPolicy)
	for text, safe := range map[string]bool{
		"POST https://mcp.example.com/mcp":    false,
		"POST https://mcp.example.com/mcp/":   false,
		"POST https://mcp.example.com/MCP":    false,
		"POST https://mcp.example.com//mcp":   false,
		"POST https://mcp.example.com/other":  true,
		"PATCH https://mcp.example.com/other": true,
	} {
		d := p.Decide(ask(t, text))
		if s := d.Suggest(); d.Allowed() || (len(s.Args) > 0) != safe {
			t.Errorf("%s: %s, suggested %v (%s)", text, d.Reason(), s.Args, s.Note)
		}
	}
}

func TestManyCallsAreNoQuestion(t *testing.T) {
	calls := slices.Repeat([]string{"tools/list"}, rpccall.Max)
	if _, err := ParseCall("https://mcp.example.com/mcp", "", calls, noon); err != nil {
		t.Error(err)
	}
	if _, err := ParseCall("https://mcp.example.com/mcp", "", append(calls, "ping"), noon); err == nil {
		t.Error("one more is a question, too")
	}
}

// TestRefusedAtSpecialAddress checks a special address that a rule opens for some requests.
// Another request there is refused for its own content, and the suggestion does not open
// the whole address.
func TestRefusedAtSpecialAddress(t *testing.T) {
	p := compile(t, Input{LayerUser, blockOf(t, `{allow: [{host: "10.1.2.3:80", paths: [/mcp], rpc: [tools/list]}, {host: "10.1.2.4:80", methods: [GET]}, {host: "10.1.2.5:22", git: [a/b]}, {host: "0.0.0.0/0:80", methods: [GET]}]}`)})
	call, err := ParseCall("http://10.1.2.3/mcp", "", []string{"tools/call delete"}, noon)
	if err != nil {
		t.Fatal(err)
	}
	git := asks(t, "http://10.1.2.5:22/")
	git.Stage, git.Request, git.Git = StageGit, nil, &GitRequest{Service: gitrepo.Fetch, Repository: "a/c", User: "git"}
	for want, q := range map[string]Query{
		"bothy policy allow 10.1.2.3:80 --path /mcp --rpc 'tools/call delete'": call,
		"bothy policy allow 10.1.2.4:80 --method POST --path /x":               asks(t, "POST http://10.1.2.4/x"),
		"bothy policy allow 10.1.2.5:22 --git a/c":                             git,
	} {
		d := p.Decide(q)
		s := d.Suggest()
		if d.Allowed() || d.Cause != CauseRequest || s.Command("") != want {
			t.Errorf("%s: %s: %s", want, d.Reason(), s.Command(""))
		}
	}
	d := p.Decide(asks(t, "POST http://10.1.2.6/x"))
	if d.Allowed() || d.Cause != CauseSpecial {
		t.Errorf("what no rule opens: %s", d.Reason())
	}
}
