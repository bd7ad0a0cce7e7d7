package hostcreds

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// on returns a host with files in its home, named with their mode if that is not 0600, and an
// environment.
func on(t *testing.T, files map[string]string, environ ...string) Host {
	t.Helper()
	home := t.TempDir()
	for name, content := range files {
		path := filepath.Join(home, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return Host{Home: home, Environ: environ}
}

// said formats the found tokens: purpose, source, hosts and place, value and settings; or the reason of
// the refusal.
func said(list []Token) string {
	var b strings.Builder
	for _, t := range list {
		fmt.Fprintf(&b, "%s %s from %s: ", t.Tool, t.For, t.From)
		if t.Err != nil {
			fmt.Fprintf(&b, "NOT %v\n", t.Err)
			continue
		}
		value := string(t.Value)
		if t.Command != nil {
			value = "`" + strings.Join(t.Command, " ") + "`"
		}
		fmt.Fprintf(&b, "%s to %s by %s(%s)", value, strings.Join(t.Terms.Hosts, ","), t.Terms.Place.Kind, t.Terms.Place.User)
		if len(t.Terms.Env) > 0 {
			fmt.Fprintf(&b, " $%s", strings.Join(t.Terms.Env, ","))
		}
		b.WriteString("\n")
		for _, s := range t.Terms.Settings {
			fmt.Fprintf(&b, "  %s %s\n", strings.TrimSpace(string(s.Kind)+" "+s.Name), s.Text)
		}
	}
	return b.String()
}

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func helper(user, password string) string {
	return `!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' '` + user + `' '` + password + `'; }; f`
}

func TestFind(t *testing.T) {
	gitHubTerms := " to api.github.com:443,uploads.github.com:443,github.com:443 by authorization() $GH_TOKEN,GITHUB_TOKEN\n" +
		"  git credential.https://github.com.helper " + helper("x-access-token", "{placeholder}") + "\n"
	for _, c := range []struct {
		name    string
		tool    string
		files   map[string]string
		environ []string
		want    string
	}{
		{"nothing", "", nil, nil, ""},
		{
			"github variable", "github",
			map[string]string{".config/gh/hosts.yml": "github.com:\n  oauth_token: gho_of-the-file-1234\n"},
			[]string{"GH_TOKEN=", "GITHUB_TOKEN=ghp_of-the-variable"},
			"github https://github.com from $GITHUB_TOKEN: ghp_of-the-variable" + gitHubTerms,
		},
		{
			"gh", "github",
			map[string]string{".config/gh/hosts.yml": "github.com:\n    user: me\n    oauth_token: gho_1234567890\n    git_protocol: https\n"},
			nil,
			"github https://github.com from ~/.config/gh/hosts.yml: gho_1234567890" + gitHubTerms,
		},
		{
			"gh, several accounts", "github",
			map[string]string{".config/gh/hosts.yml": "github.com:\n    users:\n        other:\n            oauth_token: gho_other67890\n        me:\n            oauth_token: gho_mine567890\n    user: me\n"},
			nil,
			"github https://github.com from ~/.config/gh/hosts.yml: gho_mine567890" + gitHubTerms,
		},
		{
			"gh, the keyring", "github",
			map[string]string{".config/gh/hosts.yml": "github.com:\n    users:\n        me:\n    user: me\n"},
			nil,
			"github https://github.com from the desktop's keyring, as ~/.config/gh/hosts.yml says: `gh auth token --hostname github.com`" + gitHubTerms,
		},
		{
			"gh, another directory", "github",
			map[string]string{".config/gh/hosts.yml": "github.com:\n  oauth_token: gho_wrong67890\n", "x/gh/hosts.yml": "github.com:\n  oauth_token: gho_right67890\n"},
			[]string{"XDG_CONFIG_HOME=HOME/x"},
			"github https://github.com from ~/x/gh/hosts.yml: gho_right67890" + gitHubTerms,
		},
		{
			"gh, another server", "github",
			map[string]string{".config/gh/hosts.yml": "ghe.example.com:\n  oauth_token: gho_wrong67890\n"},
			nil,
			"github https://ghe.example.com from ~/.config/gh/hosts.yml: NOT only that of github.com is lent\n",
		},
		{
			"gh, nonsense", "github",
			map[string]string{".config/gh/hosts.yml": "- gho_canary4567890\n"},
			nil,
			"github  from ~/.config/gh/hosts.yml: NOT it does not have the form that gh writes\n",
		},
		{"git", "git", map[string]string{
			".git-credentials":        "https://me%40example.com:pass%2Fword@git.example.com\nhttps://git.example.com\n\nhttp://me:password1@plain.example.com\nhttps://you:password2@git.example.com/\nhttps://ghp_0123456789012345678901:x-oauth-basic@github.com\nhttps://it's:password5@odd.example.com:8443/team/x.git\n",
			".config/git/credentials": "https://me%40example.com:later-one@git.example.com\n",
			".netrc":                  "machine netrc.example.com login me\n\tpassword \"pass word\\\"3\" # why\nmacdef init\nmachine evil.example.com login a password b\n\nmachine b.example.com\npassword #password4 login you\ndefault login anonymous password nobody@example.com\n",
		}, nil, "git https://me%40example.com@git.example.com from ~/.git-credentials: pass/word to git.example.com:443 by basic(me@example.com)\n" +
			"  git credential.https://git.example.com.helper " + helper("me@example.com", "{placeholder}") + "\n" +
			"git http://me@plain.example.com from ~/.git-credentials: NOT it is not used over TLS\n" +
			"git https://you@git.example.com/ from ~/.git-credentials: password2 to git.example.com:443 by basic(you)\n" +
			"  git credential.https://git.example.com.helper " + helper("you", "{placeholder}") + "\n" +
			"git https://github.com from ~/.git-credentials: ghp_0123456789012345678901 to github.com:443 by basic()\n" +
			"  git credential.https://github.com.helper " + helper("{placeholder}", "x-oauth-basic") + "\n" +
			"git https://it%27s@odd.example.com:8443/team/x.git from ~/.git-credentials: password5 to odd.example.com:8443 by basic(it's)\n" +
			"  git credential.https://odd.example.com:8443/team/x.git.helper " + helper(`it'\''s`, "{placeholder}") + "\n" +
			"git https://me@netrc.example.com from ~/.netrc: pass word\"3 to netrc.example.com:443 by basic(me)\n" +
			"  git credential.https://netrc.example.com.helper " + helper("me", "{placeholder}") + "\n" +
			"git https://you@b.example.com from ~/.netrc: #password4 to b.example.com:443 by basic(you)\n" +
			"  git credential.https://b.example.com.helper " + helper("you", "{placeholder}") + "\n"},
		{"git, not lent", "git", map[string]string{
			".git-credentials": "https://ghp_0123456789012345678901:and-a-password@github.com\nhttps://me:short@a.example.com\nhttps://me:password1@intranet\nnonsense\n",
		}, nil, "git https://github.com from ~/.git-credentials: NOT its user name looks like a token\n" +
			"git https://me@a.example.com from ~/.git-credentials: NOT the value has fewer than 8 bytes\n" +
			"git https://me@intranet from ~/.git-credentials: NOT \"intranet:443\" is not the full name of a host\n"},
		{
			"npm", "npm",
			map[string]string{".npmrc": strings.Join([]string{
				"//registry.npmjs.org/:_authToken=npm_0123456789", "registry=https://registry.npmjs.org/", "@corp:registry=https://npm.example.com/team/", "@other:registry=https://elsewhere.example.com/",
				"//npm.example.com/team/:_authToken=${CORP_TOKEN}", "//old.example.com/:_authToken=${NOT_SET}", "//basic.example.com:8443/:username=me", "//basic.example.com:8443/:_password=cGFzc3dvcmQx",
				"_authToken=of-nobody-known", "//auth.example.com/:_auth=bWU6cGFzc3dvcmQy", "@plain:registry=http://plain.example.com/", "//plain.example.com/:_authToken=password3",
			}, "\n")},
			[]string{"CORP_TOKEN=glpat-0123456789"},
			"npm https://me@auth.example.com/ from ~/.npmrc: password2 to auth.example.com:443 by basic(me)\n" +
				"  npm //auth.example.com/:username=me\n  npm //auth.example.com/:_password={placeholder:base64}\n" +
				"npm https://me@basic.example.com:8443/ from ~/.npmrc: password1 to basic.example.com:8443 by basic(me)\n" +
				"  npm //basic.example.com:8443/:username=me\n  npm //basic.example.com:8443/:_password={placeholder:base64}\n" +
				"npm https://npm.example.com/team/ from ~/.npmrc: glpat-0123456789 to npm.example.com:443 by bearer()\n" +
				"  npm //npm.example.com/team/:_authToken={placeholder}\n  npm @corp:registry=https://npm.example.com/team/\n" +
				"npm https://old.example.com/ from ~/.npmrc: NOT the variable NOT_SET is not set\n" +
				"npm https://plain.example.com/ from ~/.npmrc: NOT it is not used over TLS\n" +
				"npm https://registry.npmjs.org/ from ~/.npmrc: npm_0123456789 to registry.npmjs.org:443 by bearer()\n" +
				"  npm //registry.npmjs.org/:_authToken={placeholder}\n  npm registry=https://registry.npmjs.org/\n",
		},
		{
			"npm by variables", "npm",
			map[string]string{"rc": "//a.example.com/:_authToken=of-the-file"},
			[]string{"npm_config_userconfig=HOME/rc", "npm_config_//a.example.com/:_authToken=of-the-variable"},
			"npm https://a.example.com/ from your environment: of-the-variable to a.example.com:443 by bearer()\n" +
				"  npm //a.example.com/:_authToken={placeholder}\n",
		},
		{"pip", "pip", map[string]string{
			".config/pip/pip.conf": "[global]\nindex_url = https://me:password1@pypi.example.com/simple/\nextra-index-url =\n  https://pypi.org/simple\n  https://me:password1@pypi.example.com/other/\n  https://netrc.example.com/simple\n  https://0123456789abcdef0123:@fury.example.com/me/\n  https://public.example.com/simple?token=canary\n  https://dl.example.com/a1b2c3d4e5f6a7b8/me/simple\n  https://me:password9@dl.example.com/team/a1b2c3d4e5f6a7b8/simple\n[install]\ntimeout: 3\n[list]\nindex-url = https://a:bbbbbbbb@wrong.example.com\n",
			".netrc":               "machine netrc.example.com login you password password2\n",
		}, nil, "pip https://me@pypi.example.com/other/ from ~/.config/pip/pip.conf: password1 to pypi.example.com:443 by basic(me)\n" +
			"  variable PIP_EXTRA_INDEX_URL https://pypi.org/simple https://me:{placeholder}@pypi.example.com/other/\n" +
			"  variable PIP_INDEX_URL https://me:{placeholder}@pypi.example.com/simple/\n" +
			"pip https://you@netrc.example.com/simple from ~/.netrc: password2 to netrc.example.com:443 by basic(you)\n" +
			"  variable PIP_EXTRA_INDEX_URL https://you:{placeholder}@netrc.example.com/simple\n" +
			"pip https://fury.example.com/me/ from ~/.config/pip/pip.conf: 0123456789abcdef0123 to fury.example.com:443 by basic()\n" +
			"  variable PIP_EXTRA_INDEX_URL https://{placeholder}:@fury.example.com/me/ https://public.example.com/simple\n" +
			"pip https://me@dl.example.com from ~/.config/pip/pip.conf: NOT its address has a part that looks like a token\n"},
		{
			"pip by variables", "pip",
			map[string]string{"pip.conf": "[global]\nindex-url=https://me:password1@wrong.example.com/\n"},
			[]string{"PIP_CONFIG_FILE=HOME/pip.conf", "PIP_INDEX_URL=https://me:password2@right.example.com/simple", "UV_INDEX=corp-x=https://uv.example.com/simple https://pypi.org/simple", "UV_INDEX_CORP_X_USERNAME=you", "UV_INDEX_CORP_X_PASSWORD=password3", "UV_INDEX_OTHER_PASSWORD=password4"},
			"pip https://me@right.example.com/simple from $PIP_INDEX_URL: password2 to right.example.com:443 by basic(me)\n" +
				"  variable PIP_INDEX_URL https://me:{placeholder}@right.example.com/simple\n" +
				"pip https://you@uv.example.com/simple from $UV_INDEX_CORP_X_PASSWORD: password3 to uv.example.com:443 by basic(you)\n" +
				"  variable UV_INDEX corp-x=https://you:{placeholder}@uv.example.com/simple https://pypi.org/simple\n" +
				"pip  from $UV_INDEX_OTHER_PASSWORD: NOT only a project says which server it is for\n",
		},
		{"pip, no files", "pip", map[string]string{".config/pip/pip.conf": "[global]\nindex-url=https://me:password1@wrong.example.com/\n"}, []string{"PIP_CONFIG_FILE=/dev/null"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := on(t, c.files, c.environ...)
			for i, kv := range h.Environ {
				h.Environ[i] = strings.Replace(kv, "HOME/", h.Home+"/", 1)
			}
			var tools []string
			if c.tool != "" {
				tools = []string{c.tool}
			}
			if got := said(Find(h, tools...)); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// TestHostileFiles checks that a file that others may have written, or that is not regular,
// is refused with the reason.
func TestHostileFiles(t *testing.T) {
	const line = "//a.example.com/:_authToken=canary-0123456789\n"
	for name, c := range map[string]struct {
		prepare func(path string) error
		want    string
	}{
		"link": {func(path string) error {
			return errors.Join(os.WriteFile(path+"2", []byte(line), 0o600), os.Symlink(path+"2", path))
		}, "a symbolic link"},
		"fifo":      {func(path string) error { return unix.Mkfifo(path, 0o600) }, "not a regular file"},
		"directory": {func(path string) error { return os.Mkdir(path, 0o700) }, "not a regular file"},
		"large":     {func(path string) error { return os.WriteFile(path, []byte(line+strings.Repeat(";\n", maxFile)), 0o600) }, "larger than 1024 KiB"},
		"writable": {func(path string) error {
			return errors.Join(os.WriteFile(path, []byte(line), 0o600), os.Chmod(path, 0o620))
		}, "others may write it: its mode is 0620"},
		"of another": {func(path string) error {
			return errors.Join(os.WriteFile(path, []byte(line), 0o600), os.Chown(path, 12345, 12345))
		}, "belongs to another user"},
		"line break": {func(path string) error {
			return os.WriteFile(path, []byte(`"//a.example.com/x\ny/:_authToken"=canary-0123456789`), 0o600)
		}, ""},
		"no value": {func(path string) error { return os.WriteFile(path, []byte("//a.example.com/:_authToken=\n"), 0o600) }, ""},
		"wide": {func(path string) error {
			return os.WriteFile(path, []byte("//*.com/:_authToken=canary-0123456789\n"), 0o600)
		}, "too much"},
		"binary": {func(path string) error {
			return os.WriteFile(path, []byte("//a.example.com/:_authToken=\xff\x00canary-12\n"), 0o600)
		}, "not printable"},
		"no password": {func(path string) error {
			return os.WriteFile(path, []byte("//a.example.com/:_password=cGFzc3dvcmQx\n"), 0o600)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "of another" && os.Geteuid() != 0 {
				t.Skip("only root can give files away")
			}
			h := on(t, nil)
			must(t, c.prepare(filepath.Join(h.Home, ".npmrc")))
			list := Find(h, "npm")
			if c.want == "" {
				if len(list) != 0 {
					t.Errorf("found %s", said(list))
				}
				return
			}
			if len(list) != 1 || list[0].Err == nil || !strings.Contains(list[0].Err.Error(), c.want) || list[0].Value != nil {
				t.Errorf("found %s", said(list))
			}
			if strings.Contains(said(list), "canary") {
				t.Errorf("it repeats what it read: %s", said(list))
			}
		})
	}
}

// TestTermsMakeLeases checks that found tokens pass the same checks as any lease, and that
// their placeholders fit.
func TestTermsMakeLeases(t *testing.T) {
	h := on(t, map[string]string{
		".npmrc":               "//registry.npmjs.org/:_authToken=npm_0123456789\n",
		".git-credentials":     "https://me:password1@git.example.com\n",
		".config/gh/hosts.yml": "github.com:\n  oauth_token: gho_0123456789012345678901234567890123\n",
	}, "PIP_INDEX_URL=https://me:password2@pypi.example.com/simple")
	for _, found := range Find(h) {
		must(t, found.Err)
		l, err := vault.NewLease(&vault.Secret{Name: "x", Service: found.Service}, "", found.Terms, found.Value, noon)
		must(t, err)
		if l.Tool != found.Tool || len(l.Settings) == 0 || strings.Contains(l.Placeholder, string(found.Value)) || len(l.Placeholder) < 16 {
			t.Errorf("%+v", l)
		}
		for _, s := range l.Settings {
			if text := l.Filled(s); strings.Contains(text, "{") && s.Kind != spec.SettingGit || s.Kind != spec.SettingNpm && !strings.Contains(text, l.Placeholder) {
				t.Errorf("%s is %q", s.Name, text)
			}
		}
	}
}

func TestParseChoices(t *testing.T) {
	got, err := ParseChoices([]string{"github,npm:Registry.npmjs.org", "git:git.example.com:8443", "pip:a.example.com:443"})
	must(t, err)
	if s := fmt.Sprint(got); s != "[github npm:registry.npmjs.org git:git.example.com:8443 pip:a.example.com]" {
		t.Errorf("%s", s)
	}
	for _, bad := range []string{"", "gpg", "github,,npm"} {
		if _, err := ParseChoices([]string{bad}); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestFindAgent checks that the agent's socket is lent only if it is a socket with a listener.
func TestFindAgent(t *testing.T) {
	dir := t.TempDir()
	path, dead := filepath.Join(dir, "agent"), filepath.Join(dir, "dead")
	must(t, os.WriteFile(path, nil, 0o600))
	killed, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead})
	must(t, err)
	killed.SetUnlinkOnClose(false)
	must(t, killed.Close())
	for _, c := range [][2]string{
		{path, "ssh ssh-agent from $SSH_AUTH_SOCK: NOT it is not a socket\n"},
		{dir + "/none", "ssh ssh-agent from $SSH_AUTH_SOCK: NOT stat " + dir + "/none: no such file or directory\n"},
		{dead, "ssh ssh-agent from $SSH_AUTH_SOCK: NOT no agent listens there\n"},
	} {
		found := Find(Host{Environ: []string{"SSH_AUTH_SOCK=" + c[0]}}, "ssh")
		if got := said(found); got != c[1] {
			t.Errorf("%s: %s", c[0], got)
		}
		for _, x := range found {
			if !strings.Contains(spec.Hint(x.Err), "ssh-add") {
				t.Errorf("%s: what to do is not said: %q", c[0], spec.Hint(x.Err))
			}
		}
	}
	must(t, os.Remove(path))
	l, err := net.Listen("unix", path)
	must(t, err)
	defer l.Close()
	want := "ssh ssh-agent from $SSH_AUTH_SOCK: " + path + " to  by agent()\n  variable SSH_AUTH_SOCK /tmp/.bothy/ssh-agent\n  variable GIT_SSH_COMMAND ssh -o StrictHostKeyChecking=accept-new -o 'GlobalKnownHostsFile=/etc/ssh/ssh_known_hosts /.bothy/ca/known_hosts'\n"
	if got := said(Find(Host{Environ: []string{"SSH_AUTH_SOCK=" + path}}, "ssh")); got != want {
		t.Errorf("%s", got)
	}
}

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]string{
		"https://Example.COM:443/a/%41?q=1":    "https://example.com/a/%41 [] example.com example.com:443 true",
		"HTTPS://u%40x:p%2f%3A@h.example:8443": "https://u%40x@h.example:8443 [p/:] h.example h.example:8443 false",
		"https://a@b:c@h.example":              "https://a%40b@h.example [c] h.example h.example:443 false",
		"https://[2001:db8::1]/x":              "https://[2001:db8::1]/x [] 2001:db8::1 [2001:db8::1]:443 false",
		"https://[2001:db8::1]:1/x#y":          "https://[2001:db8::1]:1/x [] 2001:db8::1 [2001:db8::1]:1 true",
		"https://h.example?x@evil.example/":    "https://h.example [] h.example h.example:443 true",
		"https://h.example#@evil.example":      "https://h.example [] h.example h.example:443 true",
		"https://h.example/x@evil.example":     "https://h.example/x@evil.example [] h.example h.example:443 false",
	} {
		a, password, more, err := parseAddress(text)
		must(t, err)
		if got := fmt.Sprintf("%s [%s] %s %s %v", a, password, a.hostname(), a.target(), more); got != want {
			t.Errorf("%s is %s", text, got)
		}
	}
	for _, text := range []string{"", "x", "https://", "https:///x", "//h.example", "https://u:%4@h.example", "https://u:%zz@h.example", "https://h .example", "https://h%2eexample", "https://h\nx"} {
		if a, _, _, err := parseAddress(text); err == nil || text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%q is %s, %v", text, a, err)
		}
	}
}
