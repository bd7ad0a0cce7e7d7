package agents

import (
	"bufio"
	"context"
	"crypto/sha256"
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
	"sync/atomic"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// TestLoginInside checks that an agent without a credential reports that, and can log in inside by its
// own means: with a key, which stays in the sandbox's home, and in the browser of the host, whose tokens
// are kept outside. Later runs use both. Other sandboxes get neither.
func TestLoginInside(t *testing.T) {
	harness.AsRoot(t)
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
		w.isKept(t, "other", "codex-login@other", account.access, "rt-1-of-somebody")
		w.Must(t, "rm", "-f", "other")
		w.status(t, "third", 1, "Not logged in")
		if out := w.Must(t, "secret", "ls", "--json"); !strings.Contains(out, `"secrets": []`) || !strings.Contains(out, `"leases": []`) {
			t.Errorf("there are secrets now: %s", out)
		}
	})
}

// TestLoggedOut checks that agents without a credential start with a login of their own. One is logged
// in completely, as by a user at a terminal whose browser is on another machine.
func TestLoggedOut(t *testing.T) {
	harness.Sweep(t, "agents")
	inWorldOf(t, []cast{{claude, jobs}, {gemini, jobs}}, func(t *testing.T, w *world) {
		w.once(t)
		w.keyless()
		account := &subscription{code: newKey("code-"), access: newKey("sk-ant-oat01-"), refresh: newKey("sk-ant-ort01-"), model: w.model}
		w.model.RequireKey = account.access
		w.hosts = map[string]http.Handler{"api.anthropic.com": account, "platform.claude.com": account}
		w.stage.Leads("platform.claude.com", stage.Host4.String())

		if r := w.within(t, "run", "--name", box, "claude", w.Work, "--", "claude", "auth", "status"); r.Code != 1 || !strings.Contains(r.Stdout, `"loggedIn": false`) {
			t.Errorf("%v", r)
		}
		w.pastes(t, account)
		if r := w.within(t, "exec", box, "claude", "auth", "status"); r.Code != 0 || !strings.Contains(r.Stdout, `"loggedIn": true`) {
			t.Errorf("%v", r)
		}
		if r := w.asksAgain(t, "greeting"); r.Code != 0 || !strings.Contains(r.Stdout, "It is shouted.") {
			t.Errorf("%v\n%s", r, summary(w.model.Requests()))
		}
		if q := w.model.Requests(); len(q) == 0 || q[0].Header.Get("Authorization") != "Bearer "+account.access {
			t.Errorf("the model was not asked with the token: %s", summary(q))
		}
		w.isKept(t, box, "claude-login@"+box, account.access, account.refresh)
		if r := w.within(t, "exec", box, "env", "CLAUDE_CODE_MAX_RETRIES=0", "claude", "-p", "greeting"); r.Code == 0 || !strings.Contains(r.Stdout, "its lease was taken back: log in again") {
			t.Errorf("after its end: %v", r)
		}
		if r := w.within(t, "run", "--name", "gem", "gemini", w.Work, "--", "gemini", "--skip-trust", "-p", "hi"); r.Code != 41 || !strings.Contains(r.Stderr, "set an Auth method") {
			t.Errorf("%v", r)
		}
	})
}

// pastes logs claude in at a terminal: the user opens the link on another machine, and pastes the code
// from there.
func (w *world) pastes(t *testing.T, account *subscription) {
	t.Helper()
	tty := w.sitsAt(t, "claude --dangerously-skip-permissions")
	tty.reads(t, "Dark")
	tty.types(t, "\r")
	tty.reads(t, "Select login method")
	tty.types(t, "\r")
	link := consent.FindStringSubmatch(tty.reads(t, "Paste code here"))
	if link == nil {
		t.Fatal("it shows no link")
	}
	account.challenge.Store(link[1])
	tty.types(t, account.code+"#state")
	tty.reads(t, "#state") // without this wait the return key would be part of the paste
	tty.types(t, "\r")
	tty.reads(t, "Login successful")
	w.rummagesFor(t, account.access, account.refresh)
	tty.leaves()
}

