package test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/test/harness"
)

// served is a bothy serve under test.
type served struct {
	t   *testing.T
	l   *lodging
	cmd *exec.Cmd
	// addresses are those that it printed.
	addresses []string
}

// serve starts a bothy serve, and waits until it has printed its addresses.
func (l *lodging) serve(args ...string) *served {
	l.t.Helper()
	return l.serveBy(l.command(append([]string{"serve"}, args...)...), len(args)/2+1)
}

// serveBy starts a command that becomes a bothy serve with so many addresses.
func (l *lodging) serveBy(cmd *exec.Cmd, addresses int) *served {
	l.t.Helper()
	s := &served{t: l.t, l: l, cmd: cmd}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	var said []string
	for len(s.addresses) < addresses && lines.Scan() {
		said = append(said, lines.Text())
		if _, address, ok := strings.Cut(lines.Text(), "listens at "); ok {
			s.addresses = append(s.addresses, address)
		}
	}
	if len(s.addresses) < addresses {
		l.t.Fatalf("bothy serve said %q", said)
	}
	go func() { _, _ = io.Copy(io.Discard, stderr) }()
	l.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return s
}

// end ends the server by SIGTERM.
func (s *served) endServer() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(unix.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("bothy serve: %v", err)
	}
}

// ask sends a request over the unix socket in the state directory, and decodes the answer, if v is not nil.
func (s *served) ask(method, path string, body any, v any) int {
	s.t.Helper()
	resp := s.open(s.t.Context(), method, path, body)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if v != nil {
		if err := json.Unmarshal(text, v); err != nil {
			s.t.Fatalf("%s %s: %d %s: %v", method, path, resp.StatusCode, text, err)
		}
	}
	if resp.StatusCode >= 500 {
		s.t.Errorf("%s %s: %d %s", method, path, resp.StatusCode, text)
	}
	return resp.StatusCode
}

