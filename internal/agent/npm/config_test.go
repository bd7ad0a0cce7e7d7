package npm

import (
	"encoding/base64"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/hostproxy/transport"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestPrecedence checks that the environment overrides the user's file, which overrides the
// machine's. The repository's file is ignored.
func TestPrecedence(t *testing.T) {
	dir := t.TempDir()
	home, global, repo := filepath.Join(dir, "home"), filepath.Join(dir, "global"), filepath.Join(dir, "repo")
	for file, text := range map[string]string{
		filepath.Join(home, ".npmrc"): "a=user\nb=user\nglobalconfig=" + global,
		global:                        "a=global\nb=global\nc=global",
		filepath.Join(repo, ".npmrc"): "a=repo\nb=repo\nc=repo\nd=repo\nregistry=https://evil.example/",
	} {
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, []byte(text), 0o600))
	}
	t.Chdir(repo)
	c, err := LoadConfig([]string{"HOME=" + home, "NPM_CONFIG_A=env", "npm_config_Some_Thing=x", "npm_config_//h/:_authToken=T", "npm_config_empty="})
	must(t, err)
	want := settings{"a": "env", "b": "user", "c": "global", "globalconfig": global, "some-thing": "x", "//h/:_authToken": "T"}
	if !maps.Equal(c.settings, want) {
		t.Errorf("%q", c.settings)
	}
	if u, err := c.registry("x"); err != nil || u.String() != DefaultRegistry {
		t.Errorf("%s, %v", u, err)
	}
	other := filepath.Join(dir, "other")
	must(t, os.WriteFile(other, []byte("b=other"), 0o600))
	c, err = LoadConfig([]string{"HOME=" + home, "NPM_CONFIG_USERCONFIG=" + other, "npm_config_prefix=" + dir})
	must(t, err)
	if c.settings["b"] != "other" || c.settings["c"] != "" {
		t.Errorf("%q", c.settings)
	}
}

func config(s settings, environ ...string) *Config { return &Config{settings: s, environ: environ} }

func TestRegistryOfScope(t *testing.T) {
	c := config(settings{"registry": "https://mirror.example/npm", "@corp:registry": "http://user:pw@corp.example:4873", "@bad:registry": "ftp://x/"})
	for pkg, want := range map[string]string{
		"a": "https://mirror.example/npm/", "@other/a": "https://mirror.example/npm/", "@corp/a": "http://corp.example:4873/", "@bad/a": "",
	} {
		u, err := c.registry(pkg)
		if (err == nil) != (want != "") || err == nil && u.String() != want {
			t.Errorf("%s: %v, %v", pkg, u, err)
		}
	}
}

func TestAuthorization(t *testing.T) {
	sealed := base64.StdEncoding.EncodeToString([]byte("p:w"))
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:p:w"))
	c := config(settings{
		"registry": "https://npm.example/path/", "@plain:registry": "http://plain.example/",
		"//npm.example/path/:_authToken": "T1", "//npm.example/path/deep:_auth": "AAAA",
		"//other.example/:username": "me", "//other.example/:_password": sealed,
		"//plain.example/:_authToken": "T2", "_authToken": "OLD",
	})
	for address, want := range map[string]string{
		"https://npm.example/path/@a%2fb":                   "Bearer T1",
		"https://npm.example/path/deep/x.tgz":               "Basic AAAA",
		"https://npm.example/elsewhere/x.tgz":               "Bearer T1", // the registry's own host
		"http://npm.example/path/x.tgz":                     "",          // in clear
		"https://npm.example:444/path/x":                    "",
		"https://sub.npm.example/path/x":                    "",
		"https://npm.example.evil.example/path/x":           "",
		"https://other.example/any/x":                       basic,
		"http://plain.example/x":                            "Bearer T2",
		"https://evil.example/npm.example/path/":            "",
		"https://evil.example//npm.example/path/:_authToke": "",
	} {
		u, err := url.Parse(address)
		must(t, err)
		if got := c.authorization(u); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}

func TestProxySettings(t *testing.T) {
	tests := []struct {
		name    string
		s       settings
		environ []string
		want    map[string]string
	}{
		{"none", nil, nil, map[string]string{"https://a.example/": "", "http://a.example/": ""}},
		{"environment", nil, []string{"HTTPS_PROXY=http://p:1", "http_proxy=q:2", "NO_PROXY=b.example, .c.example,10.0.0.0/8,d.example:99"}, map[string]string{
			"https://a.example/": "http://p:1", "http://a.example/": "http://q:2", "https://b.example/": "", "https://x.b.example/": "",
			"https://xb.example/": "http://p:1", "https://c.example/": "", "https://10.1.2.3/": "", "https://11.1.2.3/": "http://p:1",
			"https://d.example:99/": "", "https://d.example/": "http://p:1", "https://127.0.0.1/": "", "https://localhost:1/": "", "https://[::1]/": "",
		}},
		{"npm's own before", settings{"proxy": "http://n:3", "noproxy": "b.example"}, []string{"HTTPS_PROXY=http://p:1", "NO_PROXY=a.example"}, map[string]string{
			"https://a.example/": "http://n:3", "http://a.example/": "http://n:3", "https://b.example/": "",
		}},
		{"null", settings{"https-proxy": "null", "proxy": "false"}, []string{"https_proxy=http://p:1"}, map[string]string{"https://a.example/": "http://p:1"}},
		{"all excepted", settings{"proxy": "http://n:3"}, []string{"no_proxy=*"}, map[string]string{"https://a.example/": ""}},
	}
	for _, tt := range tests {
		s := config(tt.s, tt.environ...).proxies()
		for address, want := range tt.want {
			u, err := url.Parse(address)
			must(t, err)
			got := ""
			p, err := transport.Proxy(s, u)
			if p != nil {
				got = p.String()
			}
			if err != nil || got != want {
				t.Errorf("%s: %s: %q, %v, want %q", tt.name, address, got, err, want)
			}
		}
	}
}

func TestNotHonoured(t *testing.T) {
	c, err := LoadConfig([]string{"npm_config_strict_ssl=false", "npm_config_//h/:certfile=x", "npm_config_//h/:_authToken=${UNSET}", "npm_config_globalconfig=/nowhere"})
	must(t, err)
	all := strings.Join(c.Notices, "\n")
	for _, want := range []string{"strict-ssl", "certfile", "_authToken"} {
		if !strings.Contains(all, want) {
			t.Errorf("nothing is said of %s: %q", want, c.Notices)
		}
	}
	if len(c.Notices) != 3 || !slices.IsSorted(c.Notices) {
		t.Errorf("%q", c.Notices)
	}
	if _, ok := c.settings["//h/:_authToken"]; ok {
		t.Error("the name of a variable is sent as a token")
	}
}
