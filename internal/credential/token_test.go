package credential

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/credential/credentialtest"
	"github.com/bothy-dev/bothy/internal/hostcreds"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// atHome returns a desk on a host with files in the home directory, and without variables of tools.
func atHome(t *testing.T, files map[string]string) (e *desk, home string, said *[]string) {
	t.Helper()
	e = newDesk(t)
	home = t.TempDir()
	t.Setenv("HOME", home)
	for _, tool := range hostcreds.Tools {
		for _, name := range tool.Variables {
			t.Setenv(name, "")
		}
	}
	for _, name := range []string{"XDG_CONFIG_HOME", "GH_CONFIG_DIR", "NPM_CONFIG_USERCONFIG", "npm_config_userconfig", "PIP_CONFIG_FILE", "NETRC"} {
		t.Setenv(name, "")
	}
	for name, text := range files {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(home, name), []byte(text), 0o600))
	}
	return e, home, &e.said
}

func choices(t *testing.T, words ...string) []hostcreds.Choice {
	t.Helper()
	list, err := hostcreds.ParseChoices(words)
	must(t, err)
	return list
}

// lendAll lends a new sandbox all tokens that choices name.
func lendAll(t *testing.T, e *desk, words ...string) *spec.Sandbox {
	t.Helper()
	sb := wish(t.TempDir())
	must(t, e.Create(t.Context(), sb))
	chosen, err := e.ChooseTokens(choices(t, words...))
	must(t, err)
	for _, found := range chosen {
		if l, err := e.LendToken(here, sb, &found); err != nil || l == nil {
			t.Fatalf("%+v, %v", l, err)
		}
		if l, err := e.LendToken(here, sb, &found); err != nil || l != nil {
			t.Errorf("twice: %+v, %v", l, err)
		}
	}
	return sb
}

// TestLendToken checks that every start reads a token again from where the tool keeps it.
func TestLendToken(t *testing.T) {
	e, home, said := atHome(t, map[string]string{
		".npmrc":           "//registry.npmjs.org/:_authToken=npm_canary456789012345678901234567890123\n//npm.example.com/:_authToken=canary-of-the-other\n",
		".git-credentials": "https://me:canary-of-git@git.example.com:8443\n",
	})
	sb := lendAll(t, e, "npm:registry.npmjs.org", "git")
	n := e.ForStart(here, sb)
	if len(n.Unlent) != 0 || len(n.Loans) != 2 || len(*said) != 0 {
		t.Fatalf("%+v, said %q", n, *said)
	}
	npm, git := n.Loans[0], n.Loans[1]
	if npm.Secret != "lent-npm-registry.npmjs.org" || npm.Tool != "npm" || string(npm.Value) != "npm_canary456789012345678901234567890123" || !strings.HasPrefix(npm.Placeholder, "npm_") || len(npm.Env) != 0 {
		t.Errorf("%+v", npm.Lease)
	}
	if git.Secret != "lent-git-git.example.com-8443" || git.Hosts[0] != "git.example.com:8443" || git.Place != (spec.Place{Kind: spec.PlaceBasic, User: "me"}) || string(git.Value) != "canary-of-git" {
		t.Errorf("%+v", git.Lease)
	}
	must(t, os.WriteFile(filepath.Join(home, ".git-credentials"), []byte("https://me:another-value@git.example.com:8443\n"), 0o600))
	must(t, os.Chmod(filepath.Join(home, ".npmrc"), 0o666))
	n = e.ForStart(here, sb)
	if string(n.Loans[1].Value) != "another-value" || len(n.Loans[0].Value) != 0 || len(n.Unlent) != 1 ||
		!strings.Contains(n.Unlent[0].Reason, "its mode is 0666") || !strings.Contains(n.Unlent[0].Hint, "chmod go-w") {
		t.Errorf("%+v", n)
	}
	must(t, os.Remove(filepath.Join(home, ".npmrc")))
	if n = e.ForStart(here, sb); len(n.Unlent) != 1 || !strings.Contains(n.Unlent[0].Reason, "npm has no token for https://registry.npmjs.org/ any more") {
		t.Errorf("%+v", n.Unlent)
	}
	credentialtest.NowhereIn(t, e.Store.Path(), "canary")
}

