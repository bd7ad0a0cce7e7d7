package attacks

import (
	"encoding/json"
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

	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// provider is a model's server and the server that issues its tokens. Each refresh token works once.
type provider struct {
	mu     sync.Mutex
	n      int      // number of the valid tokens
	asked  []string // the tokens with which clients asked for new ones
	bearer []string // received by the model's server
}

// saw returns the credentials of the token requests, and those that the model's server received.
func (p *provider) saw() (asked, bearer []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked), slices.Clone(p.bearer)
}

func realAccess(n int) string {
	return fmt.Sprintf("sk-ant-oat01-canary%d%s", n, strings.Repeat("A", 40))
}

func realRefresh(n int) string {
	return fmt.Sprintf("sk-ant-ort01-canary%d%s", n, strings.Repeat("R", 40))
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Host != "auth.example.net" {
		p.bearer = append(p.bearer, r.Header.Get("Authorization"))
		fmt.Fprintf(w, "you are %s\n", r.Header.Get("Authorization"))
		return
	}
	var q struct {
		Token string `json:"refresh_token"`
	}
	_ = json.Unmarshal(body, &q)
	p.asked = append(p.asked, q.Token)
	if q.Token != realRefresh(p.n) {
		http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
		return
	}
	p.n++
	fmt.Fprintf(w, `{"access_token":%q,"refresh_token":%q,"expires_in":3600}`, realAccess(p.n), realRefresh(p.n))
}

const loginAgent = `version: 1
name: tool
title: Tool
program: sh
presets: [claude]
credentials: [claude]
login:
  file: .tool/login.json
  service: claude
  access: /a
  refresh: /r
  expires: /e
  endpoint: https://auth.example.net/oauth/token
  client: tool
  form: json
  lock: true
  again: tool login
`

// TestLoginShared has two sandboxes at once, each with a keeper of its own, use an expired login of the
// host. It is renewed once, on the host, and neither sandbox has it inside (C1, C2).
func TestLoginShared(t *testing.T) {
	harness.AsUser(t)
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		p := &provider{n: 1}
		c.Env = append(c.Env, "SSL_CERT_FILE="+c.Write(t, filepath.Join(c.Work, "roots.pem"), stage.Web(t, s.Take(t, "443"), p)))
		for _, host := range []string{"api.anthropic.com", "auth.example.net"} {
			s.Leads(host, stage.Host4.String())
		}
		agents := filepath.Join(c.Home, ".config/bothy/agents")
		c.Mkdir(t, agents)
		c.Write(t, filepath.Join(agents, "tool.yaml"), loginAgent)
		c.Mkdir(t, filepath.Join(c.Home, ".tool"))
		file := c.Write(t, filepath.Join(c.Home, ".tool/login.json"),
			fmt.Sprintf(`{"a":%q,"r":%q,"e":%d,"plan":"max"}`, realAccess(1), realRefresh(1), time.Now().Add(-time.Hour).UnixMilli()))
		old := time.Now().Add(-2 * time.Hour)
		if err := os.Chtimes(file, old, old); err != nil {
			t.Fatal(err)
		}

		const ask = `curl -sS --max-time 60 https://api.anthropic.com/v1/messages -d {} -H "Authorization: Bearer $(sed 's/.*"a":"\([^"]*\)".*/\1/' ~/.tool/login.json)"; cat ~/.tool/login.json; env`
		boxes := []string{"one", "two"}
		for _, box := range boxes {
			c.Must(t, "run", "--name", box, "tool", c.Work, "--", "true")
		}
		results := make([]harness.Result, len(boxes))
		var both sync.WaitGroup
		for i, box := range boxes {
			both.Go(func() { results[i] = c.Sh(box, "", ask) })
		}
		both.Wait()
		for i, r := range results {
			if r.Code != 0 || !strings.Contains(r.Stdout, "you are Bearer sk-ant-oat01-") || strings.Contains(r.Stdout+r.Stderr, "canary") {
				t.Errorf("%s: %v", boxes[i], r)
			}
		}
		asked, bearer := p.saw()
		if want := []string{realRefresh(1)}; !slices.Equal(asked, want) {
			t.Errorf("tokens were asked for with %q", asked)
		}
		if want := []string{"Bearer " + realAccess(2), "Bearer " + realAccess(2)}; !slices.Equal(bearer, want) {
			t.Errorf("the model's server got %q", bearer)
		}
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), realAccess(2)) || !strings.Contains(string(text), realRefresh(2)) || !strings.Contains(string(text), `"max"`) {
			t.Errorf("on the host is %s, %v", text, err)
		}
		harness.AbsentInFiles(t, c.State, realAccess(2))
		harness.AbsentInFiles(t, c.State, realRefresh(2))

		// A long-lived token is lent in its variable; then nothing is renewed.
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		lasting := realAccess(9)
		c.Env = append(c.Env, "CLAUDE_CODE_OAUTH_TOKEN="+lasting)
		r := c.Run("run", "--name", "three", "tool", c.Work, "--", "sh", "-c",
			`curl -sS --max-time 60 https://api.anthropic.com/v1/messages -d {} -H "Authorization: Bearer $CLAUDE_CODE_OAUTH_TOKEN"; env`)
		if r.Code != 0 || !strings.Contains(r.Stdout, "CLAUDE_CODE_OAUTH_TOKEN=sk-ant-oat01-") || strings.Contains(r.Stdout+r.Stderr, "canary") {
			t.Errorf("%v", r)
		}
		asked, bearer = p.saw()
		if !slices.Contains(bearer, "Bearer "+lasting) || len(asked) != 1 {
			t.Errorf("the model's server got %q, and tokens were asked for with %q", bearer, asked)
		}
		c.Must(t, "rm", "-f", "one", "two", "three")
	})
}
