package agent

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/strictyaml"
	"github.com/bothy-dev/bothy/spec"
)

// TestBuiltinJSON checks that the JSON of each description that comes with Bothy equals its
// YAML, and that no other JSON exists.
func TestBuiltinJSON(t *testing.T) {
	sources, err := builtin.ReadDir("agents")
	must(t, err)
	var want []string
	for _, name := range described(sources) {
		text, err := builtin.ReadFile("agents/" + name + ext)
		must(t, err)
		doc, err := strictyaml.ToJSON(text)
		must(t, err)
		file := "agents/" + name + extJSON
		want = append(want, name+ext, name+extJSON)
		if *update {
			must(t, os.WriteFile(file, append(doc, '\n'), 0o644))
			continue
		}
		got, _ := builtin.ReadFile(file)
		if string(got) != string(doc)+"\n" {
			t.Errorf("%s is not what the YAML beside it says: run go generate ./internal/agent", file)
		}
		a, err := parseOurs(name)
		whole, werr := parse(text)
		if err != nil || werr != nil || !reflect.DeepEqual(a, whole) {
			t.Errorf("%s is read otherwise than the YAML beside it: %v, %v", file, err, werr)
		}
	}
	files, err := os.ReadDir("agents")
	must(t, err)
	for _, f := range files {
		if !slices.Contains(want, f.Name()) {
			t.Errorf("agents/%s describes no agent", f.Name())
		}
	}
}

