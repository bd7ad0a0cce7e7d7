package npm

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/agent/registrytest"
	"github.com/bothy-dev/bothy/spec"
)

func client(t *testing.T, environ []string) *Client {
	t.Helper()
	config, err := LoadConfig(environ)
	must(t, err)
	c, err := NewClient(config)
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

func tarball(t *testing.T) []byte {
	return registrytest.Tarball(t, registrytest.Program("package/bin/x", strings.Repeat("program ", 4096)))
}

func TestResolve(t *testing.T) {
	r := registrytest.New(t)
	r.Publish("tool", "1.0.0", tarball(t))
	main := r.Publish("tool", "1.1.0-rc.1", tarball(t))
	main.Optional = map[string]string{
		"@corp/tool-linux": "1.1.0-rc.1", "tool-alias": "npm:tool@1.1.0-linux", "tool-range": "^1.0.0", "tool-gone": "9.0.0", "tool-git": "git://evil.example/x",
	}
	r.Publish("@corp/tool-linux", "1.1.0-rc.1", tarball(t))
	r.Publish("tool", "1.1.0-linux", tarball(t))
	r.Publish("tool-own", "1.1.0-rc.1", tarball(t))
	r.Publish("tool", "1.0.0", tarball(t))
	c := client(t, r.Env(t))

	latest, err := c.Resolve(t.Context(), "tool", "latest")
	if err != nil || latest.Version != "1.0.0" {
		t.Errorf("latest is %s, %v", latest.Version, err)
	}
	for version, want := range map[string]string{"nightly": "no tag", "3.0.0": "no version 3.0.0"} {
		if _, err := c.Resolve(t.Context(), "tool", version); !errors.Is(err, spec.ErrNotFound) || !strings.Contains(err.Error(), want) || !strings.Contains(spec.Hint(err), "1.0.0") {
			t.Errorf("%s: %v (%s)", version, err, spec.Hint(err))
		}
	}
	if _, err := c.Resolve(t.Context(), "@corp/none", "latest"); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if got := r.Asked("/@corp%2fnone"); len(got) != 1 || !strings.HasPrefix(got[0].Header.Get("Accept"), "application/vnd.npm.install-v1+json") {
		t.Errorf("asked %v", got)
	}

	release, err := c.Resolve(t.Context(), "tool", "1.1.0-rc.1")
	must(t, err)
	for _, tt := range []struct {
		platform agent.Platform
		want     string
	}{
		{agent.Platform{}, "tool@1.1.0-rc.1"},
		{agent.Platform{Package: "@corp/tool-linux"}, "@corp/tool-linux@1.1.0-rc.1"},
		{agent.Platform{Package: "tool-alias"}, "tool@1.1.0-linux"},
		{agent.Platform{Package: "tool-own", Version: "{version}"}, "tool-own@1.1.0-rc.1"},
		{agent.Platform{Package: "tool-own"}, ""}, // it does not depend on it
		{agent.Platform{Package: "tool-range"}, ""},
		{agent.Platform{Package: "tool-gone"}, ""},
		{agent.Platform{Package: "tool-git"}, ""},
	} {
		got, err := c.Platform(t.Context(), release, tt.platform)
		if tt.want == "" {
			if !errors.Is(err, spec.ErrNotFound) {
				t.Errorf("%v: %v, %v", tt.platform, got.URL, err)
			}
		} else if err != nil || got.Package+"@"+got.Version != tt.want {
			t.Errorf("%v: %s@%s, %v", tt.platform, got.Package, got.Version, err)
		}
	}
}

func TestNoPackage(t *testing.T) {
	c := client(t, []string{"npm_config_registry=https://127.0.0.1:1/"})
	for _, name := range []string{"", "..", ".x", "_x", "a/b", "@/b", "@a/", "@a/b/c", "a b", "a?b", "a%2fb", "@a/..", strings.Repeat("a", 300)} {
		if _, err := c.Resolve(t.Context(), name, "latest"); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestRefusedTarballs(t *testing.T) {
	r := registrytest.New(t)
	good := registrytest.Integrity(nil)
	c := client(t, r.Env(t))
	for name, dist := range map[string]registrytest.Dist{
		"no integrity":    {Tarball: r.URL + "/x.tgz"},
		"SHA-1 only":      {Tarball: r.URL + "/x.tgz", Shasum: "da39a3ee5e6b4b0d3255bfef95601890afd80709", Integrity: "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="},
		"short":           {Tarball: r.URL + "/x.tgz", Integrity: "sha512-AAAA"},
		"no base64":       {Tarball: r.URL + "/x.tgz", Integrity: "sha512-!!!!"},
		"not encrypted":   {Tarball: "http://elsewhere.example/x.tgz", Integrity: good},
		"a file":          {Tarball: "file:///etc/passwd", Integrity: good},
		"with a password": {Tarball: "https://a:b@elsewhere.example/x.tgz", Integrity: good},
		"none":            {Integrity: good},
	} {
		v := r.Publish("tool", "1.0.0", nil)
		v.Dist = dist
		release, err := c.Resolve(t.Context(), "tool", "1.0.0")
		must(t, err)
		if got, err := c.Platform(t.Context(), release, agent.Platform{}); err == nil {
			t.Errorf("%s: %v", name, got.URL)
		}
	}
}

func TestIntegrity(t *testing.T) {
	good := registrytest.Integrity([]byte("x"))
	i, err := ParseIntegrity("sha1-AAAA " + good + "?opt sha384-BBBB")
	if err != nil || i.String() != good {
		t.Errorf("%v, %v", i, err)
	}
}

// TestMirror checks that a mirror may pass on the addresses of npm's own registry.
func TestMirror(t *testing.T) {
	release := Release{Package: "tool", Version: "1.0.0"}
	for _, tt := range []struct{ registry, tarball, want string }{
		{"https://mirror.example/npm/", "https://registry.npmjs.org/@a/tool/-/tool-1.0.0.tgz", "https://mirror.example/npm/@a/tool/-/tool-1.0.0.tgz"},
		{"https://mirror.example/npm/", "https://cdn.example/tool.tgz", "https://cdn.example/tool.tgz"},
		{"https://mirror.example/", "http://mirror.example/tool.tgz", "https://mirror.example/tool.tgz"},
		{"https://registry.npmjs.org/", "http://registry.npmjs.org/tool.tgz", "https://registry.npmjs.org/tool.tgz"},
		{"http://mirror.example/", "http://cdn.example/tool.tgz", "http://cdn.example/tool.tgz"},
	} {
		var err error
		release.registry, err = url.Parse(tt.registry)
		must(t, err)
		release.document.Dist.Tarball, release.document.Dist.Integrity = tt.tarball, registrytest.Integrity(nil)
		got, err := (&Client{}).tarball(release)
		if err != nil || got.URL.String() != tt.want {
			t.Errorf("%s from %s: %v, %v", tt.tarball, tt.registry, got.URL, err)
		}
	}
}

// TestTokenStays checks that a registry's token goes only to that registry, wherever it sends a client.
func TestTokenStays(t *testing.T) {
	r, elsewhere := registrytest.New(t), registrytest.New(t)
	v := r.Publish("@corp/tool", "1.0.0", tarball(t))
	elsewhere.Publish("@corp/tool", "1.0.0", tarball(t))
	r.Before = func(w http.ResponseWriter, q *http.Request) bool {
		if q.Header.Get("Authorization") != "Bearer T" {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return true
		}
		if strings.HasSuffix(q.URL.Path, ".tgz") {
			http.Redirect(w, q, elsewhere.URL+q.URL.Path, http.StatusFound)
			return true
		}
		return false
	}
	env := r.Env(t, "npm_config_//"+r.Host()+"/:_authToken=T")
	c := client(t, env)
	release, err := c.Resolve(t.Context(), "@corp/tool", "latest")
	must(t, err)
	got, err := c.Platform(t.Context(), release, agent.Platform{})
	must(t, err)
	f, err := c.Download(t.Context(), got, filepath.Join(t.TempDir(), "x"), func(_, _ int64) {})
	must(t, err)
	f.Close()
	asked := elsewhere.Asked(".tgz")
	if len(asked) != 1 || len(r.Asked(".tgz")) != 1 {
		t.Fatalf("%d requests", len(asked))
	}
	if h := asked[0].Header.Get("Authorization"); h != "" {
		t.Errorf("the other host was given %q", h)
	}
	// The token is not sent to the host of the tarball's address, either.
	v.Dist.Tarball = elsewhere.URL + "/@corp/tool/-/tool-1.0.0.tgz"
	release, err = c.Resolve(t.Context(), "@corp/tool", "latest")
	must(t, err)
	got, err = c.Platform(t.Context(), release, agent.Platform{})
	must(t, err)
	f, err = c.Download(t.Context(), got, filepath.Join(t.TempDir(), "x"), func(_, _ int64) {})
	must(t, err)
	f.Close()
	for _, a := range elsewhere.Asked("") {
		if h := a.Header.Get("Authorization"); h != "" {
			t.Errorf("the other host was given %q", h)
		}
	}
	if _, err := client(t, r.Env(t)).Resolve(t.Context(), "@corp/tool", "latest"); !errors.Is(err, spec.ErrDenied) || !strings.Contains(spec.Hint(err), "_authToken") {
		t.Errorf("without a token: %v", err)
	}
}

// TestNoTokenAfterRedirect checks that a redirect to another registry does not use the token for it, not
// even for a redirect within that registry, and that a redirect within one registry does.
func TestNoTokenAfterRedirect(t *testing.T) {
	r, other := registrytest.New(t), registrytest.New(t)
	send := func(from *registrytest.Registry, path, to string) {
		from.Before = func(w http.ResponseWriter, q *http.Request) bool {
			if q.URL.Path != path {
				return false
			}
			http.Redirect(w, q, to, http.StatusFound)
			return true
		}
	}
	r.Publish("moved", "1.0.0", tarball(t))
	other.Publish("moved", "1.0.0", tarball(t))
	env := r.Env(t, "npm_config_//"+r.Host()+"/:_authToken=T", "npm_config_//"+other.Host()+"/:_authToken=O", "NODE_EXTRA_CA_CERTS="+other.CA)
	send(r, "/tool", r.URL+"/moved")
	_, _ = client(t, env).Resolve(t.Context(), "tool", "latest")
	if asked := r.Asked("/moved"); len(asked) != 1 || asked[0].Header.Get("Authorization") != "Bearer T" {
		t.Errorf("within a registry: %v", asked)
	}
	send(r, "/tool", other.URL+"/tool")
	send(other, "/tool", other.URL+"/moved")
	_, _ = client(t, env).Resolve(t.Context(), "tool", "latest")
	asked := other.Asked("")
	if len(asked) != 2 {
		t.Errorf("%d requests", len(asked))
	}
	for _, q := range asked {
		if h := q.Header.Get("Authorization"); h != "" {
			t.Errorf("%s with %q", q.URL.Path, h)
		}
	}
}

// TestRedirectInClear checks that a registry in clear redirects to itself alone.
func TestRedirectInClear(t *testing.T) {
	at := func(s string) *http.Request {
		u, err := url.Parse(s)
		must(t, err)
		return &http.Request{URL: u}
	}
	from := []*http.Request{at("http://127.0.0.1:4873/tool")}
	for to, want := range map[string]bool{
		"http://127.0.0.1:4873/other": true, "https://cdn.example/x": true,
		"http://cdn.example/x": false, "http://127.0.0.1:80/x": false, "http://169.254.169.254/latest": false,
	} {
		if err := checkRedirect(at(to), from); (err == nil) != want || err != nil && !errors.Is(err, spec.ErrDenied) {
			t.Errorf("%s: %v", to, err)
		}
	}
}

func TestRedirectsRefused(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	r := registrytest.New(t)
	for name, to := range map[string]string{"not encrypted": plain.URL, "a circle": r.URL + "/tool", "a password": "https://a:b@" + r.Host()} {
		r.Before = func(w http.ResponseWriter, q *http.Request) bool {
			http.Redirect(w, q, to, http.StatusFound)
			return true
		}
		before := len(r.Asked(""))
		if _, err := client(t, r.Env(t)).Resolve(t.Context(), "tool", "latest"); err == nil || !strings.Contains(err.Error(), "it redirects") {
			t.Errorf("%s: %v", name, err)
		}
		if n := len(r.Asked("")) - before; n > 11 {
			t.Errorf("%s: asked %d times", name, n)
		}
	}
}

// proxy starts a proxy for CONNECT that reaches every name at one address.
func proxy(t *testing.T, to string) (address string, asked *atomic.Value) {
	asked = &atomic.Value{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		asked.Store(q.Method + " " + q.Host + " " + q.Header.Get("Proxy-Authorization"))
		there, err := net.Dial("tcp", to)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		here, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(there, here); there.Close() }()
		_, _ = io.Copy(here, there)
		here.Close()
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), asked
}

func TestProxy(t *testing.T) {
	r := registrytest.New(t)
	r.Publish("tool", "1.0.0", tarball(t))
	address, asked := proxy(t, r.Host())
	for _, how := range []string{"npm_config_https_proxy=http://me:pw@", "npm_config_proxy=http://me:pw@", "HTTPS_PROXY=http://me:pw@"} {
		asked.Store("")
		env := []string{"HOME=" + t.TempDir(), "npm_config_cafile=" + r.CA, "npm_config_registry=https://example.com", how + address}
		release, err := client(t, env).Resolve(t.Context(), "tool", "latest")
		if err != nil || release.Version != "1.0.0" {
			t.Errorf("%s: %v", how, err)
		}
		if got := asked.Load(); got != "CONNECT example.com:443 Basic bWU6cHc=" {
			t.Errorf("%s: the proxy was asked %q", how, got)
		}
	}
	env := []string{"npm_config_registry=https://example.com", "npm_config_proxy=http://me:hunter2@127.0.0.1:1", "HOME=" + t.TempDir()}
	_, err := client(t, env).Resolve(t.Context(), "tool", "latest")
	if !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error()+spec.Hint(err), "hunter2") {
		t.Errorf("a dead proxy: %v", err)
	}
}

func TestUnreachable(t *testing.T) {
	r := registrytest.New(t)
	for name, before := range map[string]func(w http.ResponseWriter, q *http.Request) bool{
		"busy": func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		},
		"broken": func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		},
		"a login": func(w http.ResponseWriter, _ *http.Request) bool { _, _ = io.WriteString(w, "<html>"); return true },
		"another one": func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = io.WriteString(w, `{"name":"other"}`)
			return true
		},
		"cut off": func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
	} {
		r.Before = before
		_, err := client(t, r.Env(t)).Resolve(t.Context(), "tool", "latest")
		if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), r.URL+"/tool") || !strings.Contains(spec.Hint(err), "offline") {
			t.Errorf("%s: %v (%s)", name, err, spec.Hint(err))
		}
	}
	r.Before = nil
	// This host does not know it, and no setting lowers the requirement.
	env := []string{"HOME=" + t.TempDir(), "npm_config_registry=" + r.URL, "npm_config_strict_ssl=false", "npm_config_globalconfig=/nowhere"}
	if _, err := client(t, env).Resolve(t.Context(), "tool", "latest"); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("untrusted: %v", err)
	}
	r.Close()
	if _, err := client(t, r.Env(t)).Resolve(t.Context(), "tool", "latest"); !errors.Is(err, ErrUnreachable) {
		t.Errorf("dead: %v", err)
	}
}

