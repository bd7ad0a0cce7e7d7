package policy

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/policy/gitrepo"
)

func TestCleanRepository(t *testing.T) {
	for name, want := range map[string]string{
		"acme/app": "acme/app", "/acme/app": "acme/app", "acme/app.git": "acme/app", "/acme/app.git": "acme/app", "app": "app",
		"a/b/c/d.git": "a/b/c/d", "~me/app": "~me/app", "~me/app.git": "~me/app", "acme/.github": "acme/.github", "acme/x.gitignore": "acme/x.gitignore",
		"A-c_m.e/+@1": "A-c_m.e/+@1", "acme/app/": "acme/app", "/acme/app.git/": "acme/app", "acme/": "acme", "acme/app.wiki.git": "acme/app.wiki",

		"": "", "/": "", "//acme/app": "", "acme//app": "", "acme/app//": "", "acme/app.git//": "", "acme/app/.git/": "", "acme/app.git/.git": "", "~me": "~me", "~/": "", ".": "", "..": "", "acme/..": "", "../acme/app": "", "acme/../x": "",
		"./acme/app": "", "acme/app/.": "", "acme/...": "", "acme/app.": "", ".git": "", "acme/.git": "", "acme/app.git.git": "", "acme/app.git/objects": "",
		"acme/.git/config": "", "acme/app.GIT": "", "acme/app.Git/x": "", "-x": "", "/-x/app": "", "--upload-pack=x": "", "~": "", "~/app": "", "/~me/app": "", "acme/~me": "",
		"~~me/app": "", "acme/a b": "", "acme/a'b": "", "acme/a;b": "", "acme/$x": "", "acme/a\nb": "", "acme/a\x00": "", "acme/a%2fb": "", "acme/a\\b": "",
		"acme/a:b": "", "acme/*": "", "acme/é": "", "acme/`id`": "", strings.Repeat("a", gitrepo.MaxRepository+1): "",
	} {
		got, err := gitrepo.CleanName(name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
}

// TestOddRepositories checks that a refusal explains the fault of the name.
func TestOddRepositories(t *testing.T) {
	for name, want := range map[string]string{
		"~/app": "write it without '~/'", "~": "without '~/'", "/~me/app": "'~' behind '/'", "acme/app/.git": "write it without /.git", "acme/app.git/x": "leads into",
		"acme/app.GIT": "ends in .git twice", "acme//app": "an empty part", "acme/a b": `has " "`, "acme/a%20b": `has "%", a character that is in no rule: git reads '%' in ssh://`,
		"acme/a%": `has "%", a character that is in no rule`, "22:acme/app": `has ":"`, "acme/é": `has "\xc3"`, "": "is none", "-x": "as an option does",
	} {
		if _, err := gitrepo.CleanName(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzCleanRepository checks that a clean name stays the same when cleaned again, and has
// one reading.
func FuzzCleanRepository(f *testing.F) {
	for _, s := range []string{"/acme/app.git", "~me/app", "a/.git/b", "a/..", "a.git.git"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		clean, err := gitrepo.CleanName(name)
		if err != nil {
			return
		}
		again, err := gitrepo.CleanName(clean)
		if err != nil || again != clean || strings.ContainsAny(clean, "'\"\\ \n$`;&|<>*?%") || slices.Contains(strings.Split(clean, "/"), "..") || clean[0] == '-' || clean[0] == '/' {
			t.Errorf("%q is %q, and that %q, %v", name, clean, again, err)
		}
		if _, err := gitrepo.ParsePattern(clean); err != nil {
			t.Errorf("%q cannot stand in a rule: %v", clean, err)
		}
	})
}

func gitQuery(name string, port uint16, service, repository string) Query {
	return Query{Stage: StageGit, Name: name, Port: port, Git: &GitRequest{Service: service, Repository: repository, User: "git"}, Now: noon}
}

func TestGitRules(t *testing.T) {
	p := compile(t, Input{LayerUser, blockOf(t, `{allow: [
		{host: "git.example.com:22", git: [acme/app, "acme/libs/*", "public/**", "~me/*"]},
		{host: "git.example.com:22", git: [acme/site], push: true},
		{host: "any.example.com:22", git: ["**"]},
		{host: "*.example.org:22", git: ["*"]},
		{host: "http.example.com:22", methods: [GET]}, "whole.example.com:22",
		{host: "10.1.2.3:22", git: [app]},
	]}`)})
	for text, want := range map[string]bool{
		"fetch git.example.com acme/app": true, "fetch git.example.com /acme/app.git": true, "push git.example.com acme/app": false,
		"fetch git.example.com acme/App": false, "fetch git.example.com acme/apple": false, "fetch git.example.com acme": false, "fetch git.example.com acme/app/x": false,
		"fetch git.example.com acme/libs/a": true, "fetch git.example.com acme/libs": false, "fetch git.example.com acme/libs/a/b": false,
		"fetch git.example.com public/a/b/c": true, "fetch git.example.com public": false,
		"fetch git.example.com ~me/x": true, "fetch git.example.com ~you/x": false, "fetch git.example.com me/x": false,
		"fetch git.example.com acme/site": true, "push git.example.com acme/site.git": true,
		"fetch git.example.com acme/../acme/app": false, "fetch git.example.com acme/app.git/.git": false,
		"fetch any.example.com x/y/z": true, "push any.example.com x/y/z": false, "fetch any.example.com ~x/y": false,
		"fetch a.example.org x": true, "fetch a.example.org x/y": false, "fetch a.example.org ~x": false, "fetch a.b.example.org x": false,
		"fetch http.example.com x": false, "push whole.example.com x": true, "fetch other.example.com x": false, "fetch 10.1.2.3 app": true, "fetch 10.1.2.4 app": false,
	} {
		words := strings.Fields(text)
		q, err := ParseQuery("ssh://git@"+words[1]+"/x", words[0], noon)
		if err != nil {
			t.Fatal(err)
		}
		q.Git.Repository = words[2]
		if d := p.Decide(q); d.Allowed() != want || d.Reason() == "" {
			t.Errorf("%s: %s", text, d.Reason())
		}
	}
	for name, want := range map[string]bool{"git.example.com": true, "http.example.com": false, "whole.example.com": false} {
		d := p.Decide(Query{Stage: StageConnect, Name: name, Port: 22, Now: noon})
		if !d.Allowed() || d.Git != want || (d.Inspection == InspectMust) == (name == "whole.example.com") {
			t.Errorf("%s: git %v, inspection %s: %s", name, d.Git, d.Inspection, d.Reason())
		}
	}
	if d := p.Decide(Query{Stage: StageConnect, Name: "git.example.com", Port: 443, Now: noon}); d.Allowed() {
		t.Errorf("another port: %s", d.Reason())
	}
	get, err := ParseQuery("http://git.example.com:22/acme/app", "GET", noon)
	if err != nil {
		t.Fatal(err)
	}
	if d := p.Decide(get); d.Allowed() {
		t.Errorf("HTTP: %s", d.Reason())
	}
	for _, q := range []Query{gitQuery("git.example.com", 22, "git-upload-archive", "acme/app"), gitQuery("git.example.com", 0, gitrepo.Fetch, "acme/app"), {Stage: StageGit, Name: "git.example.com", Port: 22, Now: noon}, {Stage: StageConnect, Name: "git.example.com", Port: 22, Git: &GitRequest{gitrepo.Fetch, "acme/app", "git"}, Now: noon}} {
		if d := p.Decide(q); d.Allowed() || d.Cause != CauseQuestion {
			t.Errorf("%+v: %s", q, d.Reason())
		}
	}
}

// TestGitAmongLayers checks that a deny rule with any conditions denies git over SSH, too,
// because those conditions cannot be judged there. A project may narrow, but does not
// widen.
func TestGitAmongLayers(t *testing.T) {
	user := Input{LayerUser, blockOf(t, `{allow: [{host: "git.example.com:22", git: ["acme/*"]}]}`)}
	for text, want := range map[string]bool{
		`{deny: [git.example.com]}`:                                  false,
		`{deny: [{host: git.example.com, methods: [DELETE]}]}`:       false,
		`{deny: [{host: "git.example.com:443", paths: [/x]}]}`:       true,
		`{allow: [{host: "git.example.com:22", git: [acme/app]}]}`:   true,
		`{allow: [{host: "git.example.com:22", git: [acme/other]}]}`: false,
		`{allow: [{host: "git.example.com:22", methods: [GET]}]}`:    false,
		`{allow: ["git.example.com:22"]}`:                            true,
		`{allow: [example.com]}`:                                     false,
	} {
		p := compile(t, user, Input{LayerProject, blockOf(t, text)})
		if d := p.Decide(gitQuery("git.example.com", 22, gitrepo.Fetch, "acme/app")); d.Allowed() != want {
			t.Errorf("%s: %s", text, d.Reason())
		}
	}
	p := compile(t, Input{LayerUser, blockOf(t, `{allow: ["git.example.com:22"]}`)}, Input{LayerProject, blockOf(t, `{allow: [{host: "git.example.com:22", git: [acme/app]}]}`)})
	d := p.Decide(Query{Stage: StageConnect, Name: "git.example.com", Port: 22, Now: noon})
	if d.Inspection != InspectMust || !d.Git {
		t.Errorf("a project's rule narrows unseen: %s, %v", d.Inspection, d.Git)
	}
	if d := p.Decide(gitQuery("git.example.com", 22, gitrepo.Push, "acme/app")); d.Allowed() {
		t.Errorf("a push: %s", d.Reason())
	}
}

// TestGitOpensNoAddress checks names that only a rule about git allows. Such a name leads
// to a special address only for a command that a rule for that address lets through, too.
func TestGitOpensNoAddress(t *testing.T) {
	p := compile(t, Input{LayerUser, blockOf(t, `{allow: [{host: "git.example.com:22", git: [app]}, {host: "10.0.0.0/8:22", git: [app]}]}`)})
	dial := Query{Stage: StageDial, Name: "git.example.com", Addr: netip.MustParseAddr("10.1.2.3"), Port: 22, Now: noon}
	if d := p.Decide(dial); d.Allowed() {
		t.Error(d.Reason())
	}
	for git, want := range map[GitRequest]bool{{gitrepo.Fetch, "app", "git"}: true, {gitrepo.Push, "app", "git"}: false, {gitrepo.Fetch, "other", "git"}: false, {gitrepo.Fetch, "app", "me"}: false} {
		dial.Git = &git
		if d := p.Decide(dial); d.Allowed() != want {
			t.Errorf("%v: %s", git, d.Reason())
		}
		if d := p.Still(Flow{Name: dial.Name, Addr: dial.Addr, Port: 22, Seen: true, Git: &git}, noon); d.Allowed() != want {
			t.Errorf("%v goes on: %s", git, d.Reason())
		}
	}
	name := Input{LayerUser, blockOf(t, `{allow: [{host: "git.example.com:22", git: ["**"], push: true}]}`)}
	dial.Git = &GitRequest{gitrepo.Push, "/team/app.git", "git"}
	d := compile(t, name).Decide(dial)
	s := d.Suggest()
	if d.Cause != CauseSpecial || s.Command("") != "bothy policy allow 10.1.2.3:22 --git team/app --push" {
		t.Errorf("%s: %s", d.Reason(), s.Command(""))
	}
	r, _ := s.Rule()
	if d := compile(t, name, Input{LayerSandbox, Block{Allow: []Rule{r}}}).Decide(dial); !d.Allowed() {
		t.Errorf("it does not help: %s", d.Reason())
	}
}

func TestGitStill(t *testing.T) {
	p := compile(t, Input{LayerUser, blockOf(t, `{allow: [{host: "git.example.com:22", git: [acme/app]}]}`)})
	at := Flow{Name: "git.example.com", Addr: netip.MustParseAddr("93.184.216.34"), Port: 22, Seen: true}
	for repository, want := range map[string]bool{"": true, "acme/app": true, "acme/other": false} {
		f := at
		if repository != "" {
			f.Git = &GitRequest{gitrepo.Fetch, repository, "git"}
		}
		if d := p.Still(f, noon); d.Allowed() != want {
			t.Errorf("%q: %s", repository, d.Reason())
		}
	}
	at.Seen = false
	if d := p.Still(at, noon); d.Allowed() || d.Cause != CauseInspection {
		t.Errorf("nobody looks: %s", d.Reason())
	}
}

// TestGitSuggestions checks that a refusal suggests the rule that would allow the command.
func TestGitSuggestions(t *testing.T) {
	for rules, want := range map[string]string{
		`{presets: [npm]}`: "bothy policy allow git.example.com:22 --git acme/app --push",
		`{allow: [{host: "git.example.com:22", git: [acme/app]}]}`: "bothy policy allow git.example.com:22 --git acme/app --push",
		`{allow: [{host: "git.example.com:22", methods: [GET]}]}`:  "bothy policy allow git.example.com:22 --git acme/app --push",
		`{allow: ["git.example.com:22"], deny: [git.example.com]}`: "bothy policy rm --id",
	} {
		b := blockOf(t, rules)
		d := compile(t, Input{LayerUser, b}).Decide(gitQuery("git.example.com", 22, gitrepo.Push, "/acme/app.git"))
		s := d.Suggest()
		if got := s.Command(""); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, not %q", rules, got, want)
		}
		r, ok := s.Rule()
		if !ok {
			continue
		}
		b.Allow = append(slices.Clone(b.Allow), r)
		if d := compile(t, Input{LayerUser, b}).Decide(gitQuery("git.example.com", 22, gitrepo.Push, "/acme/app.git")); !d.Allowed() {
			t.Errorf("%s does not help: %s", s.Command(""), d.Reason())
		}
	}
	p := compile(t)
	d := p.Decide(Query{Stage: StageConnect, Name: "git.example.com", Port: 22, Now: noon})
	s := d.Suggest()
	if s.Command("box") != "bothy policy allow git.example.com:22 --git '**' --sandbox box" || !strings.Contains(s.Note, "a tunnel") {
		t.Errorf("%q, %q", s.Command("box"), s.Note)
	}
	d = p.Decide(gitQuery("git.example.com", 22, gitrepo.Push, "../x"))
	if s := d.Suggest(); len(s.Args) != 0 {
		t.Errorf("a repository that is none: %v", s.Args)
	}
}

func TestGitQueries(t *testing.T) {
	for text, want := range map[string]string{
		"ssh://git@git.example.com/acme/app.git":        "git-upload-pack git.example.com:22 acme/app",
		"ssh://git@git.example.com:2222/acme/app":       "git-upload-pack git.example.com:2222 acme/app",
		"ssh://git.example.com:2222/acme/app":           "",
		"ssh://me@git.example.com/acme/app":             `git-upload-pack git.example.com:22 acme/app as "me"`,
		"me@corp.example@git.example.com:app":           `git-upload-pack git.example.com:22 app as "me@corp.example"`,
		"-x@git.example.com:app":                        "",
		"git@git.example.com:acme/app.git":              "git-upload-pack git.example.com:22 acme/app",
		"push git@git.example.com:acme/app":             "git-receive-pack git.example.com:22 acme/app",
		"git-receive-pack git@git.example.com:acme/app": "git-receive-pack git.example.com:22 acme/app",
		"ssh://git@[2001:db8::1]:2222/acme/app/":        "git-upload-pack [2001:db8::1]:2222 acme/app",
		"ssh://git@[2001:db8::1]/~me/app":               "git-upload-pack [2001:db8::1]:22 ~me/app",
		"ssh://git@git.example.com/acme/%61pp%2egit":    "git-upload-pack git.example.com:22 acme/app",
		"ssh://git@git.example.com/acme/a%20b":          `git-upload-pack git.example.com:22 "/acme/a b"`,
		"ssh://git@git.example.com/acme/%zz":            "",
		"git@[2001:db8::1]:acme/app":                    "git-upload-pack [2001:db8::1]:22 acme/app",
		"git@[2001:db8::1]:22:acme/app":                 `git-upload-pack [2001:db8::1]:22 "22:acme/app"`,
		"git@[git.example.com:2222]:acme/app":           "git-upload-pack git.example.com:2222 acme/app",
		"[git@git.example.com:2222]:acme/app":           "git-upload-pack git.example.com:2222 acme/app",
		"[git@2001:db8::1]:acme/app":                    "git-upload-pack [2001:db8::1]:22 acme/app",
		"git@git.example.com:acme/a%20b":                `git-upload-pack git.example.com:22 "acme/a%20b"`,
		"git@[2001:db8::1":                              "",
		"ssh://git@git.example.com/":                    "",
		"git@git.example.com":                           "",
		"DELETE ssh://git@git.example.com/acme/app":     "",
		"ssh://git@*.example.com/acme/app":              "",
		"push git.example.com:22":                       "",
	} {
		method, at, ok := strings.Cut(text, " ")
		if !ok {
			method, at = "", text
		}
		q, err := ParseQuery(at, method, noon)
		got := ""
		if err == nil {
			got = q.subject()
		}
		if got != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	p := compile(t, Input{LayerUser, blockOf(t, `{allow: [{host: "git.example.com:22", git: [acme/app]}]}`)})
	q, err := ParseQuery("git@git.example.com:acme/app", "push", noon)
	if err != nil {
		t.Fatal(err)
	}
	x := p.Explain(q)
	if text := x.Text("box"); !strings.Contains(text, "has conditions that do not hold") || !strings.Contains(text, "--git acme/app --push --sandbox box") {
		t.Error(text)
	}
	x = p.Explain(Query{Stage: StageConnect, Name: "git.example.com", Port: 22, Now: noon})
	if text := x.Text(""); !strings.Contains(text, "allows some commands of git") {
		t.Error(text)
	}
}

// TestGitUser checks that the user is part of the repository's identity.
func TestGitUser(t *testing.T) {
	p := compile(t, Input{LayerUser, blockOf(t, `{allow: [{host: "git.example.com:22", git: ["team/*"]}, {host: "git.example.com:22", git: [app], user: APKA1}]}`)})
	for text, want := range map[string]string{
		"git@git.example.com:team/a":   "",
		"root@git.example.com:team/a":  "bothy policy allow git.example.com:22 --git team/a --user root",
		"Git@git.example.com:team/a":   "bothy policy allow git.example.com:22 --git team/a --user Git",
		"APKA1@git.example.com:app":    "",
		"git@git.example.com:app":      "bothy policy allow git.example.com:22 --git app",
		"APKA1@git.example.com:team/a": "bothy policy allow git.example.com:22 --git team/a --user APKA1",
	} {
		q, err := ParseQuery(text, "", noon)
		if err != nil {
			t.Fatal(err)
		}
		d := p.Decide(q)
		s := d.Suggest()
		if d.Allowed() != (want == "") || s.Command("") != want {
			t.Errorf("%s: %s: %s", text, d.Reason(), s.Command(""))
		}
		if r, ok := s.Rule(); want != "" {
			if d := compile(t, Input{LayerUser, Block{Allow: []Rule{r}}}).Decide(q); !ok || !d.Allowed() {
				t.Errorf("%s: %s does not help: %s", text, want, d.Reason())
			}
		}
	}
	for user, fine := range map[string]bool{"git": true, "alice.b-c_d+e@corp": true, "": false, "-oProxyCommand=x": false, "a b": false, "a\x1b[2J": false, strings.Repeat("a", 65): false} {
		if gitrepo.IsUser(user) != fine {
			t.Errorf("%q", user)
		}
	}
	plain, same, other := rule(t, Allow, "git.example.com:22"), rule(t, Allow, "git.example.com:22"), rule(t, Allow, "git.example.com:22")
	plain.HTTP, same.HTTP, other.HTTP = Conditions{Git: []string{"x"}}, Conditions{Git: []string{"x"}, User: "git"}, Conditions{Git: []string{"x"}, User: "me"}
	if plain.ID() != same.ID() || plain.ID() == other.ID() || other.String() != "git.example.com:22 git as me x" {
		t.Errorf("%s, %s, %s: %s", plain.ID(), same.ID(), other.ID(), other.String())
	}
}
