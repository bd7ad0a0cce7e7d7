package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// follow applies a suggestion's commands.
func follow(t *testing.T, inputs []Input, s Suggestion) []Input {
	t.Helper()
	for _, one := range append([]Suggestion{s}, s.Then...) {
		r, adds := one.Rule()
		switch {
		case adds && one.Args[1] == "allow" && one.PerSandbox:
			r.Action = Allow
			inputs = with(inputs, LayerSandbox, r)
		case one.removes != nil && slices.Equal(one.Args, []string{"policy", "rm", "--id", one.removes.ID()}):
			inputs = less(inputs, one.removes.Source.Layer, one.removes.ID())
		default:
			t.Fatalf("%v is no command that is known here", one.Args)
		}
	}
	return inputs
}

// less returns the inputs without one rule of a layer.
func less(inputs []Input, l Layer, id string) []Input {
	inputs = slices.Clone(inputs)
	for i := range inputs {
		if b := &inputs[i].Block; inputs[i].Layer == l {
			b.Deny = slices.DeleteFunc(slices.Clone(b.Deny), func(r Rule) bool { return r.ID() == id })
		}
	}
	return inputs
}

// TestSuggestionsSuffice checks that the suggested commands together allow the denied
// question, and that all but the last do not.
func TestSuggestionsSuffice(t *testing.T) {
	told := 0
	always(t, func(t *testing.T, c choice) {
		inputs := randomInputs(c)
		p := must(t, inputs)
		for _, q := range asked(c) {
			d := p.Decide(q)
			s := d.Suggest()
			if len(s.Args) == 0 {
				continue
			}
			told++
			after, err := Compile(1, follow(t, inputs, s)...)
			if err != nil {
				t.Fatalf("%+v: %s: %v", q, s.Command("box"), err)
			}
			if e := after.Decide(q); !e.Allowed() {
				t.Fatalf("%+v %+v: %s; behind %s %s", q, q.Request, d.Reason(), s.Command("box"), e.Reason())
			}
			if n := len(s.Then); n > 0 {
				part := s
				part.Then = s.Then[:n-1]
				if e := must(t, follow(t, inputs, part)).Decide(q); e.Allowed() {
					t.Fatalf("%+v: %s is one command too many", q, s.Command("box"))
				}
			}
		}
	})
	if told < 100 {
		t.Errorf("%d suggestions", told)
	}
}