// TestStall checks that a client gives up on a registry that starts an answer and then falls silent.
func TestStall(t *testing.T) {
	r := registrytest.New(t)
	r.Before = func(w http.ResponseWriter, q *http.Request) bool {
		_, _ = io.WriteString(w, `{"name":`)
		_ = http.NewResponseController(w).Flush()
		<-q.Context().Done()
		return true
	}
	c := client(t, r.Env(t))
	c.Stall = 10 * time.Millisecond
	if _, err := c.Resolve(t.Context(), "tool", "latest"); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "nothing came") {
		t.Errorf("%v", err)
	}
}

func TestAuthorities(t *testing.T) {
	r := registrytest.New(t)
	r.Publish("tool", "1.0.0", tarball(t))
	pem, err := os.ReadFile(r.CA)
	must(t, err)
	home := t.TempDir()
	must(t, os.WriteFile(filepath.Join(home, "ca.pem"), pem, 0o600))
	for _, setting := range []string{"npm_config_ca=" + string(pem), "npm_config_ca=" + strings.ReplaceAll(string(pem), "\n", `\n`), "npm_config_cafile=~/ca.pem", "NODE_EXTRA_CA_CERTS=" + r.CA} {
		env := []string{"HOME=" + home, "npm_config_registry=" + r.URL, "npm_config_globalconfig=/nowhere", setting}
		if _, err := client(t, env).Resolve(t.Context(), "tool", "latest"); err != nil {
			t.Errorf("%.30s: %v", setting, err)
		}
	}
	for _, setting := range []string{"npm_config_cafile=/nowhere", "npm_config_cafile=/dev/null", "npm_config_ca=x", "NODE_EXTRA_CA_CERTS=/nowhere"} {
		c, err := LoadConfig([]string{setting})
		must(t, err)
		if _, err := NewClient(c); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%s: %v", setting, err)
		}
	}
}

// TestIsElsewhere checks which steps of a redirect keep a token.
func TestIsElsewhere(t *testing.T) {
	for _, c := range []struct {
		steps []string
		want  bool
	}{
		{[]string{"https://a.test/x"}, false},
		{[]string{"https://a.test/x", "https://a.test/y"}, false},
		{[]string{"http://a.test/x", "https://a.test/x"}, false},
		{[]string{"http://a.test:80/x", "https://a.test:443/x"}, false},
		{[]string{"http://a.test:8080/x", "https://a.test/x"}, true},
		{[]string{"http://a.test/x", "https://a.test:8443/x"}, true},
		{[]string{"http://a.test/x", "https://b.test/x"}, true},
		{[]string{"https://a.test/x", "http://a.test/x"}, true},
		{[]string{"https://a.test/x", "https://b.test/x", "https://a.test/y"}, true},
	} {
		var r *http.Request
		for _, step := range c.steps {
			next, err := http.NewRequestWithContext(t.Context(), http.MethodGet, step, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if r != nil {
				next.Response = &http.Response{Request: r}
			}
			r = next
		}
		if got := isElsewhere(r); got != c.want {
			t.Errorf("%v: %t", c.steps, got)
		}
	}
}