// rummagesFor searches memory, environment and files inside while the agent that has just logged in
// runs. The placeholders of the tokens must be there, and the tokens must not.
func (w *world) rummagesFor(t *testing.T, access, refresh string) {
	t.Helper()
	var list struct {
		Leases []struct{ Placeholder string }
	}
	if err := json.Unmarshal([]byte(w.Must(t, "secret", "ls", "--json")), &list); err != nil || len(list.Leases) != 1 {
		t.Fatalf("there are the leases %+v: %v", list, err)
	}
	me := w.Plant(t, w.Work)
	r := w.within(t, "exec", "-u", "root", box, me, "rummage", "key="+veiled(access), "renewal="+veiled(refresh), "placeholder="+veiled(list.Leases[0].Placeholder))
	if r.Code != 0 || strings.Contains(r.Stdout, "FOUND key ") || strings.Contains(r.Stdout, "FOUND renewal ") ||
		strings.Contains(r.Stdout, "CANNOT read memory") || !strings.Contains(r.Stdout, "FOUND placeholder ") {
		t.Errorf("%v", r)
	}
}

// consent matches the URL of the consent page. It is short, and its last part is the challenge (RFC
// 7636).
var consent = regexp.MustCompile(`https://claude\.ai/oauth/authorize\?\S*?([\w-]{43})\s`)

// subscription is a fake of the account's server: it returns tokens for a code, identifies the account,
// and serves the model.
type subscription struct {
	code, access, refresh string
	challenge             atomic.Value // of the client that asked for the code
	model                 http.Handler
}

func (s *subscription) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	mine := r.Header.Get("Authorization") == "Bearer "+s.access
	switch {
	case r.URL.Path == "/api/hello" || r.URL.Path == "/v1/oauth/hello":
	case r.URL.Path == "/v1/oauth/token":
		s.grant(rw, r)
	case r.URL.Path == "/api/oauth/profile" && mine:
		say(rw, map[string]any{
			"account":      map[string]any{"uuid": "account", "email": "somebody@example.com", "display_name": "Somebody", "created_at": "2026-01-01T00:00:00Z"},
			"organization": map[string]any{"uuid": "organization", "organization_type": "claude_pro", "name": "Somebody's", "rate_limit_tier": "default_claude_ai"},
		})
	case r.URL.Path == "/v1/messages":
		s.model.ServeHTTP(rw, r)
	default:
		http.NotFound(rw, r)
	}
}

// grant returns tokens to a client that proves that it asked for the code.
func (s *subscription) grant(rw http.ResponseWriter, r *http.Request) {
	var asked struct {
		Code     string `json:"code"`
		Verifier string `json:"code_verifier"`
	}
	_ = json.NewDecoder(r.Body).Decode(&asked)
	sum := sha256.Sum256([]byte(asked.Verifier))
	if asked.Code != s.code || base64.RawURLEncoding.EncodeToString(sum[:]) != s.challenge.Load() {
		http.Error(rw, `{"error":"invalid_grant"}`, http.StatusBadRequest)
		return
	}
	say(rw, map[string]any{
		"token_type": "Bearer", "access_token": s.access, "refresh_token": s.refresh, "expires_in": 28800, "scope": "user:inference user:profile",
		"account":      map[string]any{"uuid": "account", "email_address": "somebody@example.com"},
		"organization": map[string]any{"uuid": "organization", "name": "Somebody's"},
	})
}

// say answers in JSON.
func say(rw http.ResponseWriter, v any) {
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(v)
}

