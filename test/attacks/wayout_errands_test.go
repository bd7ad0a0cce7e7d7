package attacks

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/bothy-dev/bothy/test/stage"
)

// gitSocket is the name, in the directory of both sides, of the near side's server of SSH.
const gitSocket = "git"

// git checks that git over SSH reaches its server through a proxy, and that the error for a refused port
// 22 has a remedy.
func (w *wayOut) git(t *testing.T) {
	t.Helper()
	path := filepath.Join(w.dir, gitSocket)
	_ = os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	f := newRepositories(t, "team/app")
	w.Env = nil
	world := newSSHWorld(t, w.Caller, l)
	world.run = func(command, protocol string, ch ssh.Channel) uint32 { return f.run(command, protocol, ch) }
	agent := w.Env
	w.s.Leads(knownServer, stage.Host4.String())
	w.Must(t, "policy", "allow", knownServer+":22", "--git", "team/app")
	const clone = "rm -rf /tmp/app; git clone -q git@" + knownServer + ":team/app.git /tmp/app && cat /tmp/app/file"
	name := w.starts(t, append(agent, "https_proxy=https://"+squidUser+":"+squidEscaped+"@proxy.example.net:"+squidPort)...)
	w.Must(t, "run", "--name", name, "--lend", "ssh", "--", "true")
	if r := w.Sh(name, "", clone); r.Stdout != "of team/app\n" {
		t.Errorf("a clone by the proxy: %v", r)
	}
	name = w.starts(t, append(agent, "https_proxy="+w.usualProxy())...)
	w.Must(t, "run", "--name", name, "--lend", "ssh", "--", "true")
	const remedy = "refuses to connect to it (403); use https (port 443) instead, or have the proxy allow CONNECT to port 22"
	if r := w.Sh(name, "", clone); r.Code == 0 || !strings.Contains(r.Stderr, remedy) || strings.Contains(r.Stderr, proxyHost) {
		t.Errorf("a clone by a proxy that refuses port 22: %v", r)
	}
	w.logs(t, name, `the proxy http://192\.168\.7\.7:3131 refuses CONNECT to ssh\.example\.net:22: 403; use https`)
}

// renewal checks that a login of the host is renewed through a proxy.
func (w *wayOut) renewal(t *testing.T) {
	t.Helper()
	for _, host := range []string{"api.anthropic.com", "auth.example.net"} {
		w.s.Leads(host, stage.Host4.String())
	}
	agents := filepath.Join(w.Home, ".config/bothy/agents")
	w.Mkdir(t, agents)
	w.Write(t, filepath.Join(agents, "tool.yaml"), loginAgent)
	w.Mkdir(t, filepath.Join(w.Home, ".tool"))
	file := w.Write(t, filepath.Join(w.Home, ".tool/login.json"),
		fmt.Sprintf(`{"a":%q,"r":%q,"e":%d}`, realAccess(1), realRefresh(1), time.Now().Add(-time.Hour).UnixMilli()))
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(file, old, old); err != nil {
		t.Fatal(err)
	}
	w.Env = append([]string{"https_proxy=" + w.usualProxy()}, w.usual...)
	w.Must(t, "run", "--name", "renewal", "tool", w.Work, "--", "true")
	const ask = `curl -sS --max-time 60 https://api.anthropic.com/v1/messages -d {} -H "Authorization: Bearer $(sed 's/.*"a":"\([^"]*\)".*/\1/' ~/.tool/login.json)"`
	if r := w.Sh("renewal", "", ask); !strings.Contains(r.Stdout, "you are Bearer sk-ant-oat01-") || strings.Contains(r.Stdout, "canary") {
		t.Errorf("with a login that has ended: %v", r)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), realRefresh(2)) {
		t.Errorf("the login is not renewed: %s, %v", text, err)
	}
}

// extraAuthorities checks that an authority named only in NODE_EXTRA_CA_CERTS is trusted for the proxy
// and for servers: by the gateway, by programs inside, and by pulls.
func (w *wayOut) extraAuthorities(t *testing.T) {
	t.Helper()
	usual := w.usual
	defer func() { w.usual = usual }()
	proxy := "https_proxy=https://" + squidUser + ":" + squidEscaped + "@proxy.example.net:" + squidPort
	const seen, unseen = "curl -sS --max-time 60 https://seen.example.net/v1/x", "curl -sS --max-time 60 https://plain.example.net/v1/x"
	w.usual = nil
	name := w.starts(t, proxy)
	if out := w.says(name, seen); strings.Contains(out, "GET /v1/x") {
		t.Errorf("an authority that no variable names is trusted: %s", out)
	}
	w.usual = []string{"NODE_EXTRA_CA_CERTS=" + filepath.Join(w.dir, "roots.pem")}
	name = w.starts(t, proxy)
	for _, script := range []string{seen, unseen} {
		if out := w.says(name, script); !strings.Contains(out, "GET /v1/x") {
			t.Errorf("%s: %s", script, out)
		}
	}
	w.Env = append([]string{proxy}, w.usual...)
	w.Must(t, "template", "pull", "images.example.net/team/app:1")
}

// usualProxy returns the proxy that connects only to port 443.
func (w *wayOut) usualProxy() string {
	return "http://" + squidUser + ":" + squidEscaped + "@" + net.JoinHostPort(proxyHost, usualPort)
}

// tokens renews the first login of each caller, and echoes the credential of each request to the model.
func tokens(w http.ResponseWriter, r *http.Request) {
	(&provider{n: 1}).ServeHTTP(w, r)
}
