package attacks

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/agent/registrytest"
	"github.com/bothy-dev/bothy/internal/gateway/ca"
	"github.com/bothy-dev/bothy/internal/image/imagetest"
	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// The addresses of the far side's proxies on the near one, and squid's login.
const (
	proxyHost = "192.168.7.7" // an address of the host itself, as for a proxy on it
	tinyPort  = "3128"
	squidPort = "3129" // over TLS, with a password
	deadPort  = "3130"
	usualPort = "3131" // in clear text, with a password, and CONNECT only to port 443, as in most companies

	squidProgram  = "/usr/sbin/squid"
	squidUser     = "me"
	squidPassword = "p@ss:w/rd %#1"
	squidKey      = "bWU6cEBzczp3L3JkICUjMQ==" // both, as they are sent
	squidEscaped  = "p%40ss%3Aw%2Frd%20%25%231"
)

// TestWayOut checks a host whose only way out is a proxy. A sandbox reaches its allowed targets through
// the proxy, and nothing else: over real proxies, in clear text and over TLS, with a password.
func TestWayOut(t *testing.T) {
	harness.AsUser(t)
	for _, program := range []string{"tinyproxy", squidProgram, "apt-get", "git", "ssh"} {
		if _, err := exec.LookPath(program); err != nil {
			harness.Missing(t, "%s", program)
		}
	}
	stage.Behind(t, farSide, func(t *testing.T, c *harness.Caller, s *stage.Stage, dir string) {
		stage.Join(t, s.Take(t, tinyPort), dir, "tinyproxy")
		squid := stage.Listen(t, squidPort)
		t.Cleanup(func() { squid.Close() })
		stage.Join(t, squid, dir, "squid")
		usual := stage.Listen(t, usualPort)
		t.Cleanup(func() { usual.Close() })
		stage.Join(t, usual, dir, "usual")
		w := &wayOut{Caller: c, s: s, dir: dir, usual: []string{"SSL_CERT_FILE=" + filepath.Join(dir, "roots.pem")}}
		w.me = c.Plant(t, c.Work)
		w.before = map[string]int{"tinyproxy.log": len(w.log(t, "tinyproxy.log")), "squid.log": len(w.log(t, "squid.log"))}
		s.Leads("plain.example.net", stage.Host4.String())
		s.Leads("seen.example.net", stage.Host4.String())
		for _, rule := range []string{"api.example.net:443", "web.example.net:80", "down.example.net:81", "93.184.216.34:80", "plain.example.net", "[2606:2800:220:1::34]:5432", "192.168.7.7:8080"} {
			c.Must(t, "policy", "allow", rule)
		}
		c.Must(t, "policy", "allow", "api.example.net:443", "--method", "GET", "--path", "/v1/**", "--websocket")
		c.Must(t, "policy", "allow", "seen.example.net:443", "--inspect")
		w.inClear(t)
		w.withoutNames(t)
		w.overTLS(t)
		w.usualCompany(t)
		w.refused(t)
		w.errands(t)
		w.extraAuthorities(t)
		w.renewal(t)
		w.git(t)
	})
}

// wayOut is a host behind proxies.
type wayOut struct {
	*harness.Caller
	s     *stage.Stage
	dir   string // of both sides
	me    string
	usual []string
	n     int
	// before is the number of log lines that proxies wrote for earlier callers.
	before map[string]int
}

// starts makes a sandbox in an environment, and returns its name.
func (w *wayOut) starts(t *testing.T, env ...string) string {
	t.Helper()
	w.Env = append(env, w.usual...)
	w.n++
	name := fmt.Sprint("box", w.n)
	w.Must(t, "create", "--name", name, "shell", w.Work)
	w.Must(t, "exec", name, "true")
	return name
}

// says runs a script inside.
func (w *wayOut) says(name, script string) string {
	r := w.Run("exec", name, "bash", "-c", script)
	return r.Stdout + r.Stderr
}

