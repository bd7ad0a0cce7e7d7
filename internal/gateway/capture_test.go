package gateway

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/oauthfile"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// keeping keeps logins, and fails with err if that is set.
type keeping struct {
	mu  sync.Mutex // the race detector sees no order through the stack inside
	got []oauthfile.Grant
	err error
}

func (k *keeping) kept() []oauthfile.Grant {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.got)
}

func (k *keeping) keep(w **world, p *provider) func(context.Context, oauthfile.Grant) (*spec.Lease, string, error) {
	return func(_ context.Context, g oauthfile.Grant) (*spec.Lease, string, error) {
		k.mu.Lock()
		k.got = append(k.got, g)
		k.mu.Unlock()
		if k.err != nil {
			return nil, "", k.err
		}
		l := spec.Lease{
			ID: "lease1", Secret: "tool-login@box", Captured: "tool", Hosts: []string{"api.example.com"}, Place: spec.Place{Kind: spec.PlaceBearer},
			Placeholder: accessStandIn, Renewal: refreshStandIn,
		}
		err := (*w).SetLoans([]wire.Loan{{
			Lease: l, Value: wire.Value(g.Access), Masked: []wire.Value{wire.Value(g.Refresh)},
			Login: &wire.Login{Path: "/nonexistent/login.json", How: p.how(), Inside: true},
		}})
		return &l, "", err
	}
}

// capturing makes a sandbox whose logins are kept.
func (p *provider) capturing(t testing.TB, k *keeping, change ...func(*Config)) *world {
	t.Helper()
	how := p.how()
	how.Capture = &spec.AgentCapture{Pass: []string{"scope", "account"}}
	var w *world
	w = start(t, document(t, 1, "allow: [{host: auth.example.com, methods: [POST]}, {host: api.example.com, methods: [POST]}]\n"), loginHosts,
		append([]func(*Config){p.trusting, func(c *Config) { c.Capture = &Capture{How: how, Keep: k.keep(&w, p)} }}, change...)...)
	return w
}

// logsIn acts as a program inside that has a code.
func (p *provider) logsIn(t testing.TB, c *http.Client, url string) (int, string, head) {
	t.Helper()
	return fetch(t, c, "POST", url, strings.NewReader(`{"grant_type":"authorization_code","code":"x"}`), "Content-Type", "application/json", "Accept-Encoding", "gzip")
}

// giving returns a provider that answers a code in its own way.
func giving(t testing.TB, status int, kind, text string, header ...string) *provider {
	p := newProvider(t)
	serve := p.Config.Handler
	p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.EqualFold(r.URL.Path, "/oauth/token") {
			serve.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("X-Token", access(1))
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		for _, piece := range strings.SplitAfter(text, ",") { // it comes in pieces
			_, _ = w.Write([]byte(piece))
			if len(header) == 0 {
				_ = http.NewResponseController(w).Flush()
			}
		}
	})
	return p
}

func zipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	must(t, errors.Join(err, z.Close()))
	return b.String()
}

var tokens = fmt.Sprintf(`{"access_token":%q,"refresh_token":%q,"expires_in":60,"scope":"a b","account":{"say":%q},"more":%q}`, access(1), refresh(1), access(1), "more-REALREALREAL")

// TestCapture checks that the tokens of a login inside stay outside, and that the login works
// inside at once.
func TestCapture(t *testing.T) {
	for name, p := range map[string]*provider{
		"in pieces":  giving(t, 200, "application/json; charset=utf-8", tokens),
		"compressed": giving(t, 200, "application/json", zipped(t, tokens), "Content-Encoding", "gzip"),
		"twice":      giving(t, 200, "application/json", `{"access_token":"other-REALREALREALREAL",`+tokens[1:]),
	} {
		for _, h2 := range []bool{true, false} {
			for _, url := range []string{p.how().Endpoint, strings.Replace(p.how().Endpoint, "/oauth/token", "/OAuth/%74oken?x", 1)} {
				k := &keeping{}
				w := p.capturing(t, k)
				c := w.client(t, h2)
				status, text, head := p.logsIn(t, c, url)
				p.clean(t, text+fmt.Sprint(head))
				var body struct {
					Access  string         `json:"access_token"`
					Refresh string         `json:"refresh_token"`
					Expires int            `json:"expires_in"`
					Scope   string         `json:"scope"`
					Account map[string]any `json:"account"`
				}
				if err := json.Unmarshal([]byte(text), &body); err != nil || status != 200 || body.Access != accessStandIn || body.Refresh != refreshStandIn ||
					body.Expires < 1e6 || body.Scope != "a b" || body.Account["say"] == nil || strings.Contains(text, "more") {
					t.Errorf("%s, h2 %v: %d %s %v", name, h2, status, text, err)
				}
				if kept := k.kept(); len(kept) != 1 || kept[0].Access != access(1) || kept[0].Refresh != refresh(1) || kept[0].Lifetime.Seconds() != 60 {
					t.Fatalf("%s, h2 %v: kept are %d", name, h2, len(kept))
				}
				if status, text := p.call(t, w, c); status != 200 {
					t.Errorf("%s, h2 %v: used: %d %s", name, h2, status, text)
				}
				if r := w.renewal(t); r.Verdict != spec.VerdictAllow || r.Secret != "tool-login@box" || !strings.Contains(r.Reason, "kept on the host") {
					t.Errorf("%+v", r)
				}
				w.realless(t)
			}
		}
	}
}