// open sends a request, and returns the answer with its body open.
func (s *served) open(ctx context.Context, method, path string, body any) *http.Response {
	s.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	if body == nil {
		text = nil
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, bytes.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	socket := strings.TrimPrefix(s.addresses[0], "unix:")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	resp, err := client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp
}

// object is a document.
type object = map[string]any

// TestServe drives a sandbox over the API, and compares documents with those of the command line.
func TestServe(t *testing.T) {
	needWall(t)
	t.Parallel()
	asBoth(t, func(t *testing.T) {
		l := newLodging(t)
		s := l.serve()
		wish := object{"agent": "shell", "workspaces": []string{l.proj}}
		var made object
		if got := s.ask("PUT", "/v1/sandboxes/worker", wish, &made); got != 201 || made["name"] != "worker" {
			t.Fatalf("%d %v", got, made)
		}
		if got := s.ask("PUT", "/v1/sandboxes/worker", wish, nil); got != 200 {
			t.Errorf("again: %d", got)
		}
		var ended object
		command := object{"args": []string{"sh", "-c", `cat; pwd; printf '\377' >&2; exit 3`}, "stdin_b64": []byte("input\n")}
		if got := s.ask("POST", "/v1/sandboxes/worker/exec", command, &ended); got != 200 || ended["exit"] != 3.0 ||
			ended["stdout"] != "input\n"+l.proj+"\n" || ended["stderr_b64"] != "/w==" {
			t.Errorf("%d %v", got, ended)
		}
		for _, tt := range []struct {
			command object
			status  int
			code    string
		}{
			{object{"args": []string{"no-such-command"}}, 422, "no_such_command"},
			{object{"args": []string{"sleep", "60"}, "timeout": "200ms"}, 504, "timeout"},
		} {
			resp := s.open(t.Context(), "POST", "/v1/sandboxes/worker/exec", tt.command)
			var failed struct{ Error struct{ Code string } }
			err := json.NewDecoder(resp.Body).Decode(&failed)
			resp.Body.Close()
			if err != nil || resp.StatusCode != tt.status || failed.Error.Code != tt.code {
				t.Errorf("%v: %d %+v %v", tt.command, resp.StatusCode, failed, err)
			}
		}
		var status object
		if got := s.ask("POST", "/v1/sandboxes/worker:start", nil, &status); got != 200 || status["state"] != "running" {
			t.Errorf("%d %v", got, status)
		}
		for path, args := range map[string][]string{
			"/v1/version":          {"version", "--json"},
			"/v1/sandboxes":        {"ls", "--json"},
			"/v1/doctor":           {"doctor", "--json"},
			"/v1/sandboxes/worker": {"inspect", "worker"},
		} {
			resp := s.open(t.Context(), "GET", path, nil)
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if said := l.bothy(args...); err != nil || settled(said) != settled(string(text)) {
				t.Errorf("%s: %s\nand bothy %v: %s", path, text, args, said)
			}
		}
		if got := s.ask("POST", "/v1/sandboxes/worker:stop?grace=0s", nil, &status); got != 200 || status["state"] != "stopped" {
			t.Errorf("%d %v", got, status)
		}
		if got := s.ask("DELETE", "/v1/sandboxes/worker", nil, nil); got != 204 {
			t.Errorf("%d", got)
		}
		s.endServer()
		if _, err := os.Lstat(filepath.Join(l.home.dir, "api.sock")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the socket is left: %v", err)
		}
	})
}

// moving matches the parts of documents that change while a sandbox runs.
var moving = regexp.MustCompile(`"(cpu_seconds|memory_bytes|memory|cpu|disk|free|pids|detail|last_used_at|used_at|.*bytes|.*seconds|checked_at)": [^\n]*`)

// settled returns a document without them.
func settled(text string) string { return moving.ReplaceAllString(text, "") }

// TestServeStream checks that output arrives as it comes, that the command ends with its client, and that the
// sandbox outlives a killed server.
func TestServeStream(t *testing.T) {
	needWall(t)
	t.Parallel()
	asBoth(t, func(t *testing.T) {
		l := newLodging(t)
		s := l.serve()
		s.ask("PUT", "/v1/sandboxes/worker", object{"agent": "shell", "workspaces": []string{l.proj}}, nil)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		script := `trap 'echo ended > gone; exit' TERM; echo one; while [ ! -e go ]; do sleep 0.1; done; echo two; sleep 600 & wait`
		resp := s.open(ctx, "POST", "/v1/sandboxes/worker/exec", object{"args": []string{"sh", "-c", script}, "output": "stream"})
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/x-ndjson" {
			t.Fatalf("%d %v", resp.StatusCode, resp.Header)
		}
		lines := bufio.NewScanner(resp.Body)
		next := func() string {
			lines.Scan()
			return lines.Text()
		}
		if got := next(); got != `{"stdout_b64":"b25lCg=="}` {
			t.Fatalf("%q %v", got, lines.Err())
		}
		if err := os.WriteFile(filepath.Join(l.proj, "go"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if got := next(); got != `{"stdout_b64":"dHdvCg=="}` {
			t.Fatalf("%q %v", got, lines.Err())
		}
		leave()
		for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
			if _, err := os.Stat(filepath.Join(l.proj, "gone")); err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the command did not end with its client")
			}
		}
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		if got := l.bothy("ls", "--json"); !strings.Contains(got, `"running"`) {
			t.Errorf("the sandbox ended with the server: %s", got)
		}
		again := l.serve()
		if got := again.ask("GET", "/v1/sandboxes/worker", nil, nil); got != 200 {
			t.Errorf("%d", got)
		}
		again.endServer()
	})
}

