package policyfile

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/policy"
)

func TestGitRulesThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		`{host: "a.example:22", git: []}`:                          "is empty",
		`{host: "a.example:22", git: null}`:                        "has to be a list",
		`{host: "a.example:22", git: acme/app}`:                    "has to be a list",
		`{host: "a.example:22", git: [""]}`:                        "is none",
		`{host: "a.example:22", git: [acme/app, acme/app]}`:        "stands twice",
		`{host: "a.example:22", git: [acme/app.git]}`:              "form names are compared in",
		`{host: "a.example:22", git: [/acme/app]}`:                 "form names are compared in",
		`{host: "a.example:22", git: ["acme/a*"]}`:                 "not a whole part",
		`{host: "a.example:22", git: ["**/app"]}`:                  "not a whole part",
		`{host: "a.example:22", git: ["~*/app"]}`:                  "not a whole part",
		`{host: "a.example:22", git: [acme/..]}`:                   "ends in '.'",
		`{host: "a.example:22", git: ["acme//**"]}`:                "form names are compared in",
		`{host: "a.example:22", push: true}`:                       "push is for a rule with git",
		`{host: "a.example", git: [acme/app]}`:                     "needs a port",
		`{host: "a.example:22", git: [acme/app], methods: [GET]}`:  "exclude each other",
		`{host: "a.example:22", git: [acme/app], paths: [/x]}`:     "exclude each other",
		`{host: "a.example:22", git: [acme/app], max_body: 1}`:     "exclude each other",
		`{host: "a.example:22", git: [acme/app], websocket: true}`: "exclude each other",
		`{host: "a.example:22", git: [acme/app], inspect: true}`:   "does not go with",
		`{host: "a.example:22", git: [x], passthrough: true}`:      "passthrough",
		`{host: "a.example:22", git: [acme/app], push: yes}`:       "has to be true or false",
		`{host: "a.example:22", user: me}`:                         "user is for a rule with git",
		`{host: "a.example:22", git: [x], user: ""}`:               "user is empty",
		`{host: "a.example:22", git: [x], user: null}`:             "user",
		`{host: "a.example:22", git: [x], user: "*"}`:              "not a name to log in with",
		`{host: "a.example:22", git: [x], user: -oProxy}`:          "not a name to log in with",
		`{host: "a.example:22", gits: [acme/app]}`:                 "unknown key",
	} {
		_, err := Decode([]byte("version: 1\nallow: [" + text + "]\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	_, err := Decode([]byte("version: 1\ndeny: [{host: \"a.example:22\", git: [acme/app]}]\n"))
	if err == nil || !strings.Contains(err.Error(), "git belongs to rules that allow") {
		t.Errorf("a deny: %v", err)
	}
}

// TestGitRuleSurvives checks that a rule about git is the same after a file, JSON, and its own command.
func TestGitRuleSurvives(t *testing.T) {
	r, err := policy.ParseRule(policy.Allow, "git.example.com:22")
	if err != nil {
		t.Fatal(err)
	}
	r.HTTP = policy.Conditions{Git: []string{"acme/app", "acme/libs/*"}, Push: true}
	var f File
	if err := f.Add(r); err != nil {
		t.Fatal(err)
	}
	again, err := Decode(f.Encode())
	if err != nil || len(again.Allow) != 1 || again.Allow[0].ID() != r.ID() || !again.Allow[0].HTTP.Push {
		t.Errorf("%s: %v", f.Encode(), err)
	}
	data, err := json.Marshal(again.Block)
	var b policy.Block
	if err == nil {
		err = json.Unmarshal(data, &b)
	}
	if err != nil || b.Allow[0].ID() != r.ID() {
		t.Errorf("%s: %v", data, err)
	}
	if got := r.String(); got != "git.example.com:22 git push acme/app acme/libs/*" {
		t.Error(got)
	}
	fetches, plain := r, r
	fetches.HTTP.Push = false
	plain.HTTP = policy.Conditions{}
	if fetches.ID() == r.ID() || plain.ID() == r.ID() || plain.ID() == fetches.ID() {
		t.Error("rules that differ have one ID")
	}
	if err := again.Put(plain); err != nil || len(again.Allow) != 2 {
		t.Errorf("a rule without conditions takes one about git out: %v", again.Allow)
	}
}

// TestGitUserSurvives checks that a file keeps the user of a rule about git.
func TestGitUserSurvives(t *testing.T) {
	other := rule(t, policy.Allow, "git.example.com:22")
	other.HTTP = policy.Conditions{Git: []string{"x"}, User: "me"}
	var f File
	if err := f.Add(other); err != nil {
		t.Fatal(err)
	}
	if again, err := Decode(f.Encode()); err != nil || again.Allow[0].HTTP.User != "me" {
		t.Errorf("%s: %v", f.Encode(), err)
	}
}