// TestBuiltin checks that the descriptions that come with Bothy can be read, and match
// their file names.
func TestBuiltin(t *testing.T) {
	c := NewCatalog("")
	names, err := c.Names()
	if err != nil || len(names) < 4 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		a, err := c.Find(name)
		if err == nil {
			err = checkAgent(a) // decode does not check ours
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !a.Runtime && len(a.Presets) == 0 || a.Install == nil && a.Get == "" {
			t.Errorf("%s could not work", name)
		}
		if a.Install != nil && a.Install.Needs != nil {
			r, err := c.Find(a.Install.Needs.Name)
			if err != nil || !r.Runtime || r.Install == nil || !AtLeast(r.Install.Version, a.Install.Needs.Version) {
				t.Errorf("what %s needs is not to be had: %+v, %v", name, r, err)
			}
		}
		if !a.Runtime && len(loginsOf(a)) == 0 {
			t.Errorf("a template of a sandbox in which somebody logged %s in would have what that got", name)
		}
		if h := a.Headless; !a.Runtime && (h == nil || h.Session == nil || h.MCP == nil || len(h.Model) == 0) {
			t.Errorf("how %s is driven is not described", name)
		}
		if h := a.Headless; h != nil && !Takes(a, h.Args) {
			t.Errorf("%s: bothy run %s . -- %s does not reach it", name, name, h.Args[0])
		}
		for _, f := range a.Home {
			text, err := Expand(f.Text, func(word string) (string, bool) { return `/a "b"\` + word, true })
			if err != nil {
				t.Errorf("%s: %s: %v", name, f.Path, err)
			}
			if filepath.Ext(f.Path) == ".json" && !json.Valid([]byte(text)) {
				t.Errorf("%s: %s becomes %s", name, f.Path, text)
			}
		}
		for _, alias := range a.Aliases {
			if other, err := c.Find(alias); err != nil || other.Name != name {
				t.Errorf("%s is not %s: %v", alias, name, err)
			}
		}
	}
}

const own = `version: 1
name: mine
title: Mine
program: /opt/mine/bin/mine
presets: [npm]
`

func TestUsersOwn(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := NewCatalog(dir)
	if _, err := c.Find("mine"); !errors.Is(err, spec.ErrNotFound) || !strings.Contains(spec.Hint(err), "claude") {
		t.Error(err)
	}
	write("mine.yaml", own)
	if a, err := c.Find("mine"); err != nil || a.Program != "/opt/mine/bin/mine" {
		t.Error(a, err)
	}
	if n := testing.AllocsPerRun(5, func() { _, _ = c.Find("mine") }); n > 50 {
		t.Errorf("to find one again it is read again: %v allocations", n)
	}
	write("mine.yaml", strings.Replace(own, "title: Mine", "title: Changed", 1))
	if a, err := c.Find("mine"); err != nil || a.Title != "Changed" {
		t.Error("what was changed is not seen", a, err)
	}
	write("claude.yaml", strings.ReplaceAll(own, "mine", "claude"))
	if a, err := c.Find("claude"); err != nil || a.Title != "Mine" {
		t.Error("the user's own is not before ours", a, err)
	}
	write("other.yaml", own)
	if _, err := c.Find("other"); !errors.Is(err, spec.ErrUsage) || !strings.Contains(err.Error(), "mine.yaml") {
		t.Error(err)
	}
	if _, err := c.Find("../claude"); !errors.Is(err, spec.ErrNotFound) {
		t.Error(err)
	}
}

// TestNoFile checks that a file that could block its reader is not read.
func TestNoFile(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, "mine.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewCatalog(dir).Find("mine"); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a pipe that nobody writes to: %v", err)
	}
}

// TestDefault checks that the descriptions choose the agent of a command when none is
// named: the user's before ours.
func TestDefault(t *testing.T) {
	ours, err := NewCatalog("").Default(Ralph)
	if err != nil || ours == nil {
		t.Fatal("no agent of ours is", err)
	}
	dir := t.TempDir()
	add := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(strings.ReplaceAll(own, "mine", name)+"default: [ralph]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	add("mine")
	if a, err := NewCatalog(dir).Default(Ralph); err != nil || a.Name != "mine" {
		t.Error("the user's own is not before ours", a, err)
	}
	add("another")
	if a, err := NewCatalog(dir).Default(Ralph); !errors.Is(err, spec.ErrUsage) || !strings.Contains(err.Error(), "--agent") {
		t.Error("two are one", a, err)
	}
}

// TestInstead checks that a description that replaces ours is the default for the same commands, unless
// it says otherwise. Text that we wrote in earlier versions can still be read.
func TestInstead(t *testing.T) {
	ours, err := NewCatalog("").Default(Ralph)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(more string) {
		t.Helper()
		text := strings.ReplaceAll(own, "mine", ours.Name) + "prompt: [-i, \"{prompt}\"]\n" + more
		if err := os.WriteFile(filepath.Join(dir, ours.Name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	if a, err := NewCatalog(dir).Default(Ralph); err != nil || a.Title != "Mine" {
		t.Error(a, err)
	}
	write("default: []\n")
	if a, err := NewCatalog(dir).Default(Ralph); !errors.Is(err, spec.ErrUsage) {
		t.Error(a, err)
	}
}

func TestRefused(t *testing.T) {
	for what, text := range map[string]string{
		"an unknown key":     own + "colour: red\n",
		"a second document":  own + "---\n" + own,
		"no title":           strings.Replace(own, "title: Mine\n", "", 1),
		"another version":    strings.Replace(own, "version: 1", "version: 2", 1),
		"a relative program": strings.Replace(own, "/opt/mine", "opt/mine", 1),
		"no such preset":     strings.Replace(own, "npm", "nowhere", 1),
		"no such service":    own + "credentials: [nobody]\n",
		"reach of no such":   own + "credentials: [github]\nreach: {github: [nowhere]}\n",
		"reach of another":   own + "credentials: [github]\nreach: {anthropic: [anthropic]}\n",
		"any default":        own + "default: [run]\n",
		"a bad variable":     own + "env: {\"A=B\": x}\n",
		"a file above":       own + "home: [{path: ../x, text: x}]\n",
		"an absolute file":   own + "home: [{path: /etc/x, text: x}]\n",
		"logins above":       own + "logins: [../x]\n",
		"logins of any name": own + "logins: [\"*\"]\n",
		"no logins":          own + "logins: [\".x/[\"]\n",
		"a bad number":       own + "home: [{path: x, text: \"{placeholder:github:-x}\"}]\n",
		"an empty install":   strings.Replace(own, "/opt/mine/bin/mine", "mine", 1) + "install: {package: x}\n",
		"a binary above":     strings.Replace(own, "/opt/mine/bin/mine", "mine", 1) + "install: {package: x, platforms: {linux/amd64: {package: x, binary: ../x}}}\n",
		"a need of itself":   installed("needs: {name: mine, version: 1.0.0}"),
		"a need of any":      installed("needs: {name: node}"),
		"a need of a range":  installed("needs: {name: node, version: \">=20\"}"),
		"a range":            installed("version: ^1"),
		"two ways to get it": installed("") + "get: from a friend\n",
		"a runtime's args":   installed("") + "runtime: true\nargs: [x]\n",
		"a runtime's need":   installed("needs: {name: node, version: 20.0.0}") + "runtime: true\n",
	} {
		if a, err := Decode([]byte(text)); err == nil {
			t.Errorf("%s was taken: %v", what, a)
		}
	}
	for _, text := range []string{own, installed("needs: {name: node, version: 20.0.0}"), installed("version: next")} {
		if _, err := Decode([]byte(text)); err != nil {
			t.Errorf("%v:\n%s", err, text)
		}
	}
}

// driven returns a description with a change to its headless section.
func driven(old, new string) string {
	return strings.Replace(own+`headless:
  args: [-p, --json]
  prompt: {args: ["{prompt}"]}
  output: codex-jsonl
  end: [{type: result}]
  success: [{type: result, ok: "true"}]
  session: {new: [--id, "{session}"], resume: ["--resume={session}"], event: {type: init}, field: id}
  model: [-m, "{model}"]
  limits: {turns: [--turns, "{limit}"]}
  mcp: {file: .mine/mcp.json, key: servers, entry: command}
`, old, new, 1)
}

func TestHeadlessRefused(t *testing.T) {
	if a, err := Decode([]byte(driven("", ""))); err != nil || a.Headless.Session.Resume[0] != "--resume={session}" {
		t.Fatal(a, err)
	}
	for what, change := range map[string][2]string{
		"no arguments":              {"args: [-p, --json]", "args: []"},
		"no place for the prompt":   {"[\"{prompt}\"]", "[x]"},
		"two places for the prompt": {"[\"{prompt}\"]", "[\"{prompt}\", \"{prompt}\"]"},
		"a prompt on stdin and not": {"prompt: {", "prompt: {stdin: true, "},
		"a prompt among the args":   {"-p,", "\"{prompt}\","},
		"another's word":            {"{model}", "{session}"},
		"a model without a word":    {"\"{model}\"", "x"},
		"a limit without a word":    {"\"{limit}\"", "x"},
		"no resuming":               {", resume: [\"--resume={session}\"]", ""},
		"no session to be found":    {", field: id", ""},
		"a form without a name":     {"codex-jsonl", "JSON lines"},
		"no end":                    {"end: [{type: result}]", "end: []"},
		"an end that is everything": {"end: [{type: result}]", "end: [{type: result}, {}]"},
		"a success that is no end":  {"success: [{type: result,", "success: [{type: other,"},
		"text with events":          {"codex-jsonl", "text"},
		"servers in two places":     {"mcp: {", "mcp: {args: [\"{servers}\"], "},
		"servers nowhere":           {"file: .mine/mcp.json, ", ""},
		"servers above":             {".mine/mcp.json", "../mcp.json"},
		"servers in YAML":           {"mcp.json", "mcp.yaml"},
		"servers without a key":     {"key: servers, ", ""},
		"servers somehow":           {"entry: command", "entry: other"},
		"an unknown key":            {"  model:", "  colour: red\n  model:"},
	} {
		text := driven(change[0], change[1])
		if text == driven("", "") {
			t.Errorf("%s: nothing is changed", what)
		}
		if a, err := Decode([]byte(text)); err == nil {
			t.Errorf("%s was taken: %+v", what, a.Headless)
		}
	}
}

// TestDocumentation checks that the example of the page can be read.
func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/guide/own-agent.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := strings.Split(string(page), "```yaml\n")[1:]
	if len(examples) == 0 {
		t.Error("there is no example")
	}
	for _, e := range examples {
		e, _, _ = strings.Cut(e, "```")
		if _, err := Decode([]byte(e)); err != nil {
			t.Errorf("%v:\n%s", err, e)
		}
	}
	c := NewCatalog("")
	names, err := c.Names()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		a, err := c.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if a.Headless != nil && !strings.Contains(string(page), "`"+a.Headless.Output+"`") {
			t.Errorf("the output %s is not explained", a.Headless.Output)
		}
	}
}

// installed returns a description with one more line about the program's source.
func installed(line string) string {
	return "version: 1\nname: mine\ntitle: Mine\nprogram: mine\ninstall:\n  package: x\n  platforms: {any: {binary: x}}\n  " + line + "\n"
}

const ownLogin = own + `login:
  file: .mine/login.json
  directory: MINE_HOME
  service: anthropic
  access: /a
  refresh: /r
  expires: /e
  endpoint: https://auth.example.com/token
  client: mine
  again: mine login
`

func TestLoginRefused(t *testing.T) {
	if a, err := Decode([]byte(ownLogin)); err != nil || a.Login.Access != "/a" {
		t.Fatal(a, err)
	}
	for _, change := range [][2]string{
		{"file: .mine/login.json", "file: ../login.json"},
		{"file: .mine/login.json", "file: /etc/login.json"},
		{"file: .mine/login.json", "file: login.json"},
		{"directory: MINE_HOME", "directory: A=B"},
		{"directory: MINE_HOME", "directory: MINE_HOME/"},
		{"directory: MINE_HOME", "directory: MINE_HOME/../mine"},
		{"directory: MINE_HOME", "directory: /mine"},
		{"service: anthropic", "service: nobody"},
		{"service: anthropic", "{}: x"},
		{"access: /a", "access: a"},
		{"access: /a", "access: ''"},
		{"refresh: /r", "keep: [/k]"},
		{"expires: /e", "expires: e"},
		{"expires: /e", "keep: [k]"},
		{"https://", "http://"},
		{"auth.example.com/token", "10.0.0.1/token"},
		{"auth.example.com/token", "auth.example.com/token?x=y"},
		{"client: mine", "form: json"},
		{"client: mine", "client: mine\n  form: xml"},
		{"again: mine login", "lock: true"},
		{"again: mine login", "again: mine login\n  capture: {pass: [id_token]}"},
		{"again: mine login", "again: mine login\n  capture: {pass: [scope, Access_Token]}"},
		{"again: mine login", "again: mine login\n  capture: {keep: [scope]}"},
		{"client: mine", "client: mine\n  secret: x"},
	} {
		text := strings.Replace(ownLogin, change[0], change[1], 1)
		if a, err := Decode([]byte(text)); err == nil {
			t.Errorf("%s was taken: %v", change[1], a.Login)
		}
	}
}

func TestServicesRefused(t *testing.T) {
	const text = own + "allow: [api.acme.example:443]\ncredentials: [acme]\nservices: {acme: {hosts: [\"api.acme.example:443\"], place: {kind: header, name: x-key}, env: [ACME_KEY]}}\n"
	a, err := Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if terms, ok := Terms(a, "acme"); !ok || terms.Hosts[0] != "api.acme.example:443" || terms.Place.Name != "x-key" || Variables(a, "acme")[0] != "ACME_KEY" {
		t.Errorf("%+v", terms)
	}
	for _, change := range [][2]string{
		{"allow: [api.acme.example:443]", "allow: [\"\"]"},
		{"allow: [api.acme.example:443]", "allow: [api.acme.example:99999]"},
		{"credentials: [acme]", "credentials: [acme, other]"},
		{"credentials: [acme]", "credentials: [anthropic]"},
		{"acme: {hosts", "Acme: {hosts"},
		{"credentials: [acme]\nservices: {acme:", "credentials: [github]\nservices: {github:"},
		{"credentials: [acme]\nservices: {acme:", "credentials: [gemini]\nservices: {gemini:"},
		{"{hosts: [\"api.acme.example:443\"], ", "{"},
		{"hosts: [", "hosts: ['**', "},
		{"hosts: [", "hosts: [10.0.0.0/8, "},
		{"place: {kind: header, name: x-key}, ", ""},
		{"kind: header, name: x-key", "kind: header, name: host"},
		{"kind: header, name: x-key", "kind: agent"},
		{"kind: header, name: x-key", "kind: nowhere"},
		{", env: [ACME_KEY]", ""},
		{"env: [ACME_KEY]", "env: [A=B]"},
		{"env: [ACME_KEY]", "env: [OPENAI_API_KEY]"},
		{"env: [ACME_KEY]", "env: [ACME_KEY], more: x"},
		{"services:", "keys: [{file: a.json, service: acme, key: /a}]\nservices:"},
	} {
		changed := strings.Replace(text, change[0], change[1], 1)
		if a, err := Decode([]byte(changed)); err == nil || changed == text {
			t.Errorf("%s was taken: %+v", change[1], a)
		}
	}
}

func TestKeysRefused(t *testing.T) {
	const text = own + "credentials: [anthropic]\nkeys: [{file: .mine.json, directory: MINE, service: anthropic, key: /a/b}]\n"
	if a, err := Decode([]byte(text)); err != nil || len(a.Keys) != 1 {
		t.Fatal(a, err)
	}
	for _, change := range [][2]string{
		{"file: .mine.json", "file: ../mine.json"},
		{"file: .mine.json", "file: /etc/mine.json"},
		{"directory: MINE", "directory: A=B"},
		{"directory: MINE", "directory: MINE//a"},
		{"service: anthropic", "service: openai"},
		{"key: /a/b", "key: a"},
		{"file: .mine.json", "file: .mine/.env"},
		{"key: /a/b", "key: ''"},
		{", key: /a/b", ""},
		{"key: /a/b", "key: /a/b, more: x"},
	} {
		if a, err := Decode([]byte(strings.Replace(text, change[0], change[1], 1))); err == nil {
			t.Errorf("%s was taken: %v", change[1], a.Keys)
		}
	}
}

func TestTokensRefused(t *testing.T) {
	const text = own + "credentials: [copilot]\ntokens: [{tool: github, server: github.com, service: copilot, paths: [/models, \"/x/**\"]}]\n"
	if a, err := Decode([]byte(text)); err != nil || len(a.Tokens) != 1 || len(a.Tokens[0].Paths) != 2 {
		t.Fatal(a, err)
	}
	for _, change := range [][2]string{
		{"tool: github, ", ""},
		{"server: github.com, ", ""},
		{"service: copilot", "service: github"},
		{"service: copilot", "service: nobody"},
		{", paths: [/models, \"/x/**\"]", ""},
		{"paths: [/models", "paths: [models"},
		{"paths: [/models", "hosts: [x.example], paths: [/models"},
		{"tokens: [", "tokens: [{tool: github, server: x.example, service: copilot, paths: [/x]}, "},
	} {
		changed := strings.Replace(text, change[0], change[1], 1)
		if a, err := Decode([]byte(changed)); err == nil || changed == text {
			t.Errorf("%s was taken: %v", change[1], a)
		}
	}
}

func TestServersRefused(t *testing.T) {
	for text, ok := range map[string]bool{
		"servers: {file: .mine.json, directory: MINE/x, key: k}\n":  true,
		"servers: {file: .mine.json, directory: A=B, key: k}\n":     false,
		"servers: {file: .mine.json, directory: MINE/.., key: k}\n": false,
		"servers: {file: .mine.txt, directory: MINE, key: k}\n":     false,
	} {
		if a, err := Decode([]byte(own + text)); (err == nil) != ok {
			t.Errorf("%s: %v, %v", text, a, err)
		}
	}
}

func TestRefusedRefused(t *testing.T) {
	const head = own + "credentials: [anthropic]\nrefused: "
	for text, ok := range map[string]bool{
		"[{file: .mine.json, directory: MINE, service: anthropic, key: /no, last: 20}]": true,
		"[{file: .mine.json, service: openai, key: /no}]":                               false,
		"[{file: .mine.json, service: anthropic, key: no}]":                             false,
		"[{file: .mine.json, service: anthropic, key: /no, last: -1}]":                  false,
		"[{file: ../mine.json, service: anthropic, key: /no}]":                          false,
		"[{file: .env, service: anthropic, key: NO}]":                                   false,
	} {
		if a, err := Decode([]byte(head + text + "\n")); (err == nil) != ok {
			t.Errorf("%s: %v, %v", text, a, err)
		}
	}
}

func TestElsewhereRefused(t *testing.T) {
	const text = own + "elsewhere: [{variable: MINE_URL, own: [api.example.com], file: .mine/s.json, directory: MINE/x, key: /url}]\n"
	if a, err := Decode([]byte(text)); err != nil || a.Elsewhere[0].Own[0] != "api.example.com" {
		t.Fatal(a, err)
	}
	if a, err := Decode([]byte(strings.Replace(text, "variable: MINE_URL, ", "also: [.mine/t.json, /etc/mine.d/*.json], ", 1))); err != nil {
		t.Fatal(a, err)
	}
	for _, change := range [][2]string{
		{"variable: MINE_URL, own: [api.example.com], file: .mine/s.json, directory: MINE/x, key: /url", "own: [api.example.com]"},
		{"variable: MINE_URL", "variable: A=B"},
		{"variable: MINE_URL", "services: [nobody]"},
		{"key: /url", "key: /url, also: [../x.json]"},
		{"key: /url", "key: /url, also: [.env]"},
		{"key: /url", "key: /url, also: [/etc/*/x.json]"},
		{"key: /url", "key: /url, also: [/etc/../x.json]"},
		{"own: [api.example.com], ", ""},
		{"own: [api.example.com]", "own: ['']"},
		{"file: .mine/s.json, ", ""},
		{"file: .mine/s.json", "file: ../s.json"},
		{"directory: MINE/x", "directory: MINE/../x"},
		{", key: /url", ""},
		{"key: /url", "key: url"},
		{"key: /url", "key: /url, more: x"},
	} {
		changed := strings.Replace(text, change[0], change[1], 1)
		if a, err := Decode([]byte(changed)); err == nil || changed == text {
			t.Errorf("%s was taken: %v", change[1], a)
		}
	}
}

func TestExpand(t *testing.T) {
	lookup := func(word string) (string, bool) {
		v, ok := map[string]string{"workspace": `/a"b`, "placeholder:x": "0123456789"}[word]
		return v, ok
	}
	for text, want := range map[string]string{
		`{"{workspace}":{}}`:       `{"/a\"b":{}}`,
		`{placeholder:x}`:          `0123456789`,
		`[{placeholder:x:-4}]`:     `[6789]`,
		`{placeholder:x:-40}`:      `0123456789`,
		`{"a":1} { {A} {workspace`: `{"a":1} { {A} {workspace`,
	} {
		if got, err := Expand(text, lookup); err != nil || got != want {
			t.Errorf("%s becomes %s, %v", text, got, err)
		}
	}
	if _, err := Expand("{nobody}", lookup); err == nil {
		t.Error("an unknown word was taken")
	}
}

// TestLinger checks how long an agent may take to exit.
func TestLinger(t *testing.T) {
	a, err := Decode([]byte(driven("headless:\n", "headless:\n  linger: 90s\n")))
	if err != nil || a.Headless.Linger != spec.Duration(90*time.Second) {
		t.Errorf("%+v, %v", a, err)
	}
	for _, bad := range []string{"-1s", "soon"} {
		if a, err := Decode([]byte(driven("headless:\n", "headless:\n  linger: "+bad+"\n"))); err == nil {
			t.Errorf("%s was taken: %+v", bad, a.Headless)
		}
	}
}

// TestIgnored checks that a file with an invalid name for a description is reported,
// because its author may expect it to count.
func TestIgnored(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"foo.yml", "Mine2.yaml", "shell.yaml", "mine.yaml", "mine.yaml~", ".mine.yaml", "README.md"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(own), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := NewCatalog(dir)
	want := []string{filepath.Join(dir, "Mine2.yaml"), filepath.Join(dir, "foo.yml"), filepath.Join(dir, "shell.yaml")}
	if got, err := c.Ignored(); err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	for name, file := range map[string]string{"foo": "foo.yml", "Mine2": "Mine2.yaml", "mine2": "Mine2.yaml"} {
		if _, err := c.Find(name); !errors.Is(err, spec.ErrNotFound) || !strings.HasPrefix(spec.Hint(err), filepath.Join(dir, file)+" is not read: ") {
			t.Errorf("%s: %v; hint: %s", name, err, spec.Hint(err))
		}
	}
	for _, c := range []Catalog{NewCatalog(""), NewCatalog(filepath.Join(dir, "none"))} {
		if got, err := c.Ignored(); err != nil || len(got) > 0 {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// TestEmptyDescription checks the error for an empty description.
func TestEmptyDescription(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing yet\n"} {
		if _, err := Decode([]byte(text)); err == nil || err.Error() != "it is empty" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestMistakeIsNotMissing checks that an agent with a mistake in its description is not
// reported as missing, even if the mistake is a missing preset.
func TestMistakeIsNotMissing(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"presets: [nosuch]\n": `mine.yaml: presets: no preset "nosuch"`,
		"credentials: [anthropic]\nreach: {anthropic: [nosuch]}\n": `mine.yaml: reach: anthropic: no preset "nosuch"`,
	} {
		text = strings.Replace(own, "presets: [npm]\n", text, 1)
		if err := os.WriteFile(filepath.Join(dir, "mine.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := NewCatalog(dir).Find("mine")
		if !errors.Is(err, spec.ErrUsage) || errors.Is(err, spec.ErrNotFound) || !strings.HasSuffix(err.Error(), want) || !strings.HasPrefix(spec.Hint(err), "there are ") {
			t.Errorf("%s: %v; hint: %s", text, err, spec.Hint(err))
		}
	}
}

// TestHomeLendsOwnCredentials checks that a description can name for a file only credentials that may be
// lent to its agent.
func TestHomeLendsOwnCredentials(t *testing.T) {
	_, err := Decode([]byte("version: 1\nname: a\ntitle: A\nprogram: a\ncredentials: [openai]\nhome: [{path: x, text: y, lent: [github]}]\n"))
	if !errors.Is(err, spec.ErrUsage) {
		t.Error(err)
	}
}
