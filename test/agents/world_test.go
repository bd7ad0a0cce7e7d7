package agents

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/modelscript"
	"github.com/bothy-dev/bothy/internal/modelserver"
	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// patience is the longest wait on a slow machine.
const patience = 5 * time.Minute

// world is a caller with an agent, a key, and an internet in which the agent's provider is a script.
type world struct {
	*harness.Caller
	cli   cli
	stage *stage.Stage
	key   string // the real one
	model *modelserver.Server
	tired *modelserver.Server     // gets the first questions instead, see asked; may be nil
	hosts map[string]http.Handler // further fake servers, by their names
	mates []*world                // other agents of the same caller, with their own providers and keys

	mu        sync.Mutex
	elsewhere []told // requests to hosts other than the provider
}

// told is a request that arrived somewhere.
type told struct{ head, body string }

// box is the name of the agent's sandbox.
const box = "box"

// inWorld runs a test for every caller, in a world of its own.
func inWorld(t *testing.T, a cli, script string, f func(t *testing.T, w *world)) {
	t.Helper()
	inWorldOf(t, []cast{{a, script}}, f)
}

// cast is an agent, and its provider's script.
type cast struct {
	cli
	script string
}

// inWorldOf is inWorld for a caller with several agents: the first is the world's, the
// others are its mates. Each has a provider and a key of its own.
func inWorldOf(t *testing.T, all []cast, f func(t *testing.T, w *world)) {
	t.Helper()
	there := map[string]agent.Installation{} // two may need the same to run on
	for _, a := range all {
		for _, one := range obtain(t, a.cli) {
			there[one.Name] = one
		}
	}
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		for _, one := range there {
			lay(t, c, one)
		}
		w := &world{stage: s}
		roots := stage.Web(t, s.Take(t, "443"), w)
		c.Env = append(c.Env, "SSL_CERT_FILE="+c.Write(t, filepath.Join(c.Base, "roots.pem"), roots))
		for i, a := range all {
			of := w
			if i > 0 {
				of = &world{stage: s}
				w.mates = append(w.mates, of)
			}
			of.Caller, of.cli, of.key = c, a.cli, newKey(a.prefix)
			of.model = of.provider(t, a.script)
			t.Cleanup(of.model.Close) // first, so that no request hangs
			c.Env = append(c.Env, a.variable+"="+of.key)
			s.Leads(a.host, stage.Host4.String())
			if name, text, ok := strings.Cut(a.project, " "); ok {
				c.Write(t, filepath.Join(c.Work, name), text)
			}
		}
		f(t, w)
	})
}

// sweepOthers leaves a test of several agents to make agents, except for one of the agents.
func sweepOthers(t *testing.T, c cli) {
	t.Helper()
	if c.name == "codex" || c.name == "opencode" || c.name == "gemini" {
		harness.Sweep(t, "agents")
	}
}

// once leaves a test to the ordinary user if both would run it: it is about the agent, takes long, and
// does not depend on the caller.
func (w *world) once(t *testing.T) {
	t.Helper()
	if w.Name == "root" && len(harness.Callers()) > 1 {
		t.Skip("the ordinary user does the same")
	}
}

func newKey(prefix string) string {
	var b [32]byte
	rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}

func (w *world) provider(t *testing.T, script string) *modelserver.Server {
	t.Helper()
	s, err := modelscript.Parse([]byte(strings.ReplaceAll(script, "WORK", w.Work)))
	if err != nil {
		t.Fatal(err)
	}
	m, err := modelserver.New(s)
	if err != nil {
		t.Fatal(err)
	}
	m.RequireKey = w.key
	return m
}

// ServeHTTP plays all fake servers: the hosts, the providers, and other hosts, whose requests it
// records. It also answers echoPath.
func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if h := w.hosts[r.Host]; h != nil {
		h.ServeHTTP(rw, r)
		return
	}
	if r.Host == w.cli.host && r.URL.Path != echoPath {
		w.asked().ServeHTTP(rw, r)
		return
	}
	for _, m := range w.mates {
		if r.Host == m.cli.host {
			m.asked().ServeHTTP(rw, r)
			return
		}
	}
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	got := told{fmt.Sprintf("%s %s %s\n%v", r.Method, r.Host, r.RequestURI, r.Header), string(body)}
	w.mu.Lock()
	w.elsewhere = append(w.elsewhere, got)
	w.mu.Unlock()
	_, _ = fmt.Fprintf(rw, "%s\n%s\n", got.head, got.body)
}