// everything checks that all targets are reached through the gateway: looked into and not, over HTTP/1
// and 2, with WebSocket, and with protocols other than HTTP.
func (w *wayOut) everything(t *testing.T, name string) {
	t.Helper()
	for what, x := range map[string]struct{ script, want string }{
		"unseen":      {"curl -sS --max-time 60 https://plain.example.net/v1/x", "GET /v1/x"},
		"HTTP/1":      {"curl -sS --max-time 60 --http1.1 https://seen.example.net/v1/x", "GET /v1/x"},
		"HTTP/2":      {"curl -sS --max-time 60 --http2 https://seen.example.net/v1/x", "HTTP/2.0 GET /v1/x"},
		"another way": {"curl -sS --max-time 60 https://seen.example.net/v1/x -X POST -d body", "body"},
		"WebSocket":   {w.me + " intruder speak websocket wss://plain.example.net/v1/socket", `"welcome, heard from inside"`},
		"no HTTP":     {"exec 3<>/dev/tcp/plain.example.net/5432; echo hello >&3; head -n1 <&3", "hello"},
	} {
		if out := w.says(name, x.script); !strings.Contains(out, x.want) {
			t.Errorf("%s: %s", what, out)
		}
	}
}

// inClear checks tinyproxy, in clear text.
func (w *wayOut) inClear(t *testing.T) {
	t.Helper()
	proxy := "http://" + net.JoinHostPort(proxyHost, tinyPort)
	name := w.starts(t, "HTTPS_PROXY="+proxy, "HTTP_PROXY="+proxy)
	w.s.Forget(t)
	w.everything(t, name)
	if out := w.says(name, "exec 3<>/dev/tcp/2606:2800:220:1::34/5432; echo hello >&3; head -n1 <&3"); !strings.Contains(out, "hello") {
		t.Errorf("a literal address of IPv6: %s", out)
	}
	if out := w.says(name, "curl -sS --max-time 60 http://web.example.net/"); !strings.Contains(out, "welcome") {
		t.Errorf("HTTP in clear: %s", out)
	}
	w.s.OnlyLeft(t, "dns plain.example.net", "dns seen.example.net", "dns web.example.net", "tcp "+net.JoinHostPort(proxyHost, tinyPort))
	log := w.log(t, "tinyproxy.log")
	for _, to := range []string{"93.184.216.34:443 ", "93.184.216.34:5432 ", "[2606:2800:220:1::34]:5432"} {
		if !strings.Contains(log, "CONNECT "+to) {
			t.Errorf("the proxy was not asked for the checked address %s:\n%s", to, log)
		}
	}
	if strings.Contains(log, "example.net") {
		t.Errorf("the proxy was asked for a name whose address is known here:\n%s", log)
	}
	if out := w.says(name, "env; cat /proc/1/environ"); strings.Contains(strings.ToLower(out), "_proxy") {
		t.Errorf("the inside has the host's proxy:\n%s", out)
	}

	// A name that leads to a closed address is not passed to the proxy either.
	w.s.Leads("plain.example.net", "10.1.2.3")
	out := w.says(name, "exec 3<>/dev/tcp/plain.example.net/5432; echo hello >&3; head -n1 <&3")
	if strings.Contains(out, "\nhello") || strings.Contains(w.log(t, "tinyproxy.log"), "10.1.2.3") || strings.Contains(w.log(t, "tinyproxy.log"), "plain.example.net") {
		t.Errorf("a private address: %s", out)
	}
	w.s.Leads("plain.example.net", stage.Host4.String())

	// Addresses that need no proxy are reached without one.
	w.s.Saw()
	local := "curl -sS --max-time 60 http://192.168.7.7:8080/"
	if out := w.says(name, local); !strings.Contains(out, "welcome") || len(w.s.Saw()) != 0 {
		t.Errorf("by the proxy: %s", out)
	}
	for _, except := range []string{"192.168.0.0/16", "x.example,192.168.7.7:8080"} {
		name = w.starts(t, "https_proxy="+proxy, "no_proxy="+except)
		if out := w.says(name, local); !strings.Contains(out, "welcome") || len(w.s.Saw()) != 1 {
			t.Errorf("with no_proxy=%s it is not reached directly: %s", except, out)
		}
	}
}

