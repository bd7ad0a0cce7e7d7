package agents

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// TestLoginGoogle checks a login of gemini inside with a Google account, by a user whose browser is on
// another machine. Bothy keeps and renews the tokens outside; later runs use them.
func TestLoginGoogle(t *testing.T) {
	harness.AsRoot(t)
	inWorld(t, gemini, jobs, func(t *testing.T, w *world) {
		w.once(t)
		w.keyless()
		account := &google{code: newKey("4/"), access: []string{newKey("ya29."), newKey("ya29.")}, refresh: newKey("1//"), identity: token(t, time.Now().Add(time.Hour))}
		w.hosts = map[string]http.Handler{"oauth2.googleapis.com": account, "cloudcode-pa.googleapis.com": account}
		for name := range w.hosts {
			w.stage.Leads(name, stage.Host4.String())
		}
		w.Must(t, "create", "--name", box, "gemini", w.Work)
		tty := w.sitsAt(t, "gemini")
		tty.reads(t, "How would you like to authenticate")
		tty.types(t, "\r")
		tty.reads(t, "Restarting Gemini CLI to continue") // the user does that
		tty.leaves()

		tty = w.sitsAt(t, "gemini")
		link := googleConsent.FindStringSubmatch(tty.reads(t, "Enter the authorization code"))
		if link == nil {
			t.Fatal("it shows no link")
		}
		account.challenge.Store(link[1])
		tty.types(t, account.code+"\r")
		tty.reads(t, "Type your message")
		w.rummagesFor(t, account.access[0], account.refresh)
		tty.leaves()

		if r := w.asksAgain(t, "greeting"); r.Code != 0 || !strings.Contains(r.Stdout, "It is shouted.") {
			t.Errorf("%v", r)
		}
		if out := w.Must(t, "cost", "--json", box); !strings.Contains(out, `"output_tokens": 3`) && !strings.Contains(out, `"output_tokens": 6`) {
			t.Errorf("what the model took: %s", out)
		}
		account.mu.Lock()
		t.Logf("Google was asked %q", account.asked)
		if account.renewed != 1 || !slices.Contains(account.bearer, account.access[1]) {
			t.Errorf("renewed %d times; the model got %d requests", account.renewed, len(account.bearer))
		}
		account.mu.Unlock()
		tokens := slices.Concat(account.access, []string{account.refresh, account.identity})
		w.isKept(t, box, "gemini-login@"+box, tokens...)
		w.Must(t, "rm", "-f", box)

		// If the user is logged in on the host, Bothy lends that login.
		file := filepath.Join(w.Home, ".gemini/oauth_creds.json")
		w.Mkdir(t, filepath.Dir(file))
		w.Write(t, file, fmt.Sprintf(`{"access_token":%q,"refresh_token":%q,"id_token":%q,"scope":"openid","token_type":"Bearer","expiry_date":%d}`,
			account.access[1], account.refresh, account.identity, time.Now().Add(time.Hour).UnixMilli()))
		if r := w.asks(t, "greeting"); r.Code != 0 || !strings.Contains(r.Stdout, "It is shouted.") {
			t.Errorf("with a login of the host: %v", r)
		}
		for _, token := range tokens {
			w.isNotInside(t, box, token)
		}
	})
}

// googleConsent matches the URL of the consent page, with its challenge (RFC 7636).
var googleConsent = regexp.MustCompile(`https://accounts\.google\.com/o/oauth2/v2/auth\?\S*code_challenge=([\w-]{43})`)

// google is a fake of Google's accounts: it returns tokens for a code, checks tokens, and serves the
// model.
type google struct {
	code, refresh, identity string
	access                  []string // the first, and the renewed ones

	challenge atomic.Value // of the client that asked for the code

	mu      sync.Mutex
	renewed int
	asked   []string
	bearer  []string // in requests to the model
}

func (g *google) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, r.Method+" "+r.Host+r.URL.Path)
	bearer := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	mine := bearer == g.access[g.renewed]
	switch path := r.URL.Path; {
	case path == "/token" && r.FormValue("grant_type") == "authorization_code" && r.FormValue("code") == g.code && r.FormValue("client_secret") != "" && g.shown(r.FormValue("code_verifier")):
		say(rw, map[string]any{"access_token": g.access[0], "refresh_token": g.refresh, "id_token": g.identity, "expires_in": 1, "scope": "openid https://www.googleapis.com/auth/cloud-platform", "token_type": "Bearer"})
	case path == "/token" && r.FormValue("grant_type") == "refresh_token" && r.FormValue("refresh_token") == g.refresh && r.FormValue("client_secret") != "" && g.renewed+1 < len(g.access):
		g.renewed++
		say(rw, map[string]any{"access_token": g.access[g.renewed], "id_token": g.identity, "expires_in": 3599, "scope": "openid", "token_type": "Bearer"})
	case path == "/tokeninfo" && mine:
		say(rw, map[string]any{"aud": "client", "scope": "https://www.googleapis.com/auth/cloud-platform", "expires_in": 3000, "access_type": "offline"})
	case path == "/v1internal:loadCodeAssist" && mine:
		say(rw, map[string]any{"currentTier": map[string]any{"id": "standard-tier", "name": "Standard"}, "cloudaicompanionProject": "project-of-somebody"})
	case strings.HasSuffix(path, ":streamGenerateContent") && mine:
		g.bearer = append(g.bearer, bearer)
		rw.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(rw, "data: {\"response\":%s}\n\n", answered("It is shouted."))
	case strings.HasSuffix(path, ":generateContent") && mine: // which model to use
		say(rw, map[string]any{"response": answered(`{"complexity_reasoning":"none","complexity_score":10}`)})
	case strings.HasPrefix(path, "/v1internal") && mine:
		say(rw, map[string]any{})
	default:
		http.Error(rw, `{"error":"invalid_request"}`, http.StatusUnauthorized)
	}
}

// answered returns a model's answer.
func answered(text string) json.RawMessage {
	part, _ := json.Marshal(map[string]string{"text": text})
	return fmt.Appendf(nil, `{"candidates":[{"content":{"role":"model","parts":[%s]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":3,"totalTokenCount":8}}`, part)
}

// shown reports whether verifier is the text from which the challenge was made.
func (g *google) shown(verifier string) bool {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:]) == g.challenge.Load()
}
