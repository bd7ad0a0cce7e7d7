package policy

import (
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

func TestExplain(t *testing.T) {
	p := policyOf(t,
		LayerUser, `
allow:
  - "**.example.com:22"
  - {host: api.example.com:443, methods: [GET], paths: ["/repos/**"]}
  - {host: api.example.com:443, until: "2026-11-20T11:00:00Z"}
deny: ["db.example.com"]
`,
		LayerSandbox, `presets: [npm]`,
		LayerProject, `{allow: ["**.example.com"]}`,
	)
	for _, tt := range []struct{ q, want string }{
		{"POST https://api.example.com/repos/x", `POST api.example.com:443/repos/x: deny
  api.example.com:443 is allowed, but not this request: POST api.example.com:443/repos/x; rule "api.example.com:443 GET /repos/**" (user) does not cover it; rule "api.example.com:443" (user) ended at 2026-11-20T11:00:00Z
  user           allow "**.example.com:22" is for port 22
  user           allow "api.example.com:443 GET /repos/**" has conditions that do not hold
  user           allow "api.example.com:443 until 2026-11-20T11:00:00Z" ended at 2026-11-20T11:00:00Z
  preset:npm     has no rule about it
  sandbox        has no rule about it
  project        allow "**.example.com" is in the project's list, which only narrows
  to change it: bothy policy allow api.example.com:443 --method POST --path /repos/x --sandbox box
`},
		{"connect db.example.com:22", `db.example.com:22: deny
  rule "db.example.com" (user) denies db.example.com:22
  user           deny "db.example.com" denies
  user           allow "**.example.com:22" allows
  preset:npm     has no rule about it
  sandbox        has no rule about it
  project        allow "**.example.com" is in the project's list, which only narrows
  to change it: bothy policy rm --id ` + ruleID(t, Deny, "db.example.com") + `
`},
	} {
		x := p.Explain(ask(t, tt.q))
		if got := x.Text("box"); got != tt.want {
			t.Errorf("%s is explained as\n%s", tt.q, got)
		}
	}
}

func TestParseQuery(t *testing.T) {
	for in, want := range map[string]string{
		"example.com": "connect example.com:443", "EXAMPLE.com.:22": "connect example.com:22", "8.8.8.8": "connect 8.8.8.8:443", "[2001:db8::1]:53": "connect [2001:db8::1]:53",
		"https://Example.com": "request GET example.com:443/", "http://example.com/a?b=c#d": "request GET example.com:80/a?…", "wss://example.com:8443/x": "request GET example.com:8443/x",
		"https://[2001:db8::1]/x": "request GET [2001:db8::1]:443/x", "https://example.com?x": "request GET example.com:443/?…",
		"": "", "*.example.com": "", "**": "", "10.0.0.0/8": "", "ftp://example.com/": "", "https://user@example.com/": "", "https://": "", "://x": "", "a b": "",
	} {
		q, err := ParseQuery(in, "", noon)
		got := ""
		if err == nil {
			got = q.Stage.String() + " " + q.subject()
		}
		if got != want {
			t.Errorf("%q is %q (%v), want %q", in, got, err, want)
		}
	}
	if _, err := ParseQuery("example.com", "GET", noon); err == nil {
		t.Error("a name has a method")
	}
	q, err := ParseQuery("wss://example.com/", "", noon)
	if err != nil || q.Request.Upgrade != "websocket" {
		t.Errorf("%+v, %v", q.Request, err)
	}
}

// TestPasswordsAreNotTold checks that no error repeats the password in a copied URL.
func TestPasswordsAreNotTold(t *testing.T) {
	const password = "hunter2"
	for _, in := range []string{
		"https://me@github.com/acme/app", "http://me:hunter2@x.example/", "https://me:hunter2@x.example:443/a@b", "http://me:hunter2/9@x.example/", "http://me:hunter2?@x.example/",
		"ssh://git:hunter2@github.com/acme/app", "ssh://git:hunter2/9@github.com/%zz", "me:hunter2@x.example", "me:hunter2@x.example:80", "ftp://me:hunter2@x.example/",
	} {
		for _, method := range []string{"", "GET"} {
			_, err := ParseQuery(in, method, noon)
			if err == nil || strings.Contains(err.Error()+spec.Hint(err), password) || spec.Hint(err) == "" {
				t.Errorf("%s: %v, hint %q", in, err, spec.Hint(err))
			}
		}
		if _, err := ParseCall(in, "", []string{"ping"}, noon); err == nil || strings.Contains(err.Error()+spec.Hint(err), password) {
			t.Errorf("%s: %v, hint %q", in, err, spec.Hint(err))
		}
	}
	if _, err := ParseQuery("https://registry.npmjs.org/@scope/name", "", noon); err != nil {
		t.Error(err)
	}
}

func TestNamesOfValues(t *testing.T) {
	for got, want := range map[string]string{
		Action(0).String(): "", Layer(9).String(): "unknown", Stage(0).String(): "unknown", Cause(99).String(): "unknown", CauseQuestion.String(): "question", CauseBody.String(): "body",
		InspectHTTP.String(): "http", Source{LayerProject, "npm"}.String(): "project preset:npm", Source{LayerPreset, "npm"}.String(): "preset:npm",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if len(causeNames) != int(CauseBody)+1 {
		t.Error("a cause has no name")
	}
}
