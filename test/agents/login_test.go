package agents

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// TestLoginInside: an agent without a credential says so, and is logged in inside by its
// own means: with a key, and in the browser of the host. What it gets stays in the
// sandbox's home, is used by later runs, and is nobody else's.
func TestLoginInside(t *testing.T) {
	inWorld(t, codex, jobs, func(t *testing.T, w *world) {
		w.once(t)
		w.keyless()
		account := &chatGPT{code: newKey("code-"), access: token(t, time.Now().Add(time.Hour)), used: make(chan bool, 1)}
		w.hosts = map[string]http.Handler{"auth.openai.com": account, "chatgpt.com": account}
		for name := range w.hosts {
			w.stage.Leads(name, stage.Host4.String())
		}

		w.status(t, box, 1, "Not logged in")
		if r := w.RunInput(w.key+"\n", "exec", "-i", box, "codex", "login", "--with-api-key"); r.Code != 0 {
			t.Fatal(r)
		}
		w.Must(t, "stop", box)
		if r := w.asksAgain(t, "greeting"); r.Code != 0 || !strings.Contains(r.Stdout, "It is shouted.") {
			t.Errorf("%v", r)
		}
		w.heard(t, "greeting")

		w.status(t, "other", 1, "Not logged in", "-p", "1455:1455")
		w.browses(t, "other", account.code)
		w.Must(t, "stop", "other")
		w.status(t, "other", 0, "Logged in using ChatGPT")
		if r := w.within(t, append([]string{"run", "-d", "other", "--"}, codex.command("greeting")...)...); r.Code != 0 {
			t.Fatal(r)
		}
		select {
		case <-account.used:
		case <-time.After(patience):
			t.Error("what it got is not used")
		}
		w.Must(t, "rm", "-f", "other")
		w.status(t, "third", 1, "Not logged in")
		if out := w.Must(t, "secret", "ls", "--json"); !strings.Contains(out, `"secrets": []`) || !strings.Contains(out, `"leases": []`) {
			t.Errorf("there are secrets now: %s", out)
		}
	})
}

// TestLoggedOut: agents without a credential begin with a login of their own.
func TestLoggedOut(t *testing.T) {
	inWorldOf(t, []cast{{claude, jobs}, {gemini, jobs}}, func(t *testing.T, w *world) {
		w.once(t)
		w.keyless()
		hello := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api/hello" && r.URL.Path != "/v1/oauth/hello" {
				http.NotFound(rw, r)
			}
		})
		w.hosts = map[string]http.Handler{"api.anthropic.com": hello, "platform.claude.com": hello}
		w.stage.Leads("platform.claude.com", stage.Host4.String())

		if r := w.within(t, "run", "--name", box, "claude", w.Work, "--", "claude", "auth", "status"); r.Code != 1 || !strings.Contains(r.Stdout, `"loggedIn": false`) {
			t.Errorf("%v", r)
		}
		w.shows(t, "Select login method", "Dark", "claude --dangerously-skip-permissions")
		if r := w.within(t, "run", "--name", "gem", "gemini", w.Work, "--", "gemini", "--skip-trust", "-p", "hi"); r.Code != 41 || !strings.Contains(r.Stderr, "set an Auth method") {
			t.Errorf("%v", r)
		}
	})
}

// escapes are what moves the cursor and colours what is at it.
var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[a-zA-Z]|[\r\n ]+`)

// shows starts a command at a terminal inside, answers the first question as it is
// proposed, and waits for a text on the screen.
func (w *world) shows(t *testing.T, text, first, command string) {
	t.Helper()
	file := filepath.Join(w.Work, "screen")
	line := fmt.Sprintf(`(until grep -q %q screen; do sleep 0.1; done; printf '\r'; sleep 60) | script -qfc "stty rows 40 cols 120; exec timeout -s KILL 60 %s" screen`, first, command)
	if r := w.within(t, "exec", "-d", box, "sh", "-c", line); r.Code != 0 {
		t.Fatal(r)
	}
	screen := ""
	defer func() {
		if t.Failed() {
			t.Log(screen)
		}
	}()
	harness.WaitFor(t, time.Minute, text, func() bool {
		b, _ := os.ReadFile(file)
		screen = escapes.ReplaceAllString(string(b), " ")
		return strings.Contains(screen, text)
	})
}

// keyless takes the keys out of the caller's environment.
func (w *world) keyless() {
	of := append([]*world{w}, w.mates...)
	w.Env = slices.DeleteFunc(w.Env, func(v string) bool {
		return slices.ContainsFunc(of, func(m *world) bool { return strings.HasPrefix(v, m.cli.variable+"=") })
	})
}

// status asks codex in a sandbox whether it is logged in, without a credential of the
// host's.
func (w *world) status(t *testing.T, name string, code int, want string, flags ...string) {
	t.Helper()
	args := slices.Concat([]string{"run", "--name", name}, flags, []string{"codex", w.Work, "--", "codex", "login", "status"})
	r := w.within(t, args...)
	if r.Code != code || !strings.Contains(r.Stderr, want) || !strings.Contains(r.Stderr, "Codex CLI has no credential") {
		t.Errorf("%v", r)
	}
}

// browses logs codex in as somebody at the host's browser does, who gives their consent.
func (w *world) browses(t *testing.T, name, code string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := w.Command(ctx, "exec", name, "codex", "login")
	said, to := io.Pipe()
	cmd.Stdout, cmd.Stderr = to, to
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait(); to.Close() }()
	var all strings.Builder
	consent := regexp.MustCompile(`https://auth\.openai\.com/oauth/authorize\?\S+`)
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		all.WriteString(lines.Text() + "\n")
		page, err := url.Parse(consent.FindString(lines.Text()))
		if err != nil || page.Host == "" {
			continue
		}
		back := page.Query().Get("redirect_uri") + "?" + url.Values{"code": {code}, "state": {page.Query().Get("state")}}.Encode()
		resp, err := http.Get(back)
		if err != nil {
			t.Error(err)
			cancel()
			continue
		}
		resp.Body.Close()
	}
	if err := <-ended; err != nil {
		t.Errorf("%v: %s", err, all.String())
	}
}

// chatGPT is where somebody has an account: it gives a token for a code, and tells whether
// it was asked with that.
type chatGPT struct {
	code, access string
	used         chan bool // has something when it was asked with the token
}

func (c *chatGPT) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	switch {
	case r.Host == "chatgpt.com" && r.Header.Get("Authorization") == "Bearer "+c.access:
		select {
		case c.used <- true:
		default: // once is enough
		}
		http.NotFound(rw, r)
	case r.URL.Path == "/oauth/token" && r.FormValue("code") == c.code:
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(map[string]any{"id_token": c.access, "access_token": c.access, "refresh_token": "rt-1", "expires_in": 3600})
	default:
		http.NotFound(rw, r) // an API key for the token, which it can do without
	}
}

// token is one that says whose it is, and until when.
func token(t *testing.T, until time.Time) string {
	t.Helper()
	b, err := json.Marshal(map[string]any{
		"exp": until.Unix(), "email": "somebody@example.com",
		"https://api.openai.com/auth": map[string]any{"chatgpt_account_id": "account-of-somebody", "chatgpt_user_id": "somebody", "chatgpt_plan_type": "plus"},
	})
	if err != nil {
		t.Fatal(err)
	}
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"RS256"}`)) + "." + part(b) + "." + part([]byte("signature"))
}
