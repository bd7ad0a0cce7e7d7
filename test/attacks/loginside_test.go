package attacks

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// brief issues tokens for a code. Each refresh token works once, and each access token for moments.
type brief struct {
	mu     sync.Mutex
	n      int
	bearer []string // received by the model's server
}

func (b *brief) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.Host != "auth.example.net" {
		b.bearer = append(b.bearer, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		fmt.Fprintf(w, "you are %s\n", r.Header.Get("Authorization"))
		return
	}
	var q struct {
		Code  string `json:"code"`
		Token string `json:"refresh_token"`
	}
	_ = json.Unmarshal(body, &q)
	if q.Code == "" && q.Token != realRefresh(b.n) {
		http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
		return
	}
	b.n++
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"access_token":%q,"refresh_token":%q,"expires_in":2}`, realAccess(b.n), realRefresh(b.n))
}

// saw returns how many tokens there were, and the last one that the model's server received.
func (b *brief) saw() (n int, last string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.bearer) > 0 {
		last = b.bearer[len(b.bearer)-1]
	}
	return b.n, last
}

// TestLoginInsideSealed checks that each keeper of the sandbox renews the tokens of a login made inside,
// also after one was killed. The state directory never has the tokens in clear text: not where they are
// stored, nor in checkpoints, forks and templates (C2).
func TestLoginInsideSealed(t *testing.T) {
	harness.AsUser(t)
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		b := &brief{}
		c.Env = append(c.Env, "SSL_CERT_FILE="+c.Write(t, filepath.Join(c.Work, "roots.pem"), stage.Web(t, s.Take(t, "443"), b)))
		for _, host := range []string{"api.anthropic.com", "auth.example.net"} {
			s.Leads(host, stage.Host4.String())
		}
		agents := filepath.Join(c.Home, ".config/bothy/agents")
		c.Mkdir(t, agents)
		c.Write(t, filepath.Join(agents, "tool.yaml"), strings.Replace(loginAgent, "  lock: true\n", "  capture: {pass: [scope]}\n", 1))
		state := func(when string) {
			t.Helper()
			n, _ := b.saw()
			for i := range n {
				for _, value := range []string{realAccess(i + 1), realRefresh(i + 1)} {
					if files := harness.AbsentInFiles(t, c.State, value); files == 0 || t.Failed() {
						t.Fatalf("%s: in %d files", when, files)
					}
				}
			}
		}
		const ask = `curl -sS --max-time 60 https://api.anthropic.com/v1/messages -d {} -H "Authorization: Bearer $(sed 's/.*"access_token":"\([^"]*\)".*/\1/' ~/got)"`
		asks := func(box, when string, renewed bool) {
			t.Helper()
			before, _ := b.saw()
			r := c.Sh(box, "", ask)
			now, last := b.saw()
			if r.Code != 0 || !strings.Contains(r.Stdout, "you are Bearer sk-ant-oat01-") || strings.Contains(r.Stdout+r.Stderr, "canary") || last != realAccess(now) || renewed != (now > before) {
				t.Fatalf("%s: %v; %d tokens, and then %d, of which the server got %q", when, r, before, now, last)
			}
			state(when)
		}

		c.Must(t, "create", "--name", "box", "tool", c.Work)
		c.Must(t, "policy", "allow", "--sandbox", "box", "--method", "POST", "auth.example.net")
		if r := c.Sh("box", "", `curl -sS --max-time 60 https://auth.example.net/oauth/token -H 'Content-Type: application/json' -d '{"code":"x"}' > ~/got; cat ~/got`); r.Code != 0 || strings.Contains(r.Stdout, "canary") || !strings.Contains(r.Stdout, "sk-ant-ort01-") {
			t.Fatal(r)
		}
		state("after the login")
		time.Sleep(3 * time.Second) // its token ends
		asks("box", "renewed", true)

		if err := syscall.Kill(c.Inspect(t, "box").Status.KeeperPID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		asks("box", "after a keeper was killed", true)
		c.Must(t, "stop", "box")
		time.Sleep(3 * time.Second)
		asks("box", "after a stop", true)

		c.Must(t, "checkpoint", "create", "--full", "box", "here")
		c.Must(t, "save", "box", "with-login")
		c.Must(t, "fork", "--name", "copy", "--files", "box")
		state("with copies")
		if out := c.Must(t, "secret", "ls", "--json"); strings.Count(out, `"secret": "tool-login@box"`) != 1 {
			t.Errorf("it is lent otherwise: %s", out)
		}
		r := c.Sh("copy", "", ask)
		if _, last := b.saw(); r.Code != 0 || strings.Contains(last, "canary") {
			t.Errorf("a fork is logged in: %v; the server got %q", r, last)
		}
		list, err := filepath.Glob(filepath.Join(c.State, "sandboxes/*/login/*"))
		if err != nil || len(list) != 1 {
			t.Errorf("there are %q, %v", list, err)
		}
		c.Must(t, "secret", "revoke", "tool-login@box")
		c.Must(t, "rm", "-f", "box", "copy")
	})
}
