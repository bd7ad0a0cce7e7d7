package agents

import (
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/modelserver"
	"github.com/bothy-dev/bothy/spec"
)

// own is what the model of a server of the user's own is called.
const own = "own-model"

func TestServerClaude(t *testing.T) {
	served(t, claude, "-p", "greeting", "--output-format", "stream-json", "--verbose")
}
func TestServerGemini(t *testing.T)  { served(t, gemini, "-p", "greeting", "-o", "stream-json") }
func TestServerCopilot(t *testing.T) { served(t, copilot, copilot.command("greeting")...) }
func TestServerOpencode(t *testing.T) {
	served(t, opencode, "opencode", "run", "--auto", "--format", "json", "greeting")
}
func TestServerCodex(t *testing.T) { served(t, codex, codex.command("greeting")...) }

// served: an agent does its work with a model server at the host's loopback, that wants a key, and
// has no other network. What it takes is counted, and nobody else is asked.
func served(t *testing.T, a cli, command ...string) {
	t.Helper()
	inWorld(t, a, jobs, func(t *testing.T, w *world) {
		w.once(t)
		server := w.provider(t, jobs)
		server.RequireKey = newKey("sk-own-")
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: server}
		defer func() { server.Close(); _ = s.Close() }()
		go func() { _ = s.Serve(l) }()
		port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
		w.Env = append(w.Env, "OWN_KEY="+server.RequireKey)
		w.Must(t, "secret", "set", "own", "--env", "OWN_KEY")
		args := []string{"run", "--name", box, "--model-server", "http://localhost:" + port, "--model-key", "own", "--server-model", own, "--max-tokens", "100000000", a.name, w.Work, "--"}
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
		if !slices.ContainsFunc(asked, func(q modelserver.Request) bool { return q.Outcome == modelserver.Answered }) {
			t.Errorf("nobody was answered:\n%s", summary(asked))
		}
		for _, q := range w.model.Requests() {
			t.Errorf("its maker was asked %s %s", q.Method, q.Path)
		}
		if told := w.saw(); len(told) > 0 {
			t.Errorf("others were asked: %v", told)
		}
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