// TestChooseTokens checks that the user is told of tokens that cannot be lent, and that a choice
// without any other is an error.
func TestChooseTokens(t *testing.T) {
	e, home, said := atHome(t, map[string]string{
		".git-credentials": "https://me:password1@git.example.com\nhttp://me:password2@plain.example.com\n",
		".npmrc":           "//npm.example.com/:_authToken=password3\n",
	})
	must(t, os.Chmod(filepath.Join(home, ".npmrc"), 0o662))
	if list, err := e.ChooseTokens(choices(t, "git")); err != nil || len(list) != 1 || len(*said) != 1 || !strings.Contains((*said)[0], "http://me@plain.example.com in ~/.git-credentials: it is not used over TLS") {
		t.Errorf("%+v, %v, said %q", list, err, *said)
	}
	*said = nil
	for words, want := range map[string]string{
		"npm":                   "its mode is 0662",
		"git:plain.example.com": "not used over TLS",
		"pip":                   "no token for pip",
		"ssh":                   "SSH_AUTH_SOCK is not set",
		"git:elsewhere.example": "no token for git:elsewhere.example",
	} {
		if list, err := e.ChooseTokens(choices(t, words)); err == nil || !strings.Contains(err.Error(), want) || spec.Hint(err) == "" && words != "git:plain.example.com" {
			t.Errorf("%s: %+v, %v", words, list, err)
		}
		if list, err := e.UsualTokens(choices(t, words)); err != nil || len(list) != 0 {
			t.Errorf("%s, by the settings: %+v, %v", words, list, err)
		}
	}
	if len(*said) != 2 { // of pip and elsewhere nothing
		t.Errorf("said %q", *said)
	}
	if _, err := e.ChooseTokens(choices(t, "pip")); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

// TestTokenOfGh checks that gh is asked for a token of the desktop's keyring only when the token is
// lent.
func TestTokenOfGh(t *testing.T) {
	e, home, _ := atHome(t, map[string]string{".config/gh/hosts.yml": "github.com:\n  user: me\n", "bin/gh": "#!/bin/sh\necho \"$*\" >> ~/asked\necho gho_canary456789012345678901234567890123\n"})
	t.Setenv("PATH", "/usr/bin:/bin")
	if list, err := e.Tokens("github"); err != nil || len(list) != 1 || list[0].Err == nil || !strings.Contains(spec.Hint(list[0].Err), "GH_TOKEN") {
		t.Errorf("without gh: %+v, %v", list, err)
	}
	must(t, os.Chmod(filepath.Join(home, "bin/gh"), 0o700))
	t.Setenv("PATH", filepath.Join(home, "bin")+":/usr/bin:/bin")
	if list, err := e.Tokens("github"); err != nil || len(list) != 1 || list[0].Err != nil {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := os.Stat(filepath.Join(home, "asked")); err == nil {
		t.Error("gh was asked although nothing is lent")
	}
	sb := lendAll(t, e, "github")
	n := e.ForStart(here, sb)
	if len(n.Loans) != 1 || string(n.Loans[0].Value) != "gho_canary456789012345678901234567890123" || n.Loans[0].Secret != "lent-github" || n.Loans[0].Place.Kind != spec.PlaceAuthorization {
		t.Errorf("%+v", n)
	}
	if asked, _ := os.ReadFile(filepath.Join(home, "asked")); !strings.HasPrefix(string(asked), "auth token --hostname github.com\n") {
		t.Errorf("gh was asked %q", asked)
	}
	credentialtest.NowhereIn(t, e.Store.Path(), "canary")
}

// TestTokenNames checks that a secret of the user's with the usual name of a token's secret stays
// as it is.
func TestTokenNames(t *testing.T) {
	e, _, _ := atHome(t, map[string]string{".git-credentials": "https://me:password1@git.example.com\nhttps://you:password2@git.example.com\n"})
	must(t, e.SetSecret(here, stored("lent-git-git.example.com", "of-my-own")))
	sb := lendAll(t, e, "git")
	var got []string
	for _, l := range e.ForStart(here, sb).Loans {
		got = append(got, l.Secret+"="+string(l.Value))
	}
	if s := strings.Join(got, " "); s != "lent-git-git.example.com-2=password1 lent-git-git.example.com-3=password2" {
		t.Errorf("%s", s)
	}
	if again := lendAll(t, e, "git"); len(e.ForStart(here, again).Loans) != 2 {
		t.Error("another sandbox has not the same")
	}
	if have, _ := e.Secrets(); len(have) != 3 {
		t.Errorf("%+v", have)
	}
}

// TestTokensAtOnce checks that concurrent callers make one secret for each account of a host.
func TestTokensAtOnce(t *testing.T) {
	e, _, _ := atHome(t, map[string]string{".git-credentials": "https://me:password1@git.example.com\nhttps://you:password2@git.example.com\n"})
	chosen, err := e.ChooseTokens(choices(t, "git"))
	must(t, err)
	for range 10 {
		boxes := make([]*spec.Sandbox, 4)
		var wg sync.WaitGroup
		for i := range boxes {
			boxes[i] = wish(t.TempDir())
			must(t, e.Create(here, boxes[i]))
			for range 2 {
				wg.Go(func() {
					if _, err := deskAt(e.Store).LendToken(here, boxes[i], &chosen[i%2]); err != nil {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		for i, sb := range boxes {
			n := e.ForStart(here, sb)
			if len(n.Unlent) != 0 || len(n.Loans) != 1 || string(n.Loans[0].Value) != fmt.Sprintf("password%d", i%2+1) {
				t.Fatalf("%d: %+v", i, n)
			}
			must(t, os.RemoveAll(e.Store.Sandbox(sb.ID).Dir))
		}
		have, err := e.Secrets()
		if err != nil || len(have) != 2 {
			t.Fatalf("%+v, %v", have, err)
		}
		for _, s := range have {
			must(t, e.RemoveSecret(here, s.Name))
		}
	}
}

func npmLease(text ...string) spec.Lease {
	l := spec.Lease{Placeholder: "PLACE"}
	for _, s := range text {
		l.Settings = append(l.Settings, spec.Setting{Kind: spec.SettingNpm, Text: s})
	}
	return l
}

// TestWithLines checks that the user's part of the file stays, byte for byte.
func TestWithLines(t *testing.T) {
	lines := npmLines([]spec.Lease{npmLease("//a.example/:_authToken={placeholder}", "@a:registry=https://a.example/"), npmLease("//b.example/:_password={placeholder:base64}", "@a:registry=https://a.example/")})
	if s := strings.Join(lines, " "); s != "//a.example/:_authToken=PLACE @a:registry=https://a.example/ //b.example/:_password=UExBQ0U=" {
		t.Fatalf("%s", s)
	}
	block := lentBegins + "\n" + strings.Join(lines, "\n") + "\n" + lentEnds + "\n"
	for before, want := range map[string]string{
		"":                                    block,
		"fund=false\n":                        "fund=false\n" + block,
		"fund=false":                          "fund=false\n" + block,
		"a=b\n[section]\nc=d\n":               "a=b\n" + block + "[section]\nc=d\n",
		"[section]\n":                         block + "[section]\n",
		"@a:registry=https://mine.example/\n": "@a:registry=https://mine.example/\n" + lentBegins + "\n" + lines[0] + "\n" + lines[2] + "\n" + lentEnds + "\n",
	} {
		after := withLines(before, lines)
		if after != want {
			t.Errorf("%q became %q", before, after)
		}
		if again := withLines(after, lines); again != after {
			t.Errorf("%q became %q at the second start", before, again)
		}
		if gone := withLines(after, nil); strings.TrimRight(gone, "\n") != strings.TrimRight(before, "\n") {
			t.Errorf("%q became %q when nothing is lent", before, gone)
		}
	}
	for _, torn := range []string{lentBegins + "\nx=y\n", lentEnds + "\nx=y\n"} {
		if got := withLines(torn, lines); got != torn+block {
			t.Errorf("%q became %q", torn, got)
		}
	}
}

// TestNpmrcInHostileHome checks that the settings are written to no place outside of a home,
// whatever programs inside have made there.
func TestNpmrcInHostileHome(t *testing.T) {
	lines := []string{"//a.example/:_authToken=PLACE"}
	for name, prepare := range map[string]func(dir, victim string){
		"link":          func(dir, victim string) { must(t, os.Symlink(victim, filepath.Join(dir, npmrcName))) },
		"dangling link": func(dir, victim string) { must(t, os.Symlink(victim+"-none", filepath.Join(dir, npmrcName))) },
		"directory":     func(dir, _ string) { must(t, os.MkdirAll(filepath.Join(dir, npmrcName, "x"), 0o700)) },
		"fifo":          func(dir, _ string) { must(t, unix.Mkfifo(filepath.Join(dir, npmrcName), 0o600)) },
		"large": func(dir, _ string) {
			must(t, os.WriteFile(filepath.Join(dir, npmrcName), []byte(strings.Repeat(";\n", store.MaxSmall)), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			victim := filepath.Join(t.TempDir(), "victim")
			must(t, os.WriteFile(victim, []byte("as it was"), 0o600))
			prepare(dir, victim)
			home, err := os.OpenRoot(dir)
			must(t, err)
			defer home.Close()
			if err := changeNpmrc(home, lines); err == nil {
				t.Error("nothing was said")
			}
			if err := changeNpmrc(home, nil); err != nil {
				t.Errorf("nothing to write: %v", err)
			}
			if text, _ := os.ReadFile(victim); string(text) != "as it was" {
				t.Errorf("the victim is %q", text)
			}
			if _, err := os.Lstat(victim + "-none"); err == nil {
				t.Error("the link was followed")
			}
		})
	}
}

// TestNpmrcIsAnotherFile checks that a hard link to the file does not get the lent settings, and that a
// planted temporary file leads nowhere.
func TestNpmrcIsAnotherFile(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(t.TempDir(), "other")
	must(t, os.WriteFile(other, []byte("fund=false\n"), 0o600))
	must(t, os.Link(other, filepath.Join(dir, npmrcName)))
	victim := filepath.Join(t.TempDir(), "victim")
	must(t, os.Symlink(victim, filepath.Join(dir, npmrcName+".bothy")))
	home, err := os.OpenRoot(dir)
	must(t, err)
	defer home.Close()
	must(t, changeNpmrc(home, []string{"//a.example/:_authToken=PLACE"}))
	if text, _ := os.ReadFile(other); string(text) != "fund=false\n" {
		t.Errorf("the other is %q", text)
	}
	if _, err := os.Lstat(victim); err == nil {
		t.Error("the link was followed")
	}
	text, err := os.ReadFile(filepath.Join(dir, npmrcName))
	if err != nil || !strings.Contains(string(text), "_authToken=PLACE") {
		t.Errorf("%q, %v", text, err)
	}
	must(t, changeNpmrc(home, nil))
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("%v", list)
	}
}

// TestTokenIsNoCredential checks that a token that one sandbox is lent is not lent to agents of
// other sandboxes.
func TestTokenIsNoCredential(t *testing.T) {
	e, _, _ := atHome(t, map[string]string{".config/gh/hosts.yml": "github.com:\n  oauth_token: gho_canary456789012345678901234567890123\n"})
	lendAll(t, e, "github")
	if c, err := e.Find(&spec.Agent{Name: "x", Credentials: []string{"github"}}); err != nil || c.Secret != "" {
		t.Errorf("%+v, %v", c, err)
	}
}