// withoutNames checks a host whose resolver answers nothing: then the proxy is asked by name, unless a
// rule denies addresses.
func (w *wayOut) withoutNames(t *testing.T) {
	t.Helper()
	proxy := "http://" + net.JoinHostPort(proxyHost, tinyPort)
	w.s.Falls(stage.Failing)
	defer w.s.Falls(stage.Healthy)
	name := w.starts(t, "https_proxy="+proxy)
	w.everything(t, name)
	if log := w.log(t, "tinyproxy.log"); !strings.Contains(log, "CONNECT plain.example.net:443") || !strings.Contains(log, "CONNECT seen.example.net:443") {
		t.Errorf("the proxy was not asked by name:\n%s", log)
	}
	w.Must(t, "policy", "deny", "192.0.2.0/24", "--sandbox", name)
	if out := w.says(name, "exec 3<>/dev/tcp/plain.example.net/5432; echo hello >&3; head -n1 <&3"); strings.Contains(out, "\nhello") {
		t.Errorf("although a rule denies addresses: %s", out)
	}
	if log := w.Must(t, "policy", "log", name); !strings.Contains(log, `rule "192.0.2.0/24"`) {
		t.Errorf("the log does not say why:\n%s", log)
	}
}

// overTLS checks squid, over TLS, with a password.
func (w *wayOut) overTLS(t *testing.T) {
	t.Helper()
	w.s.Leads("proxy.example.net", proxyHost)
	address := "@proxy.example.net:" + squidPort
	name := w.starts(t, "https_proxy=https://"+squidUser+":"+squidEscaped+address)
	w.everything(t, name)
	if log := w.log(t, "squid.log"); !strings.Contains(log, " "+squidUser+" ") {
		t.Errorf("squid saw no user:\n%s", log)
	}
	if out := w.says(name, "exec 3<>/dev/tcp/plain.example.net/9418; echo hello >&3; head -n1 <&3"); strings.Contains(out, "\nhello") {
		t.Errorf("what squid refuses: %s", out)
	}
	w.logs(t, name, `plain\.example\.net:9418 .*the proxy https://proxy\.example\.net:3129 refuses CONNECT to plain\.example\.net:9418: 403`)

	name = w.starts(t, "https_proxy=https://"+squidUser+":wrong-word"+address)
	if out := w.says(name, "curl -sS -i --max-time 60 https://seen.example.net/v1/x"); !strings.Contains(out, " 502") || !strings.Contains(out, "the host's proxy wants a user and a password (407)") {
		t.Errorf("with a wrong password: %s", out)
	}
	w.logs(t, name, `the proxy https://proxy\.example\.net:3129 does not accept the user and password in https_proxy \(407\)`)
	name = w.starts(t, "https_proxy=https:/"+"/proxy.example.net:"+squidPort)
	_ = w.says(name, "curl -sS --max-time 60 https://seen.example.net/v1/x")
	w.logs(t, name, `wants a user and a password \(407\)`)
	w.nowhere(t, "wrong-word", squidPassword, squidEscaped)
}