// TestNoSuggestionForServices checks that no rule is proposed for a name that no client connects to: apt
// looks up such names.
func TestNoSuggestionForServices(t *testing.T) {
	p := policyOf(t)
	for name, want := range map[string]string{
		"_http._tcp.deb.debian.org": "",
		"_acme-challenge.a.example": "bothy policy allow _acme-challenge.a.example:443 --sandbox box",
		"deb.debian.org":            "bothy policy allow deb.debian.org:443 --sandbox box",
	} {
		d := p.Decide(Query{Stage: StageLookup, Name: name, Now: noon})
		if s := d.Suggest(); s.Command("box") != want || want == "" && s.Note == "" {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// TestSuggestionsOfSeveral checks that a suggestion lists all commands if one does not
// suffice, or says why none does.
func TestSuggestionsOfSeveral(t *testing.T) {
	p := policyOf(t,
		LayerUser, `{allow: [c.example, d.example], deny: [a.example, "**.example", {host: c.example, methods: [GET]}, d.example]}`,
		LayerSandbox, `{presets: [npm], deny: [a.example]}`,
		LayerProject, `{allow: ["**.example", c.test], deny: [b.test]}`,
	)
	rm := func(text string) string { return "bothy policy rm --id " + ruleID(t, Deny, text) }
	for _, tt := range []struct{ q, command, note string }{
		{"connect a.example:443", rm("**.example") + " && " + rm("a.example") + " && " + rm("a.example") + " --sandbox box && bothy policy allow a.example:443 --sandbox box", ""},
		{"connect d.example:443", rm("**.example") + " && " + rm("d.example"), ""},
		{"connect a.test:443", "", "no command alone allows it: the project's own allow list leaves out a.test:443; add a.test:443 to the allow list of the project's bothy.yaml"},
		{"connect c.test:443", "bothy policy allow c.test:443 --sandbox box", ""},
		{"connect b.test:443", "", "the rule is in the project's bothy.yaml"},
	} {
		d := p.Decide(ask(t, tt.q))
		if s := d.Suggest(); sorted(s.Command("box")) != sorted(tt.command) || s.Note != tt.note {
			t.Errorf("%s:\n%q\n%q\nwant\n%q\n%q", tt.q, s.Command("box"), s.Note, tt.command, tt.note)
		}
	}
}

// sorted returns a command with its parts in a fixed order.
func sorted(command string) string {
	parts := strings.Split(command, " && ")
	slices.Sort(parts)
	return strings.Join(parts, " && ")
}

// TestSuggestionsByTranslation checks that the suggestion also opens the address that an
// IPv6 address carries, if a rule can open it.
func TestSuggestionsByTranslation(t *testing.T) {
	p := policyOf(t, LayerUser, `{allow: ["[64:ff9b::a00:2]", "[2002:a00:1::1]"]}`)
	const inside = "no command alone allows it: [64:ff9b::%s]:443 leads by translation to %s"
	for _, tt := range []struct{ q, command, note string }{
		{"connect [64:ff9b::a00:1]:443", "bothy policy allow '[64:ff9b::a00:1]:443' --sandbox box && bothy policy allow 10.0.0.1:443 --sandbox box", ""},
		{"connect [64:ff9b::a00:2]:443", "bothy policy allow 10.0.0.2:443 --sandbox box", ""},
		{"connect [2002:a00:1::1]:443", "bothy policy allow 10.0.0.1:443 --sandbox box", ""},
		{"connect [64:ff9b::808:808]:443", "bothy policy allow '[64:ff9b::808:808]:443' --sandbox box", ""},
		{"connect [64:ff9b::a9fe:a9fe]:443", "", fmt.Sprintf(inside, "a9fe:a9fe", "the metadata service of a cloud, which only a rule for that very address reaches")},
		{"connect [64:ff9b::e000:1]:443", "", fmt.Sprintf(inside, "e000:1", "a multicast address (RFC 5771), which is never reached")},
		{"connect [64:ff9b::7f00:1]:443", "", fmt.Sprintf(inside, "7f00:1", "the host itself (loopback), which only a rule within that range reaches")},
	} {
		d := p.Decide(ask(t, tt.q))
		if s := d.Suggest(); s.Command("box") != tt.command || s.Note != tt.note {
			t.Errorf("%s:\n%q\n%q\nwant\n%q\n%q", tt.q, s.Command("box"), s.Note, tt.command, tt.note)
		}
	}
}

// TestSuggestionsOfOddRequests checks that a request whose method or path no rule can name is allowed
// without it, and that the suggestion says so.
func TestSuggestionsOfOddRequests(t *testing.T) {
	const anyMethod, anyPath = "no rule can tell which method it has, so this allows every method", "the path cannot be judged, so this allows every path"
	p := policyOf(t, LayerUser, `{allow: [{host: a.example, methods: [GET], paths: [/x]}]}`)
	for _, tt := range []struct {
		method, url   string
		field         string
		command, note string
	}{
		{"PATCH", "/y", "", " --method PATCH --path /y", ""},
		{"patch", "/y", "", " --path /y", anyMethod},
		{"ANY", "/y", "", " --path /y", anyMethod},
		{"POST", "/x?_method=PUT", "", " --path /x", anyMethod},
		{"POST", "/x", "X-HTTP-Method-Override", " --path /x", anyMethod},
		{"POST", "/x", "X-Original-URL", " --method POST", anyPath},
		{"POST", "/x//y", "X-Http-Method", "", anyPath + "; " + anyMethod},
	} {
		q := ask(t, tt.method+" https://a.example"+tt.url)
		if tt.field != "" {
			q.Request.Header = map[string][]string{tt.field: {"/x"}}
		}
		d := p.Decide(q)
		if s := d.Suggest(); s.Command("box") != "bothy policy allow a.example:443"+tt.command+" --sandbox box" || s.Note != tt.note {
			t.Errorf("%s %s %s: %q, %q", tt.method, tt.url, tt.field, s.Command("box"), s.Note)
		}
	}
}

// TestSuggestionsThatGuess checks that the port of a lookup is a guess, unless a rule names
// it.
func TestSuggestionsThatGuess(t *testing.T) {
	p := policyOf(t, LayerSandbox, `{allow: ["*.wide.example", "*.db.example:5432"], deny: [never.example]}`)
	for q, want := range map[string]bool{
		"lookup a.example": true, "connect a.example:443": false, "connect a.example:5432": false,
		"lookup never.example": true, // rm, and then allow
	} {
		d := p.Decide(ask(t, q))
		if s := d.Suggest(); s.Guessed() != want || len(s.Args) == 0 {
			t.Errorf("%s: %q: %t", q, s.Command(""), s.Guessed())
		}
	}
	for q, want := range map[string]bool{"lookup a.wide.example": true, "lookup a.db.example": false} {
		d := p.Decide(ask(t, q))
		if s := d.Spelled(); s.Guessed() != want || len(s.Args) == 0 {
			t.Errorf("%s: %q: %t", q, s.Command(""), s.Guessed())
		}
	}
}
