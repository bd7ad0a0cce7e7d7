package clone

import (
	"strings"
	"testing"
)

// TestReachable checks that addresses of remotes are copied without credentials, and only if they mean
// something in the sandbox.
func TestReachable(t *testing.T) {
	for address, want := range map[string]string{
		"https://example.com/x.git":                     "https://example.com/x.git",
		"https://me:token@example.com:8443/x.git":       "https://example.com:8443/x.git",
		"https://token@example.com/x.git?a=token#token": "https://example.com/x.git",
		"http://x-access-token:token@127.0.0.1/x":       "http://127.0.0.1/x",
		"ssh://git:token@example.com:2222/x.git":        "ssh://git@example.com:2222/x.git",
		"git@example.com:team/x.git":                    "git@example.com:team/x.git",
		"git://example.com/x":                           "git://example.com/x",
		"host:x.git":                                    "host:x.git",
		"me:token@example.com:x":                        "",
		"/srv/git/x.git":                                "",
		"../x.git":                                      "",
		"./a:b":                                         "",
		"file:///srv/x.git":                             "",
		"ext::sh -c evil":                               "",
		"https::https://me:token@example.com":           "",
		"--upload-pack=evil":                            "",
		"-oProxyCommand=evil:x":                         "",
		"https://me:tok/en@example.com/x":               "",
		"https://[2001:db8::1]:8443/x":                  "https://[2001:db8::1]:8443/x",
		"https:///x":                                    "",
		"":                                              "",
		"https://exa mple.com/%zz":                      "",
		"ftp://me:token@example.com/x":                  "",
	} {
		if got, ok := reachable(address); got != want && ok || ok != (want != "") {
			t.Errorf("%q becomes %q, %t", address, got, ok)
		}
	}
}

// TestCompose checks that a clone gets only the listed settings of the user's configuration,
// quoted.
func TestCompose(t *testing.T) {
	got := compose([]setting{
		{"core.fsmonitor", "evil"},
		{"remote.or.i\"g\\in.url", "https://t@example.com/x"},
		{"remote.or.i\"g\\in.pushurl", "git@example.com:x"},
		{"remote.or.i\"g\\in.uploadpack", "evil"},
		{"remote.disk.url", "/x"},
		{"branch.main.remote", "or.i\"g\\in"},
		{"branch.main.merge", "refs/heads/main"},
		{"branch.other.remote", "disk"},
		{"user.name", "x\" #y"},
		{"user.signingkey", "k"},
		{"include.path", "/evil"},
		{"http.https://example.com.extraheader", "token"},
		{"credential.helper", "evil"},
	}, "main")
	want := `[remote "or.i\"g\\in"]
	fetch = "+refs/heads/*:refs/remotes/or.i\"g\\in/*"
	url = "https://example.com/x"
[remote "or.i\"g\\in"]
	pushurl = "git@example.com:x"
[branch "main"]
	remote = "or.i\"g\\in"
	merge = "refs/heads/main"
[user]
	name = "x\" #y"
`
	if got != want {
		t.Errorf("it is\n%s", got)
	}
}

// TestNames checks that git accepts every name that isRef accepts; git's own rule is nowhere narrower.
func TestNames(t *testing.T) {
	for _, good := range []string{"refs/heads/main", "refs/heads/feature/x-1.2_y", "refs/heads/ümlaut", "refs/heads/a@b", "refs/heads/#1", "refs/heads/head"} {
		if err := checkRef(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "main", "refs/heads/", "refs//a", "refs/heads/" + strings.Repeat("x", maxPart+1), "refs/heads/a\u3164", "refs/heads/a\ufe0f", "refs/heads/a\u202e"} {
		if checkRef(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	for _, hash := range []string{strings.Repeat("a", 39), strings.Repeat("A", 40), strings.Repeat("g", 40), strings.Repeat("0", 41), ""} {
		if isHash(hash) {
			t.Errorf("%q is taken", hash)
		}
	}
}

// FuzzNames looks for a name that isRef accepts and git does not.
func FuzzNames(f *testing.F) {
	p := &person{dir: f.TempDir()}
	if _, err := tryGit(p.dir, "version"); err != nil {
		f.Skip("there is no git")
	}
	for _, name := range []string{"refs/heads/a", "refs/heads/a..b", "refs/heads/\u00a0", "refs/heads/a.lock/b"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if checkRef(name) != nil {
			return
		}
		if out, err := tryGit(p.dir, "check-ref-format", name); err != nil {
			t.Errorf("git does not take %q: %v %s", name, err, out)
		}
	})
}