// tiredFor is how long a tired model refuses, from its first refusal on.
const tiredFor = 4 * time.Second

// asked returns the model that gets the current question.
func (w *world) asked() *modelserver.Server {
	if w.tired == nil {
		return w.model
	}
	for _, q := range w.tired.Requests() {
		if q.Outcome == modelserver.Failed && time.Since(q.Time) > tiredFor {
			return w.model
		}
	}
	return w.tired
}

// echoPath is a path of the provider that echoes the request.
const echoPath = "/v1/models/echo"

// saw returns the requests that arrived elsewhere since the last call.
func (w *world) saw() []told {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.elsewhere
	w.elsewhere = nil
	return list
}

// within runs bothy with the maximum time.
func (w *world) within(t *testing.T, args ...string) harness.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return harness.Finish(ctx, w.Command(ctx, args...), args)
}

// start returns the arguments that start the agent with a prompt.
func (w *world) start(prompt string, flags ...string) []string {
	args := slices.Concat([]string{"run", "--name", box}, w.cli.flags, flags, []string{w.cli.name, w.Work, "--"})
	return append(args, w.cli.command(prompt)...)
}

// asks gives the agent a prompt and waits for its end.
func (w *world) asks(t *testing.T, prompt string) harness.Result {
	t.Helper()
	return w.within(t, w.start(prompt)...)
}

// asksAgain is asks in an existing sandbox.
func (w *world) asksAgain(t *testing.T, prompt string) harness.Result {
	t.Helper()
	return w.within(t, append([]string{"run", box, "--"}, w.cli.command(prompt)...)...)
}

// holds gives the agent a prompt that the model does not answer, in the background, and returns when the
// model has been asked.
func (w *world) holds(t *testing.T, prompt string) {
	t.Helper()
	if r := w.within(t, w.start(prompt, "-d")...); r.Code != 0 {
		t.Fatal(r)
	}
	w.waits(t, "the agent to ask the model", func(q modelserver.Request) bool {
		return q.Outcome == modelserver.Failed && strings.Contains(q.Prompt, prompt)
	})
}

// waits returns when the model has received a matching request.
func (w *world) waits(t *testing.T, what string, fits func(modelserver.Request) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for n := 0; ; n++ {
		all, err := w.model.Wait(ctx, n)
		if slices.ContainsFunc(all, fits) {
			return
		}
		if err != nil {
			t.Fatalf("waited in vain for %s; it was asked\n%s\n%s", what, summary(all), w.Run("logs", box))
		}
		n = len(all)
	}
}

// heard checks the model's requests, and that every question carried the key, in its place and nowhere
// else. It returns the requests of a prompt that the script answered or failed.
func (w *world) heard(t *testing.T, prompt string) (mine []modelserver.Request) {
	t.Helper()
	all := w.model.Requests()
	for _, q := range all {
		if q.Outcome == modelserver.Refused && q.Status != http.StatusUpgradeRequired {
			t.Errorf("the model refused %s %s: %s", q.Method, q.Path, q.Error)
		}
		for name, values := range q.Header {
			for _, v := range values {
				if strings.Contains(v, w.cli.prefix) && !strings.Contains(v, w.key) {
					t.Errorf("%s %s: a placeholder came through in %s: %s", q.Method, q.Path, name, v)
				}
			}
		}
		harness.Absent(t, "the body of "+q.Method+" "+q.Path, q.Body, w.key)
		if q.Turn >= 0 && strings.Contains(q.Prompt, prompt) {
			if !strings.Contains(fmt.Sprint(q.Header), w.key) {
				t.Errorf("%s %s does not carry the key: %v", q.Method, q.Path, q.Header)
			}
			mine = append(mine, q)
		}
	}
	if len(mine) == 0 {
		t.Errorf("nobody asked for %q:\n%s", prompt, summary(all))
	}
	return mine
}

func summary(all []modelserver.Request) string {
	var b strings.Builder
	for _, q := range all {
		fmt.Fprintf(&b, "%d %s %s%s: %s %d, conversation %d, turn %d, attempt %d %s\n",
			q.N, q.Method, q.Host, q.Path, q.Outcome, q.Status, q.Conversation, q.Turn, q.Attempt, q.Error)
	}
	return b.String()
}

// read returns a file of the caller.
func (w *world) read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(w.Work, name))
	if err != nil {
		t.Error(err)
	}
	return string(b)
}