// usualCompany checks a proxy that connects only to port 443, and gets requests in clear text.
func (w *wayOut) usualCompany(t *testing.T) {
	t.Helper()
	proxy := w.usualProxy()
	name := w.starts(t, "HTTPS_PROXY="+proxy, "HTTP_PROXY="+proxy)
	w.s.Leads("down.example.net", stage.Host4.String())
	const apt = `mkdir -p /tmp/apt/l/partial /tmp/apt/c/archives/partial; echo 'deb [trusted=yes] http://web.example.net/debian ./' >/tmp/apt/list
apt-get update -o Dir::Etc::sourcelist=/tmp/apt/list -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists=/tmp/apt/l -o Dir::Cache=/tmp/apt/c -o Debug::NoLocking=1 -o APT::Sandbox::User=`
	for what, x := range map[string]struct{ script, want string }{
		"TLS":              {"curl -sS --max-time 60 https://plain.example.net/v1/x", "GET /v1/x"},
		"in clear":         {"curl -sS --max-time 60 http://web.example.net/a?b=c", "GET /a?b=c of web.example.net"},
		"two requests":     {"curl -sS --max-time 60 http://web.example.net/a http://web.example.net/b", "GET /b of web.example.net"},
		"a body":           {"curl -sS --max-time 60 http://web.example.net/a -d body", "POST /a of web.example.net body"},
		"its own password": {"curl -sS --max-time 60 http://web.example.net/a -H 'Proxy-Authorization: Basic bm86bm8=' -H 'Max-Forwards: 0'", "GET /a of web.example.net"},
		"an address":       {"curl -sS --max-time 60 http://93.184.216.34/a", "GET /a of 93.184.216.34"},
		"another host":     {"curl -sS --max-time 60 http://93.184.216.34/a -H 'Host: web.example.net'", "the request is for host"},
		"apt":              {apt, "Get:3 http://web.example.net/debian ./ Packages"},
		"TRACE":            {"curl -sS --max-time 60 http://web.example.net/a -X TRACE -H 'Max-Forwards: 0'", "not sent TRACE"},
		"no HTTP":          {"exec 3<>/dev/tcp/web.example.net/80; echo hello there >&3; cat <&3; echo over", "over"},
	} {
		out := w.says(name, x.script)
		if !strings.Contains(out, x.want) {
			t.Errorf("%s: %s", what, out)
		}
	}
	for _, script := range []string{"curl -sS -i --max-time 90 http://down.example.net:81/", "curl -sS -i --max-time 60 http://web.example.net/echo -X OPTIONS -H 'Max-Forwards: 0'"} {
		out := w.says(name, script)
		for _, word := range []string{squidPassword, squidEscaped, squidKey, strings.ReplaceAll(squidKey, "=", "%3D"), "Proxy-Auth"} {
			if strings.Contains(out, word) {
				t.Errorf("%s shows the proxy's password: %s", script, out)
			}
		}
	}
	w.logs(t, name, `web\.example\.net:80 .*the proxy http://192\.168\.7\.7:3131 refuses CONNECT to web\.example\.net:80: 403; use https \(port 443\) instead, or have the proxy allow CONNECT to port 80`)

	name = w.starts(t, "http_proxy=http://"+squidUser+":wrong-word@"+net.JoinHostPort(proxyHost, usualPort))
	if out := w.says(name, "curl -sS -i --max-time 60 http://web.example.net/a"); !strings.Contains(out, " 502") || !strings.Contains(out, "the host's proxy wants a user and a password (407)") {
		t.Errorf("with a wrong password: %s", out)
	}
	w.s.Leads("web.example.net", "10.1.2.3")
	name = w.starts(t, "http_proxy="+proxy)
	if out := w.says(name, "curl -sS -i --max-time 60 http://web.example.net/a"); strings.Contains(out, "GET /a of") {
		t.Errorf("a private address: %s", out)
	}
	w.s.Leads("web.example.net", stage.Host4.String())
	w.nowhere(t, "wrong-word", squidPassword, squidEscaped, squidKey)
}

// refused checks a host without a proxy, or without a usable one.
func (w *wayOut) refused(t *testing.T) {
	t.Helper()
	name := w.starts(t, "https_proxy=http://me:secret-word@"+net.JoinHostPort(proxyHost, deadPort))
	if out := w.says(name, "curl -sS -i --max-time 60 https://seen.example.net/v1/x"); !strings.Contains(out, "the host's proxy does not answer") || strings.Contains(out, proxyHost) {
		t.Errorf("with a dead proxy: %s", out)
	}
	w.logs(t, name, `the proxy http://192\.168\.7\.7:3130 does not connect to .*: connection refused`)
	w.Env = append([]string{"all_proxy=socks5://me:secret-word@127.0.0.1:1080"}, w.usual...)
	if r := w.Run("run", "--rm", "--name", "socks", "shell", w.Work, "--", "curl", "-sS", "--max-time", "60", "https://seen.example.net/"); !strings.Contains(r.Stderr, "all_proxy names a proxy that speaks SOCKS") {
		t.Errorf("with a proxy that speaks SOCKS: %v", r)
	}
	w.nowhere(t, "secret-word")
}

