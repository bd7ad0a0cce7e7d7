package agents

import (
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/modelserver"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// own is the name of the model on the user's own server.
const own = "own-model"

func TestServerClaude(t *testing.T) {
	harness.AsRoot(t)
	served(t, claude, "-p", "greeting", "--output-format", "stream-json", "--verbose")
}

func TestServerGemini(t *testing.T) {
	harness.AsRoot(t)
	served(t, gemini, "-p", "greeting", "-o", "stream-json")
}

func TestServerCopilot(t *testing.T) {
	harness.Sweep(t, "agents")
	served(t, copilot, copilot.command("greeting")...)
}

func TestServerOpencode(t *testing.T) {
	harness.AsRoot(t)
	served(t, opencode, "opencode", "run", "--auto", "--format", "json", "greeting")
}

func TestServerCodex(t *testing.T) {
	harness.AsRoot(t)
	served(t, codex, codex.command("greeting")...)
}

// served checks that an agent does its work with a model server on the host's loopback that requires a
// key, without any other network. Its usage is counted, and no other host gets a request.
func served(t *testing.T, a cli, command ...string) {
	t.Helper()
	inWorld(t, a, jobs, func(t *testing.T, w *world) {
		w.once(t)
		server, url := w.local(t, jobs)
		args := append([]string{"run", "--name", box}, w.servedBy(t, server, url)...)
		args = append(args, "--max-tokens", "100000000", a.name, w.Work, "--")
		r := w.within(t, append(args, command...)...)
		asked := server.Requests()
		if r.Code != 0 || !strings.Contains(r.Stdout, "It is shouted.") {
			t.Fatalf("%v\n%s\n%s", r, summary(asked), w.Run("policy", "log", box))
		}
		if got := w.read(t, "loud.txt"); got != "HELLO FROM INSIDE\n" {
			t.Errorf("the command wrote %q", got)
		}
		if strings.Contains(r.Stderr, "credential") {
			t.Errorf("it speaks of a credential: %s", r.Stderr)
		}
		w.onlyServer(t, server)
		var cost struct {
			Sandboxes []struct {
				Total spec.BillItem `json:"total"`
			} `json:"sandboxes"`
		}
		if err := json.Unmarshal([]byte(w.Must(t, "cost", "--json", box)), &cost); err != nil {
			t.Fatal(err)
		}
		if sum := cost.Sandboxes[0].Total; sum.Answers < 3 || sum.Input == 0 || sum.Output == 0 || sum.Guessed > 0 {
			t.Errorf("counted was %+v", sum)
		}
		w.Must(t, "cost", "--max-tokens", "1", box)
		before := len(server.Requests())
		if r := w.within(t, append([]string{"run", box, "--"}, command...)...); strings.Contains(r.Stdout, "It is shouted.") {
			t.Errorf("with a budget that is used up: %v", r)
		}
		for _, q := range server.Requests()[before:] {
			if q.Outcome == modelserver.Answered {
				t.Errorf("with a budget that is used up it was asked %s %s", q.Method, q.Path)
			}
		}
	})
}

// local starts the user's own provider, which speaks plain HTTP on the host's loopback and requires a
// key.
func (w *world) local(t *testing.T, script string) (server *modelserver.Server, url string) {
	t.Helper()
	server = w.provider(t, script)
	server.RequireKey = newKey("sk-own-")
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: server}
	t.Cleanup(func() { server.Close(); _ = s.Close() })
	go func() { _ = s.Serve(l) }()
	return server, "http://localhost:" + strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// servedBy returns the flags for the user's own server, with its key.
func (w *world) servedBy(t *testing.T, server *modelserver.Server, url string) []string {
	t.Helper()
	w.Env = append(w.Env, "OWN_KEY="+server.RequireKey)
	w.Must(t, "secret", "set", "own", "--env", "OWN_KEY")
	return []string{"--model-server", url, "--model-key", "own", "--server-model", own}
}

// onlyServer checks that only that server got requests, and for its own model.
func (w *world) onlyServer(t *testing.T, server *modelserver.Server) {
	t.Helper()
	for _, q := range w.model.Requests() {
		t.Errorf("its maker was asked %s %s", q.Method, q.Path)
	}
	if told := w.saw(); len(told) > 0 {
		t.Errorf("others were asked: %v", told)
	}
	answered := 0
	for _, q := range server.Requests() {
		if q.Outcome != modelserver.Answered {
			continue
		}
		if answered++; q.Model != own {
			t.Errorf("it was asked for %q", q.Model)
		}
	}
	if answered == 0 {
		t.Error("nobody was answered")
	}
	harness.AbsentInProcesses(t, server.RequireKey)
}

// TestServerLoop checks a loop with the user's own model server: the gate decides, and tokens are
// counted as the server reports them.
func TestServerLoop(t *testing.T) {
	harness.AsRoot(t)
	inWorld(t, claude, rounds, func(t *testing.T, w *world) {
		w.once(t)
		server, url := w.local(t, rounds)
		r := w.loop(t, append(w.servedBy(t, server, url), "--max-iterations", "5", "--max-tokens", "100000000", "--until", complete)...)
		if r.Code != 0 {
			t.Fatalf("%v\n%s", r, summary(server.Requests()))
		}
		if got := w.read(t, "three"); got != "1\n2\n" {
			t.Errorf("the work is %q", got)
		}
		if s := w.stands(t); s.Status != run.Completed || s.Iteration != 3 || s.Tokens != spent {
			t.Errorf("it is %s after %d iterations and %d tokens, of which %d were claimed", s.Status, s.Iteration, s.Tokens, spent)
		}
		w.onlyServer(t, server)
	})
}

// TestServerFlow runs a flow with a model server on the internet, over TLS, whose authority only the
// host knows.
func TestServerFlow(t *testing.T) {
	harness.AsRoot(t)
	kit, played := shipped(t, "writing-kit")
	inWorld(t, codex, played, func(t *testing.T, w *world) {
		w.once(t)
		const host = "llm.corp.example"
		server := w.provider(t, played)
		server.RequireKey = newKey("sk-own-")
		t.Cleanup(server.Close)
		w.hosts = map[string]http.Handler{host: server}
		w.stage.Leads(host, stage.Host4.String())
		w.kit(t, "writing-kit.yaml", kit, w.servedBy(t, server, "https://"+host)...)
		w.onlyServer(t, server)
	})
}