// TestServeKilled checks that a server that is killed while it creates a sandbox leaves nothing that stops the
// next client from creating it.
func TestServeKilled(t *testing.T) {
	needWall(t)
	t.Parallel()
	asBoth(t, func(t *testing.T) {
		l := newLodging(t)
		for try := range 6 {
			s := l.serve()
			name := fmt.Sprintf("worker%d", try)
			wish := object{"agent": "shell", "workspaces": []string{l.proj}}
			go func() {
				time.Sleep(time.Duration(try*try) * time.Millisecond)
				_ = s.cmd.Process.Kill()
			}()
			text, _ := json.Marshal(wish)
			if c, err := net.Dial("unix", strings.TrimPrefix(s.addresses[0], "unix:")); err == nil {
				fmt.Fprintf(c, "PUT /v1/sandboxes/%s HTTP/1.1\r\nHost: bothy\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", name, len(text), text)
				_, _ = io.Copy(io.Discard, c) // until the server is dead
				c.Close()
			}
			_ = s.cmd.Wait()
			again := l.serve()
			if got := again.ask("PUT", "/v1/sandboxes/"+name, wish, nil); got != 200 && got != 201 {
				t.Errorf("%d", got)
			}
			var ended object
			if got := again.ask("POST", "/v1/sandboxes/"+name+"/exec", object{"args": []string{"true"}}, &ended); got != 200 || ended["exit"] != 0.0 {
				t.Errorf("%d %v", got, ended)
			}
			again.ask("DELETE", "/v1/sandboxes/"+name+"?force", nil, nil)
			again.endServer()
		}
	})
}

// TestServeReach checks that nothing inside reaches the API.
func TestServeReach(t *testing.T) {
	needWall(t)
	t.Parallel()
	asBoth(t, func(t *testing.T) {
		l := newLodging(t)
		s := l.serve("--listen", "127.0.0.1:0")
		_, port, err := net.SplitHostPort(strings.TrimPrefix(s.addresses[1], "http://"))
		if err != nil {
			t.Fatal(err)
		}
		for name, wish := range map[string]object{
			"the port":            {"agent": "shell", "host_ports": []string{port}},
			"the model's server":  {"agent": "shell", "model_server": "http://127.0.0.1:" + port},
			"the state directory": {"agent": "shell", "workspaces": []string{l.home.dir}},
			"its parent":          {"agent": "shell", "volumes": []string{filepath.Dir(l.home.dir) + ":/mnt"}},
			"the socket":          {"agent": "shell", "volumes": []string{filepath.Join(l.home.dir, "api.sock") + ":/mnt/sock"}},
		} {
			if got := s.ask("POST", "/v1/sandboxes", wish, nil); got != 403 && got != 400 {
				t.Errorf("%s: %d", name, got)
			}
		}
		l.bothy("create", "--name", "worker", "shell", ".")
		if out, err := l.command("ports", "worker", "--allow-host-port", port).CombinedOutput(); err == nil {
			t.Errorf("%s", out)
		}
		for _, host := range []string{"127.0.0.1", "host.bothy", "localhost"} {
			talk := fmt.Sprintf("exec 3<>/dev/tcp/%s/%s && printf 'GET /v1/version HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3", host, port)
			if out, err := l.command("exec", "worker", "timeout", "10", "bash", "-c", talk).CombinedOutput(); err == nil || bytes.Contains(out, []byte("HTTP/1")) {
				t.Errorf("%s: %s", host, out)
			}
		}
		s.endServer()
		l.bothy("ports", "worker", "--allow-host-port", port) // now it is only a port
		if out, err := l.command("serve", "--listen", "127.0.0.1:"+port).CombinedOutput(); err == nil || !bytes.Contains(out, []byte("--deny-host-port")) {
			t.Errorf("%v %s", err, out)
		}
	})
}