// errands checks the fetches of the host side: images, agents, and doctor's checks.
func (w *wayOut) errands(t *testing.T) {
	t.Helper()
	w.Env = append([]string{"https_proxy=https://" + squidUser + ":" + squidEscaped + "@proxy.example.net:" + squidPort}, w.usual...)
	good := w.Env
	w.Env = append([]string{"https_proxy=https://me:wrong-word@proxy.example.net:" + squidPort}, w.usual...)
	if r := w.Run("template", "pull", "images.example.net/team/app:1"); r.Code == 0 || !strings.Contains(r.Stderr, "does not accept the user and password in https_proxy (407)") {
		t.Errorf("with a wrong password: %v", r)
	}
	w.Env = good
	w.Must(t, "template", "pull", "images.example.net/team/app:1")
	w.Mkdir(t, filepath.Join(w.Home, ".config/bothy/agents"))
	w.Write(t, filepath.Join(w.Home, ".config/bothy/agents/mine.yaml"), "version: 1\nname: mine\ntitle: Mine\nprogram: mine\ninstall:\n  package: mine\n  platforms:\n    any: {package: mine-any, binary: bin/mine}\n")
	env := w.Env
	w.Env = append(w.Env, "npm_config_registry=https://npm.example.net/", "npm_config_globalconfig=/nowhere")
	w.Must(t, "agent", "install", "mine")
	w.Env = env
	r := w.Run("doctor")
	if !regexp.MustCompile(`(?m)^ok +way out +.*https://proxy\.example\.net:3129.*https_proxy`).MatchString(r.Stdout) || strings.Contains(r.Stdout+r.Stderr, squidEscaped) {
		t.Errorf("%v", r)
	}
	w.nowhere(t, squidPassword, squidEscaped)
}

// logs checks that a sandbox's network log has the wanted line.
func (w *wayOut) logs(t *testing.T, name, want string) {
	t.Helper()
	if log := w.Must(t, "policy", "log", name); !regexp.MustCompile(want).MatchString(log) {
		t.Errorf("the log does not say %s:\n%s", want, log)
	}
}

// nowhere checks that no file of the state has these words.
func (w *wayOut) nowhere(t *testing.T, words ...string) {
	t.Helper()
	for _, word := range words {
		out, _ := exec.Command("grep", "-rlF", "--", word, w.State).Output()
		if len(out) > 0 {
			t.Errorf("%s is in %s", word, out)
		}
	}
}

// log returns a proxy's log of this caller.
func (w *wayOut) log(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text[w.before[name]:])
}

