package policy

import (
	"strings"
	"testing"
)

// TestUnseen checks that a suggested passthrough rule lets a client through that does not
// tolerate inspection. If no rule would, none is suggested.
func TestUnseen(t *testing.T) {
	const command = "bothy policy allow a.example.com:443 --passthrough --sandbox box"
	q := ask(t, "connect a.example.com:443")
	for _, c := range []struct{ rules, project, command, note string }{
		{`{inspect: all, allow: [a.example.com]}`, "", command, "unseen"},
		{`{inspect: all, default: allow}`, "", command, "unseen"},
		{`{allow: [{host: "**.example.com", methods: [GET]}]}`, "", command, "whatever it asks for"},
		{`{allow: [{host: a.example.com, inspect: true}]}`, "", command, "unseen, although a rule"},
		{`{inspect: all, allow: [{host: a.example.com, until: "2999-01-01T00:00:00Z"}]}`, "", "", "for a time"},
		{`{inspect: all, allow: [{host: a.example.com, max_upload: 5MiB}]}`, "", command[:len(command)-len(" --sandbox box")] + " --max-upload 5MiB --sandbox box", "unseen"},
		{`{inspect: all, allow: [a.example.com]}`, `{allow: [a.example.com]}`, command, "unseen"},
		{`{allow: [a.example.com]}`, `{allow: [{host: a.example.com, methods: [GET]}]}`, "", "project"},
		{`{allow: [a.example.com], deny: [{host: "*.example.com", methods: [PUT]}]}`, "", "", "denies some requests"},
		{`{inspect: all, allow: [a.example.com], deny: [a.example.com]}`, "", "", ""},
	} {
		layers := []Input{{LayerUser, blockOf(t, c.rules)}}
		if c.project != "" {
			layers = append(layers, Input{LayerProject, blockOf(t, c.project)})
		}
		s := compile(t, layers...).Unseen(q)
		if s.Command("box") != c.command || !strings.Contains(s.Note, c.note) || (s.Note == "") != (c.note == "") {
			t.Errorf("%s %s: %q, %q", c.rules, c.project, s.Command("box"), s.Note)
		}
		if len(s.Args) == 0 {
			continue
		}
		r, err := ParseRule(Allow, s.Args[2])
		if err != nil {
			t.Fatal(err)
		}
		r.Passthrough, r.MaxUpload = true, s.MaxUpload
		with := compile(t, append(layers, Input{LayerSandbox, Block{Allow: []Rule{r}}})...)
		if d := with.Decide(q); !d.Allowed() || d.Inspection != InspectNever {
			t.Errorf("%s %s: with the rule it is %v, and looked into: %v", c.rules, c.project, d.Action, d.Inspection)
		}
	}
}