// TestServeActivated checks that the sockets of a service manager are used, and none else.
func TestServeActivated(t *testing.T) {
	t.Parallel()
	asBoth(t, func(t *testing.T) {
		l := newLodging(t)
		path := filepath.Join(t.TempDir(), "s")
		socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		file, err := socket.File()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" serve`, filepath.Join(lab.bin, "bothy"))
		cmd.Dir, cmd.Env, cmd.ExtraFiles = l.proj, l.env, []*os.File{file}
		s := l.serveBy(cmd, 1)
		file.Close()
		socket.SetUnlinkOnClose(false)
		socket.Close()
		if got := s.ask("GET", "/v1/version", nil, nil); got != 200 || s.addresses[0] != "unix:"+path {
			t.Errorf("%d %s", got, s.addresses)
		}
		if _, err := os.Lstat(filepath.Join(l.home.dir, "api.sock")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it opened its own socket: %v", err)
		}
		s.endServer()
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("it removed the socket of the service manager: %v", err)
		}
	})
}

// TestServeGuide runs the examples of the guide.
func TestServeGuide(t *testing.T) {
	needWall(t)
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		harness.Missing(t, "curl")
	}
	page, err := os.ReadFile("../docs/guide/serve.md")
	if err != nil {
		t.Fatal(err)
	}
	asBoth(t, func(t *testing.T) {
		l := newLodging(t)
		script := "set -eu\ntrap 'kill $(jobs -p); wait' EXIT\n"
		for i, block := range strings.Split(string(page), "\n```sh\n") {
			if i == 0 {
				continue
			}
			text, _, _ := strings.Cut(block, "\n```")
			script += text + "\n"
			if strings.Contains(text, "bothy serve &") {
				script += "until [ -S $BOTHY_HOME/api.sock ]; do sleep 0.1; done\n"
			}
		}
		script = strings.ReplaceAll(script, "127.0.0.1:7777", "127.0.0.1:"+freePort(t))
		cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
		cmd.Dir, cmd.Env = l.proj, l.env
		out, err := cmd.CombinedOutput()
		for _, want := range []string{`"gvisor"`, `"name": "worker"`, `"exit": 3`, `{"stdout_b64":"b25lCg=="}`, `{"exit":0}`, `"state": "stopped"`, `"sandboxes": []`, "read"} {
			if !bytes.Contains(out, []byte(want)) {
				t.Errorf("%s is missing", want)
			}
		}
		if err != nil || bytes.Contains(out, []byte(`"error"`)) {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// freePort returns a port of the loopback that is free now.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// TestServeEvents checks that the stream of events and the command line say the same.
func TestServeEvents(t *testing.T) {
	needWall(t)
	t.Parallel()
	asBoth(t, func(t *testing.T) {
		l := newLodging(t)
		s := l.serve()
		s.ask("PUT", "/v1/sandboxes/worker", object{"agent": "shell", "workspaces": []string{l.proj}}, nil)
		resp := s.open(t.Context(), "GET", "/v1/events?since=start", nil)
		defer resp.Body.Close()
		s.ask("POST", "/v1/sandboxes/worker:start", nil, nil)
		s.ask("POST", "/v1/sandboxes/worker:stop", nil, nil)
		said := strings.Split(strings.TrimSpace(l.bothy("events", "--json")), "\n")
		lines := bufio.NewScanner(resp.Body)
		var got []string
		for len(got) < len(said) && lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				got = append(got, data)
			}
		}
		if len(said) < 2 || strings.Join(got, "\n") != strings.Join(said, "\n") {
			t.Errorf("%s\nand the command line:\n%s", strings.Join(got, "\n"), strings.Join(said, "\n"))
		}
		var first struct{ Position string }
		if err := json.Unmarshal([]byte(said[0]), &first); err != nil {
			t.Fatal(err)
		}
		if rest := l.bothy("events", "--json", "--since", first.Position); rest != strings.Join(said[1:], "\n")+"\n" {
			t.Errorf("after the first: %s", rest)
		}
		if text := l.bothy("events", "--type", "stopped"); strings.Count(text, "\n") != 1 || !strings.Contains(text, "sandbox=worker") {
			t.Errorf("%s", text)
		}
		s.endServer()
	})
}