// farSide is the internet, with a server, registries, and two proxies.
func farSide(t *testing.T, s *stage.Stage, dir string) {
	web := &service{seen: make(chan struct{})}
	roots := stage.Web(t, s.Take(t, "443"), virtual(t, web))
	clear := &http.Server{Handler: http.HandlerFunc(inClear)}
	go func() { _ = clear.Serve(s.Take(t, "80")) }()
	t.Cleanup(func() { _ = clear.Close() })
	authority, err := ca.New("proxies", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "roots.pem", roots+string(authority.Certificate()), 0o644)
	leaf, err := authority.Leaf("proxy.example.net")
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(leaf.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	for _, der := range leaf.Certificate {
		text += string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	s.Leads("proxy.example.net", "127.0.0.1")

	at := func(port string) string { return "127.0.0.1:" + port }
	conf := put(t, dir, "tinyproxy.conf", fmt.Sprintf("Port 4128\nListen 127.0.0.1\nTimeout 60\nMaxClients 100\nLogLevel Connect\nLogFile %q\nPidFile %q\n", filepath.Join(dir, "tinyproxy.log"), filepath.Join(dir, "tinyproxy.pid")), 0o644)
	daemon(t, at("4128"), "tinyproxy", "-d", "-c", conf)
	stage.Bridge(t, dir, "tinyproxy", at("4128"))

	own := filepath.Join(dir, "squid.d") // squid writes here, as the user it changes to
	if err := errors.Join(os.Mkdir(own, 0o700), os.Chmod(own, 0o777)); err != nil {
		t.Fatal(err)
	}
	put(t, own, "key.pem", text, 0o644)
	put(t, own, "ask", "#!/bin/bash\nwhile read -r line; do [[ $(printf %b \"${line//%/\\\\x}\") == '"+squidUser+" "+squidPassword+"' ]] && echo OK || echo ERR; done\n", 0o755)
	put(t, dir, "squid.log", "", 0o666)
	conf = put(t, own, "squid.conf", fmt.Sprintf(`https_port 127.0.0.1:4129 tls-cert=%[1]s/key.pem
http_port 127.0.0.1:4131 name=usual
acl usual myportname usual
acl tls port 443
auth_param basic program %[1]s/ask
auth_param basic children 1
acl known proxy_auth REQUIRED
acl git port 9418
http_access deny git
http_access deny CONNECT usual !tls
http_access allow known
http_access deny all
access_log stdio:%[2]s/squid.log
cache_log %[1]s/cache.log
cache deny all
pid_filename none
coredump_dir %[1]s
pinger_enable off
netdb_filename none
shutdown_lifetime 1 seconds
dns_nameservers %[3]s
visible_hostname far
`, own, dir, stage.Resolver), 0o644)
	// The names of squid's shared memory contain this name, for all users of the machine.
	service := fmt.Sprintf("bothy%d", os.Getpid())
	t.Cleanup(func() {
		left, _ := filepath.Glob("/dev/shm/" + service + "-*")
		for _, name := range left {
			_ = os.Remove(name)
		}
	})
	daemon(t, at("4129"), squidProgram, "-N", "-n", service, "-f", conf)
	stage.Bridge(t, dir, "squid", at("4129"))
	stage.Bridge(t, dir, "usual", at("4131"))
	stage.Join(t, s.Take(t, "22"), dir, gitSocket)
}

// inClear is a server that echoes the request, and has packages for apt.
func inClear(w http.ResponseWriter, r *http.Request) {
	if path, ok := strings.CutPrefix(r.URL.Path, "/debian/"); ok {
		if strings.Trim(path, "./") != "Packages" {
			http.NotFound(w, r)
			return
		}
		_, _ = fmt.Fprintf(w, "Package: forwarded\nVersion: 1\nArchitecture: all\nMaintainer: me\nFilename: ./none.deb\nSize: 1\nMD5sum: %032d\n\n", 0)
		return
	}
	body, _ := io.ReadAll(r.Body)
	if r.Header.Get("Proxy-Authorization") != "" {
		body = []byte("and the password of the proxy")
	}
	_, _ = fmt.Fprintf(w, "welcome: %s %s of %s %s", r.Method, r.RequestURI, r.Host, body)
}

// virtual serves registries by name, and everything else with a service.
func virtual(t *testing.T, others http.Handler) http.Handler {
	images := imagetest.NewRegistry(t)
	images.Publish("team/app", "1", imagetest.New(t, imagetest.Config{}, imagetest.Layer(t, imagetest.File("hello", "there"))))
	npm := registrytest.New(t)
	for _, name := range []string{"mine-any", "mine"} {
		v := npm.Publish(name, "1.0.0", registrytest.Tarball(t, registrytest.Program("package/bin/mine", "#!/bin/sh\n")))
		v.Dist.Tarball = strings.Replace(v.Dist.Tarball, npm.URL, "https://npm.example.net", 1)
		if name == "mine" {
			v.Optional = map[string]string{"mine-any": "1.0.0"}
		}
	}
	pass := func(to string) http.Handler {
		u, err := url.Parse(to)
		if err != nil {
			t.Fatal(err)
		}
		p := httputil.NewSingleHostReverseProxy(u)
		p.Transport = npm.Client().Transport
		return p
	}
	toImages, toNPM := pass("http://"+images.Host), pass(npm.URL)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Host {
		case "images.example.net":
			toImages.ServeHTTP(w, r)
		case "npm.example.net":
			toNPM.ServeHTTP(w, r)
		case "auth.example.net", "api.anthropic.com":
			tokens(w, r)
		default:
			others.ServeHTTP(w, r)
		}
	})
}

func put(t *testing.T, dir, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	err := os.WriteFile(path, []byte(text), mode)
	if err == nil {
		err = os.Chmod(path, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// daemon makes a program serve an address until the test ends.
func daemon(t *testing.T, address, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
	})
	if !harness.Comes(harness.Moment, func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	}) {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
		t.Fatalf("%s does not serve %s: %s", program, address, said.String())
	}
}