// TestCaptureIdentity checks that the ID token is not passed in another member either.
func TestCaptureIdentity(t *testing.T) {
	const identity = "e30.eyJzdWIiOiJtZSJ9.IDREALREALREALREAL"
	text := fmt.Sprintf(`"id_token":%q,"account":{"id":%q,"spelled":%q,"name":"me",`, identity, identity, base64.StdEncoding.EncodeToString([]byte(identity)))
	p := giving(t, 200, "application/json", strings.Replace(tokens, `"account":{`, strings.ReplaceAll(text, "eyJz", `\u0065yJz`), 1))
	w := p.capturing(t, &keeping{})
	status, text, _ := p.logsIn(t, w.client(t, false), p.how().Endpoint)
	if status != 200 || strings.Contains(text, "REAL") || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(identity))[:20]) || !strings.Contains(text, `"name":"me"`) {
		t.Errorf("%d %s", status, text)
	}
}

// TestNotCaptured checks that an answer that cannot be understood, or kept, does not come in. The
// inside gets the reason.
func TestNotCaptured(t *testing.T) {
	huge := `{"fill":"` + strings.Repeat("x", 256<<10) + `",` + tokens[1:]
	for name, tt := range map[string]struct {
		p      *provider
		err    error
		kept   int
		status int
		want   string
	}{
		"no JSON":        {p: giving(t, 200, "text/plain", tokens), status: 502, want: "not 200 in JSON"},
		"created":        {p: giving(t, 201, "application/json", tokens), status: 502, want: "status 201"},
		"huge":           {p: giving(t, 200, "application/json", huge), status: 502, want: "more than 262144 bytes"},
		"a bomb":         {p: giving(t, 200, "application/json", zipped(t, huge), "Content-Encoding", "gzip"), status: 502, want: "more than 262144 bytes"},
		"unreadable":     {p: giving(t, 200, "application/json", tokens, "Content-Encoding", "br"), status: 502, want: "unknown content encoding"},
		"no gzip":        {p: giving(t, 200, "application/json", tokens, "Content-Encoding", "gzip"), status: 502, want: "breaks off"},
		"two values":     {p: giving(t, 200, "application/json", tokens+tokens), status: 502, want: "it is not a login"},
		"no renewal":     {p: giving(t, 200, "application/json", fmt.Sprintf(`{"access_token":%q}`, access(1))), status: 502, want: "it is not a login"},
		"no tokens":      {p: giving(t, 200, "application/json", `{"ok":true}`), status: 502, want: "it is not a login"},
		"nobody keeps":   {p: giving(t, 200, "application/json", tokens), err: os.ErrPermission, kept: 1, status: 502, want: "bothy secret audit says why"},
		"unfit to lend":  {p: giving(t, 200, "application/json", tokens), err: oauthfile.ErrNoToken, kept: 1, status: 502, want: "no usable token"},
		"logged in":      {p: giving(t, 200, "application/json", tokens), err: fmt.Errorf("%w; revoke it", oauthfile.ErrLoggedIn), kept: 1, status: 502, want: "it is logged in already; revoke it"},
		"a refusal":      {p: giving(t, 400, "application/json", `{"error":"invalid_grant"}`), status: 400, want: "invalid_grant"},
		"somewhere else": {p: giving(t, 307, "application/json", `{}`, "Location", "https://x.example.com/"), status: 307},
	} {
		k := &keeping{err: tt.err}
		w := tt.p.capturing(t, k)
		c := w.client(t, true)
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		status, text, head := tt.p.logsIn(t, c, tt.p.how().Endpoint)
		if tt.status == 502 {
			tt.p.clean(t, text+fmt.Sprint(head))
			if r := w.renewal(t); r.Verdict != spec.VerdictError || r.Reason == "" {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if status != tt.status || !strings.Contains(text, tt.want) || len(k.kept()) != tt.kept {
			t.Errorf("%s: %d %.300s; kept %d", name, status, text, len(k.kept()))
		}
		w.realless(t)
	}
}

// TestCaptureEndsWithGateway checks that a program waiting for a login to be kept learns that the
// sandbox ends, and that the sandbox ends soon.
func TestCaptureEndsWithGateway(t *testing.T) {
	p := giving(t, 200, "application/json", tokens)
	kept := make(chan struct{})
	w := p.capturing(t, &keeping{}, func(c *Config) {
		c.Capture.Keep = func(ctx context.Context, _ oauthfile.Grant) (*spec.Lease, string, error) {
			close(kept)
			<-ctx.Done()
			return nil, "", context.Cause(ctx)
		}
	})
	c := w.client(t, false)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		resp, err := c.Post(p.how().Endpoint, "application/json", strings.NewReader("{}"))
		if err == nil {
			resp.Body.Close()
		}
	}()
	<-kept
	w.Close()
	<-ended
}

// TestCaptureNobodys checks that while a login of the host is lent, a login inside is the sandbox's
// own business, and so is one at another place.
func TestCaptureNobodys(t *testing.T) {
	p := giving(t, 200, "application/json", tokens)
	k := &keeping{}
	w := p.capturing(t, k)
	c := w.client(t, false)
	if _, text, _ := p.logsIn(t, c, strings.Replace(p.how().Endpoint, "token", "other", 1)); strings.Contains(text, accessStandIn) {
		t.Error(text)
	}
	f := p.signIn(t, 3, time.Now().Add(later))
	must(t, w.SetLoans(p.loan(t, f)))
	if status, text, _ := p.logsIn(t, c, p.how().Endpoint); status != 200 || !strings.Contains(text, access(1)) {
		t.Errorf("%d %s", status, text)
	}
	if n := len(k.kept()); n != 0 {
		t.Errorf("%d are kept", n)
	}
}