// escapes are control sequences that move the cursor or set colours, and blanks.
var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[a-zA-Z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\r\n ─]+`)

// isKept checks that a login is kept on the host: the tokens are nowhere inside, the list of secrets
// names it, and revoking its lease ends it.
func (w *world) isKept(t *testing.T, name, secret string, tokens ...string) {
	t.Helper()
	list := w.Must(t, "secret", "ls")
	if !strings.Contains(list, secret) || !strings.Contains(list, "login inside: ") {
		t.Errorf("it is not listed: %s", list)
	}
	if out := w.Must(t, "secret", "audit"); !strings.Contains(out, "login") || !strings.Contains(out, secret) {
		t.Errorf("it is not in the log: %s", out)
	}
	for _, token := range tokens {
		harness.Absent(t, "the list", []byte(list), token)
		harness.AbsentInFiles(t, filepath.Join(w.State, "sandboxes"), token)
		w.isNotInside(t, name, token)
	}
	w.Must(t, "secret", "revoke", secret)
	if out := w.Must(t, "secret", "ls"); strings.Contains(out, secret) {
		t.Errorf("it is listed yet: %s", out)
	}
}

// isNotInside searches the files inside for a token. While an agent works, some of its files disappear
// before they are read, for which grep fails without an answer: then the search is repeated.
func (w *world) isNotInside(t *testing.T, name, token string) {
	t.Helper()
	const none, failed = 1, 2
	var r harness.Result
	harness.Comes(harness.Moment, func() bool {
		r = w.within(t, "exec", name, "grep", "-rlsF", token, w.Home, w.Work, "/tmp")
		return r.Code != failed || r.Stdout != ""
	})
	if r.Code != none {
		t.Errorf("a token is inside, or nobody knows: %v", r)
	}
}

// terminal is a terminal inside, used by a person.
type terminal struct {
	keys   io.WriteCloser
	file   string
	hangUp context.CancelFunc
	ended  chan error
}

// sitsAt starts a command at a terminal inside. The terminal is wide, so that a link fits on one line.
func (w *world) sitsAt(t *testing.T, command string) *terminal {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	line := fmt.Sprintf(`script -qfc "stty rows 40 cols 1000; exec %s" screen`, command)
	cmd := w.Command(ctx, "exec", "-i", box, "sh", "-c", line)
	keys, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	tty := &terminal{keys: keys, file: filepath.Join(w.Work, "screen"), hangUp: cancel, ended: make(chan error, 1)}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { tty.ended <- cmd.Wait() }()
	return tty
}

// reads waits until texts are on the screen, and returns everything that was shown.
func (tty *terminal) reads(t *testing.T, texts ...string) (screen string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Log(screen[max(0, len(screen)-4000):])
		}
	}()
	harness.WaitFor(t, patience, strings.Join(texts, ", "), func() bool {
		b, _ := os.ReadFile(tty.file)
		screen = escapes.ReplaceAllString(string(b), " ")
		return !slices.ContainsFunc(texts, func(s string) bool { return !strings.Contains(screen, s) })
	})
	return screen
}

func (tty *terminal) types(t *testing.T, keys string) {
	t.Helper()
	if _, err := io.WriteString(tty.keys, keys); err != nil {
		t.Fatal(err)
	}
}

// leaves hangs up.
func (tty *terminal) leaves() {
	tty.hangUp()
	<-tty.ended
}

// keyless removes the keys from the caller's environment.
func (w *world) keyless() {
	of := append([]*world{w}, w.mates...)
	w.Env = slices.DeleteFunc(w.Env, func(v string) bool {
		return slices.ContainsFunc(of, func(m *world) bool { return strings.HasPrefix(v, m.cli.variable+"=") })
	})
}

// status asks codex in a sandbox whether it is logged in, without a credential of the host.
func (w *world) status(t *testing.T, name string, code int, want string, flags ...string) {
	t.Helper()
	args := slices.Concat([]string{"run", "--name", name}, flags, []string{"codex", w.Work, "--", "codex", "login", "status"})
	r := w.within(t, args...)
	if r.Code != code || !strings.Contains(r.Stderr, want) || code != 0 && !strings.Contains(r.Stderr, "Codex CLI has no credential") {
		t.Errorf("%v", r)
	}
}

// browses logs codex in like a user who consents in the host's browser.
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

// chatGPT is a fake of ChatGPT's accounts: it returns a token for a code, and reports whether a request
// used it.
type chatGPT struct {
	code, access string
	used         chan bool // has an element after a request with the token
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
		_ = json.NewEncoder(rw).Encode(map[string]any{"id_token": c.access, "access_token": c.access, "refresh_token": "rt-1-of-somebody", "expires_in": 3600})
	default:
		http.NotFound(rw, r) // an API key for the token, which codex does not need
	}
}

// token returns a token with its owner and expiry.
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
