package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/oauthfile"
	"github.com/bothy-dev/bothy/internal/sealedfile"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// provider is an API and its token server. Every refresh token works once.
type provider struct {
	*origin
	mu     sync.Mutex
	n      int           // of the valid tokens
	asked  int           // times that tokens were asked for
	reused int           // times with a used token
	delay  time.Duration // of a token answer
	fail   int           // the status of all token answers
	life   int           // of a token, in seconds
	denies bool          // the API accepts no token
	form   bool          // tokens were asked for in OAuth's form
}

func access(n int) string  { return fmt.Sprintf("access-%d-REALREALREALREAL", n) }
func refresh(n int) string { return fmt.Sprintf("refresh-%d-REALREALREALREAL", n) }

func newProvider(t testing.TB) *provider {
	p := &provider{n: 1, life: 3600}
	p.origin = newOrigin(t, true, p.serve)
	return p
}

func (p *provider) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // a body that broke off
	}
	if r.URL.Path == "/oauth/token" {
		p.token(w, r.Header.Get("Content-Type"), body)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer "+access(p.n) || p.denies {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	fmt.Fprintf(w, "you said %v %s; the next is %s", r.Header, body, refresh(p.n))
}

func (p *provider) token(w http.ResponseWriter, kind string, body []byte) {
	time.Sleep(p.delay)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	var q struct {
		Grant  string `json:"grant_type"`
		Token  string `json:"refresh_token"`
		Client string `json:"client_id"`
	}
	if form, err := url.ParseQuery(string(body)); err == nil && strings.HasSuffix(kind, "urlencoded") {
		p.form = true
		q.Grant, q.Token, q.Client = form.Get("grant_type"), form.Get("refresh_token"), form.Get("client_id")
	} else if json.Unmarshal(body, &q) != nil {
		q.Token = ""
	}
	switch {
	case p.fail != 0:
		w.WriteHeader(p.fail)
		fmt.Fprintf(w, `{"error":"server_error","error_description":%q}`, q.Token)
	case q.Grant != "refresh_token" || q.Client != "tool" || q.Token != refresh(p.n):
		p.reused++
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":{"code":"refresh_token_reused","message":%q}}`, q.Token)
	default:
		p.n++
		fmt.Fprintf(w, `{"access_token":%q,"refresh_token":%q,"expires_in":%d,"token_type":"Bearer"}`, access(p.n), refresh(p.n), p.life)
	}
}

// asking runs a function when the provider is asked for tokens, before it answers.
func (p *provider) asking(do func()) {
	serve := p.Config.Handler
	p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/oauth/token" {
			do()
		}
		serve.ServeHTTP(w, r)
	})
}

// holds makes the provider report a request for tokens, and answer on command.
func (p *provider) holds(t testing.TB) (asked chan struct{}, answer chan struct{}) {
	asked, answer = make(chan struct{}, 10), make(chan struct{})
	p.asking(func() {
		asked <- struct{}{}
		select {
		case <-answer:
		case <-t.Context().Done():
		}
	})
	return asked, answer
}

// with changes the provider.
func (p *provider) with(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *provider) counts() (asked, reused int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked, p.reused
}

func (p *provider) how() spec.AgentLogin {
	return spec.AgentLogin{
		File: ".tool/login.json", Access: "/a", Refresh: "/r", Expires: "/e", Service: "claude", Lock: true,
		Endpoint: fmt.Sprintf("https://auth.example.com:%d/oauth/token", p.port), Client: "tool", Form: spec.FormJSON, Again: "tool login",
	}
}

// signIn makes a login with the n-th tokens.
func (p *provider) signIn(t testing.TB, n int, ends time.Time) oauthfile.File {
	t.Helper()
	f := oauthfile.Find(p.how(), t.TempDir(), func(string) string { return "" })
	must(t, os.MkdirAll(filepath.Dir(f.Path), 0o700))
	p.write(t, f, n, ends)
	return f
}

func (p *provider) write(t testing.TB, f oauthfile.File, n int, ends time.Time) {
	t.Helper()
	must(t, os.WriteFile(f.Path, fmt.Appendf(nil, `{"a":%q,"r":%q,"e":%d,"odd":[1]}`, access(n), refresh(n), ends.UnixMilli()), 0o600))
	if time.Until(ends) < time.Hour { // it is not new
		at := time.Now().Add(-old)
		must(t, os.Chtimes(f.Path, at, at))
	}
}

const (
	accessStandIn  = "sk-tool-ACCESSPLACEHOLDER0123456789"
	refreshStandIn = "sk-tool-REFRESHPLACEHOLDER0123456789"
)

var loginHosts = map[string][]string{"api.example.com": {"127.0.0.1"}, "auth.example.com": {"127.0.0.1"}}

// lends makes a sandbox that is lent the current tokens of a login.
func (p *provider) lends(t testing.TB, f oauthfile.File, change ...func(*Config)) *world {
	t.Helper()
	w := start(t, document(t, 1, "allow: [api.example.com, auth.example.com]\n"), loginHosts, append(change, p.trusting)...)
	must(t, w.SetLoans(p.loan(t, f)))
	return w
}

func (p *provider) loan(t testing.TB, f oauthfile.File) []wire.Loan {
	t.Helper()
	d, err := f.Read()
	must(t, err)
	return []wire.Loan{{
		Value: wire.Value(d.Access), Masked: []wire.Value{wire.Value(d.Refresh)}, Login: &wire.Login{Path: f.Path, How: f.How, Inside: f.Inside, Seal: f.Seal, Expires: d.Expires, Due: d.Due},
		Lease: spec.Lease{
			ID: "lease1", Secret: "tool-login", Hosts: []string{"api.example.com"}, Place: spec.Place{Kind: spec.PlaceBearer},
			Placeholder: accessStandIn, Renewal: refreshStandIn,
		},
	}}
}

func (p *provider) call(t testing.TB, w *world, c *http.Client) (int, string) {
	t.Helper()
	status, text, head := fetch(t, c, "POST", fmt.Sprintf("https://api.example.com:%d/v1", p.port), strings.NewReader("hello"), "Authorization", "Bearer "+accessStandIn)
	p.clean(t, text+fmt.Sprint(head))
	return status, text
}

// renews acts as a program inside that renews by itself.
func (p *provider) renews(t testing.TB, w *world, c *http.Client, token string) (int, map[string]any) {
	t.Helper()
	status, text, head := fetch(t, c, "POST", p.how().Endpoint,
		strings.NewReader(fmt.Sprintf(`{"grant_type":"refresh_token","client_id":"tool","refresh_token":%q}`, token)), "Content-Type", "application/json")
	p.clean(t, text+fmt.Sprint(head))
	var body map[string]any
	if err := json.Unmarshal([]byte(text), &body); err != nil {
		t.Errorf("%d %s", status, text)
	}
	return status, body
}

// clean fails the test if text that came inside contains real tokens.
func (p *provider) clean(t testing.TB, text string) {
	t.Helper()
	if strings.Contains(text, "REALREAL") {
		t.Errorf("inside came %s", text)
	}
}

// realless reports records that contain a token.
func (w *world) realless(t testing.TB) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.records {
		if strings.Contains(fmt.Sprintf("%+v", r), "REALREAL") {
			t.Errorf("the log has a token: %+v", r)
		}
	}
}

func (w *world) renewal(t testing.TB) spec.NetworkRecord {
	t.Helper()
	return w.record(t, "a renewal", func(r spec.NetworkRecord) bool { return r.Event == spec.NetworkRenewal })
}

var (
	soon  = time.Minute   // renewal is due
	later = 2 * time.Hour // renewal is not due
	old   = 2 * time.Hour // for a file
	form  = func(f *oauthfile.File) { f.How.Form = "" }
)

// TestLoginIsRenewed checks that a token that ends soon is renewed before it is used, once, and
// that the file has the new ones first.
func TestLoginIsRenewed(t *testing.T) {
	for _, change := range []func(*oauthfile.File){func(*oauthfile.File) {}, form} {
		p := newProvider(t)
		f := p.signIn(t, 1, time.Now().Add(soon))
		change(&f)
		w := p.lends(t, f)
		c := w.client(t, true)
		for range 3 {
			if status, text := p.call(t, w, c); status != 200 {
				t.Fatalf("%d %s", status, text)
			}
		}
		if asked, reused := p.counts(); asked != 1 || reused != 0 || p.form != (f.How.Form == "") {
			t.Errorf("asked %d times, %d with a used token", asked, reused)
		}
		d, err := f.Read()
		must(t, err)
		if d.Access != access(2) || d.Refresh != refresh(2) || time.Until(d.Expires) < 50*time.Minute {
			t.Errorf("the file has %+v", d)
		}
		if text, _ := os.ReadFile(f.Path); !strings.Contains(string(text), `"odd":[1]`) {
			t.Errorf("the file is %s", text)
		}
		if r := w.renewal(t); r.Verdict != spec.VerdictAllow || r.Secret != "tool-login" || r.Lease != "lease1" || r.Name != "auth.example.com" {
			t.Errorf("%+v", r)
		}
		// A lease that is sent again with its original value stays renewed.
		loans := p.loan(t, f)
		loans[0].Value = wire.Value(access(1))
		must(t, w.SetLoans(loans))
		if status, text := p.call(t, w, c); status != 200 {
			t.Errorf("%d %s", status, text)
		}
		w.realless(t)
	}
}

// TestLoginIsShared checks that parallel sandboxes whose token ends renew it once, and that all go
// on.
func TestLoginIsShared(t *testing.T) {
	p := newProvider(t)
	p.delay = 200 * time.Millisecond
	f := p.signIn(t, 1, time.Now().Add(-time.Minute))
	var wg sync.WaitGroup
	for range 2 {
		w := p.lends(t, f)
		for range 3 {
			c := w.client(t, false)
			wg.Go(func() {
				if status, text := p.call(t, w, c); status != 200 {
					t.Errorf("%d %s", status, text)
				}
			})
		}
	}
	wg.Wait()
	if asked, reused := p.counts(); asked != 1 || reused != 0 {
		t.Errorf("asked %d times, %d with a used token", asked, reused)
	}
}

// TestShortLogin checks that tokens whose lifetime is shorter than the usual lead of a renewal are
// used for a while.
func TestShortLogin(t *testing.T) {
	p := newProvider(t)
	p.life = 60
	w := p.lends(t, p.signIn(t, 1, time.Now().Add(-time.Minute)))
	c := w.client(t, false)
	for range 5 {
		if status, text := p.call(t, w, c); status != 200 {
			t.Errorf("%d %s", status, text)
		}
	}
	if asked, _ := p.counts(); asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// TestLoginRenewedByHost checks that no server is asked if the host's program has new tokens
// already.
func TestLoginRenewedByHost(t *testing.T) {
	p := newProvider(t)
	f := p.signIn(t, 1, time.Now().Add(soon))
	w := p.lends(t, f)
	p.with(func() { p.n = 2 })
	p.write(t, f, 2, time.Now().Add(later))
	if status, text := p.call(t, w, w.client(t, true)); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	if asked, _ := p.counts(); asked != 0 {
		t.Errorf("asked %d times", asked)
	}
	if r := w.renewal(t); r.Verdict != spec.VerdictAllow || !strings.Contains(r.Reason, "the host has renewed it") {
		t.Errorf("%+v", r)
	}
}

// TestLoginRejected checks that a token that a server rejects, although it has not ended, is read
// anew or renewed for the next request, but not more often than useful.
func TestLoginRejected(t *testing.T) {
	p := newProvider(t)
	f := p.signIn(t, 1, time.Now().Add(later))
	w := p.lends(t, f)
	c := w.client(t, false)
	// The user has logged in anew on the host.
	p.with(func() { p.n = 5 })
	p.write(t, f, 5, time.Now().Add(later))
	if status, _ := p.call(t, w, c); status != 401 {
		t.Errorf("the old token: %d", status)
	}
	if status, _ := p.call(t, w, c); status != 200 {
		t.Errorf("the new one: %d", status)
	}
	if asked, _ := p.counts(); asked != 0 {
		t.Errorf("asked %d times", asked)
	}
}

// TestNewLoginRejected checks that a server that refuses everything does not cause a renewal of a
// new login.
func TestNewLoginRejected(t *testing.T) {
	p := newProvider(t)
	p.denies = true
	w := p.lends(t, p.signIn(t, 1, time.Now().Add(later)))
	c := w.client(t, false)
	for range 5 {
		if status, _ := p.call(t, w, c); status != 401 {
			t.Errorf("%d", status)
		}
	}
	if asked, _ := p.counts(); asked != 0 {
		t.Errorf("asked %d times", asked)
	}
}

func TestLoginRejectedAndRenewed(t *testing.T) {
	p := newProvider(t)
	f := p.signIn(t, 1, time.Now().Add(later))
	at := time.Now().Add(-old)
	must(t, os.Chtimes(f.Path, at, at))
	w := p.lends(t, f)
	c := w.client(t, false)
	p.with(func() { p.denies = true })
	if status, _ := p.call(t, w, c); status != 401 {
		t.Errorf("%d", status)
	}
	p.with(func() { p.denies = false })
	// The program inside renews by itself, as usual, and goes on.
	status, body := p.renews(t, w, c, refreshStandIn)
	if status != 200 || body["access_token"] != accessStandIn || body["refresh_token"] != refreshStandIn || body["expires_in"].(float64) < 1e8 {
		t.Errorf("%d %v", status, body)
	}
	if status, _ = p.call(t, w, c); status != 200 {
		t.Errorf("%d", status)
	}
	if asked, reused := p.counts(); asked != 1 || reused != 0 {
		t.Errorf("asked %d times, %d with a used token", asked, reused)
	}
}

// TestC5RenewalInside checks that a program inside that renews gets the placeholders it has, and
// that the gateway asks no server (C5).
func TestC5RenewalInside(t *testing.T) {
	p := newProvider(t)
	w := p.lends(t, p.signIn(t, 1, time.Now().Add(later)))
	for _, h2 := range []bool{false, true} {
		c := w.client(t, h2)
		if status, body := p.renews(t, w, c, refreshStandIn); status != 200 || body["access_token"] != accessStandIn {
			t.Errorf("%d %v", status, body)
		}
		form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refreshStandIn}}.Encode()
		status, text, _ := fetch(t, c, "POST", p.how().Endpoint, strings.NewReader(form), "Content-Type", "application/x-www-form-urlencoded")
		if status != 200 || !strings.Contains(text, refreshStandIn) {
			t.Errorf("%d %s", status, text)
		}
		// In another form, or sent elsewhere, it is refused like every placeholder.
		for _, to := range []string{p.how().Endpoint, p.how().Endpoint + "2"} {
			status, text, _ := fetch(t, c, "POST", to, strings.NewReader("<x>"+refreshStandIn+"</x>"))
			if status != 403 || !strings.Contains(text, "placeholder of secret tool-login") {
				t.Errorf("%s: %d %s", to, status, text)
			}
		}
	}
	if asked, _ := p.counts(); asked != 0 {
		t.Errorf("asked %d times", asked)
	}
	// A login that a program inside made on its own is its own business.
	if status, body := p.renews(t, w, w.client(t, false), "a-token-of-its-own"); status != 400 {
		t.Errorf("%d %v", status, body)
	}
	if asked, _ := p.counts(); asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// TestC9RenewalIsJudged checks that the host does not ask a server that a rule denies the sandbox
// (C9), but takes tokens that another program renewed. Other rules end nothing.
func TestC9RenewalIsJudged(t *testing.T) {
	const allow = "allow: [api.example.com, auth.example.com]\n"
	for _, deny := range []string{"auth.example.com", "auth.example.com:%d", "{host: auth.example.com, methods: [POST], paths: [/oauth/**]}"} {
		p := newProvider(t)
		f := p.signIn(t, 1, time.Now().Add(-time.Minute))
		w := p.lends(t, f)
		if strings.Contains(deny, "%d") {
			deny = fmt.Sprintf(deny, p.port)
		}
		w.SetPolicy(document(t, 2, allow+"deny: ["+deny+"]\n"))
		c := w.client(t, false)
		for range 2 {
			if status, text := p.call(t, w, c); status == 200 || !strings.Contains(text, "denies") {
				t.Errorf("%s: %d %s", deny, status, text)
			}
		}
		if asked, _ := p.counts(); asked != 0 {
			t.Errorf("%s: asked %d times", deny, asked)
		}
		if r := w.renewal(t); r.Verdict != spec.VerdictDeny || !strings.Contains(r.Rule, "auth.example.com") || r.Name != "auth.example.com" || r.Secret != "tool-login" {
			t.Errorf("%s: %+v", deny, r)
		}
		w.realless(t)
	}

	p := newProvider(t)
	f := p.signIn(t, 1, time.Now().Add(-time.Minute))
	w := p.lends(t, f)
	w.SetPolicy(document(t, 2, "allow: [api.example.com]\ndeny: [{host: auth.example.com, paths: [/other]}]\n"))
	if status, text := p.call(t, w, w.client(t, false)); status != 200 {
		t.Errorf("%d %s", status, text)
	}

	f = p.signIn(t, 2, time.Now().Add(-time.Minute))
	w = p.lends(t, f)
	p.write(t, f, 2, time.Now().Add(later))
	w.SetPolicy(document(t, 2, allow+"deny: [auth.example.com]\n"))
	if status, text := p.call(t, w, w.client(t, false)); status != 200 {
		t.Errorf("renewed by the host: %d %s", status, text)
	}
}

// TestLoginEnds checks a failed renewal: the inside learns what to do, with a status that programs
// take for the end of a login. The log has the same.
func TestLoginEnds(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		p := newProvider(t)
		p.n = 7 // the file's refresh token was used
		f := p.signIn(t, 1, time.Now().Add(-time.Minute))
		w := p.lends(t, f)
		c := w.client(t, false)
		for range 3 {
			status, text := p.call(t, w, c)
			if status != 401 || !strings.Contains(text, "log in again on the host: tool login") || !strings.Contains(text, "refresh_token_reused") {
				t.Errorf("%d %s", status, text)
			}
		}
		status, body := p.renews(t, w, c, refreshStandIn)
		if status != 400 || body["error"] != "invalid_grant" || !strings.Contains(fmt.Sprint(body), "log in again on the host") {
			t.Errorf("%d %v", status, body)
		}
		time.Sleep(readPause)
		if status, _ := p.call(t, w, c); status != 401 {
			t.Errorf("%d", status)
		}
		if asked, _ := p.counts(); asked != 1 {
			t.Errorf("asked %d times", asked)
		}
		p.write(t, f, 7, time.Now().Add(later)) // the user logs in again
		time.Sleep(readPause)
		if status, text := p.call(t, w, c); status != 200 {
			t.Errorf("%d %s", status, text)
		}
		if r := w.renewal(t); r.Verdict != spec.VerdictError || r.Secret != "tool-login" || !strings.Contains(r.Reason, "refresh_token_reused") {
			t.Errorf("%+v", r)
		}
		r := w.record(t, "the request", func(r spec.NetworkRecord) bool { return r.Event == spec.NetworkRequest && r.Status == 401 })
		if r.Verdict != spec.VerdictError || r.Secret != "tool-login" || !strings.Contains(r.Reason, "the login of the host has ended") {
			t.Errorf("%+v", r)
		}
		w.realless(t)
	})
	for name, c := range map[string]struct {
		prepare func(*testing.T, *provider, *oauthfile.File)
		want    string
	}{
		"broken": {func(_ *testing.T, p *provider, _ *oauthfile.File) { p.fail = 500 }, "status 500"},
		"dead": {func(_ *testing.T, _ *provider, f *oauthfile.File) {
			f.How.Endpoint = "https://auth.example.com:1/oauth/token"
		}, "connection refused"},
		"nowhere": {func(_ *testing.T, _ *provider, f *oauthfile.File) {
			f.How.Endpoint = "https://nowhere.example.com/oauth/token"
		}, "host not found"},
		"plain": {func(_ *testing.T, p *provider, f *oauthfile.File) {
			f.How.Endpoint = fmt.Sprintf("http://auth.example.com:%d/oauth/token", p.port)
		}, "no usable endpoint"},
		"stranger": {func(t *testing.T, _ *provider, f *oauthfile.File) {
			o := newOrigin(t, true, func(http.ResponseWriter, *http.Request) { t.Error("somebody asked") })
			f.How.Endpoint = fmt.Sprintf("https://auth.example.com:%d/oauth/token", o.port)
		}, "certificate"},
		"no token": {func(_ *testing.T, p *provider, _ *oauthfile.File) { p.fail = 204 }, "status 204"},
		"readable": {func(t *testing.T, _ *provider, f *oauthfile.File) { must(t, os.Chmod(f.Path, 0o644)) }, "mode is 0644"},
		"link": {func(t *testing.T, _ *provider, f *oauthfile.File) {
			must(t, os.Rename(f.Path, f.Path+"2"))
			must(t, os.Symlink(f.Path+"2", f.Path))
		}, "symbolic link"},
		"garbage": {func(t *testing.T, _ *provider, f *oauthfile.File) {
			must(t, os.WriteFile(f.Path, []byte("REALREAL"), 0o600))
		}, "not a JSON object"},
		"logged out": {func(t *testing.T, _ *provider, f *oauthfile.File) { must(t, os.Remove(f.Path)) }, "no login exists"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t)
			f := p.signIn(t, 1, time.Now().Add(-time.Minute))
			loans := p.loan(t, f)
			w := start(t, document(t, 1, "allow: [api.example.com, auth.example.com]\n"), loginHosts, p.trusting)
			c.prepare(t, p, &f)
			loans[0].Login.How = f.How
			must(t, w.SetLoans(loans))
			status, text := p.call(t, w, w.client(t, false))
			if status != 401 || !strings.Contains(text, "the login of the host") || !strings.Contains(text, "log in again on the host: tool login") || strings.Contains(text, filepath.Dir(f.Path)) {
				t.Errorf("%d %s", status, text)
			}
			for _, network := range []string{"x509", "certificate", "connection", "does not answer", "no host", "resolver"} {
				if strings.Contains(text, network) {
					t.Errorf("the inside hears of the network of the host: %s", text)
				}
			}
			if r := w.renewal(t); r.Verdict != spec.VerdictError || !strings.Contains(r.Reason, c.want) {
				t.Errorf("%+v", r)
			}
			if n := len(p.requests()); strings.Contains(strings.Join(p.requests(), " "), "/v1") {
				t.Errorf("%d requests arrived", n)
			}
			w.realless(t)
		})
	}
}

// TestLoginOutlivesTokenServer checks that a dead token server does not matter while the token is
// good.
func TestLoginOutlivesTokenServer(t *testing.T) {
	p := newProvider(t)
	p.fail = 503
	w := p.lends(t, p.signIn(t, 1, time.Now().Add(soon)))
	c := w.client(t, false)
	for range 3 {
		if status, text := p.call(t, w, c); status != 200 {
			t.Errorf("%d %s", status, text)
		}
	}
	if asked, _ := p.counts(); asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// TestLoginIsWrittenLater checks that tokens that could not be written are not lost: the server has
// forgotten the earlier ones.
func TestLoginIsWrittenLater(t *testing.T) {
	p := newProvider(t)
	f := p.signIn(t, 1, time.Now().Add(-time.Minute))
	in := filepath.Join(f.Path+".bothy", "in") // the directory that files are written through
	p.asking(func() { _ = os.MkdirAll(in, 0o700) })
	w := p.lends(t, f)
	c := w.client(t, false)
	if status, text := p.call(t, w, c); status != 401 {
		t.Errorf("%d %s", status, text)
	}
	must(t, os.RemoveAll(filepath.Dir(in)))
	time.Sleep(readPause)
	if status, text := p.call(t, w, c); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	d, err := f.Read()
	must(t, err)
	if asked, reused := p.counts(); asked != 1 || reused != 0 || d.Refresh != refresh(2) {
		t.Errorf("asked %d times, %d with a used token, and the file has %s", asked, reused, d.Refresh)
	}
	w.realless(t)
}

// TestLoginOutlivesClient checks that tokens survive a client that goes away, and the end of the
// sandbox.
func TestLoginOutlivesClient(t *testing.T) {
	p := newProvider(t)
	ctx, leave := context.WithCancel(t.Context())
	p.asking(func() { leave(); time.Sleep(300 * time.Millisecond) }) // meanwhile the sandbox ends
	f := p.signIn(t, 1, time.Now().Add(-time.Minute))
	w := p.lends(t, f)
	c := w.client(t, false)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://api.example.com:%d/", p.port), nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+accessStandIn)
	resp, err := c.Do(req)
	if err == nil {
		resp.Body.Close()
		t.Error("there was an answer")
	}
	w.Close()
	d, err := f.Read()
	must(t, err)
	if asked, _ := p.counts(); asked != 1 || d.Access != access(2) {
		t.Errorf("asked %d times, the file has %s", asked, d.Access)
	}
}

// TestLoginEndsWithGateway checks that a sandbox that ends does not wait for a server that it has
// not even reached.
func TestLoginEndsWithGateway(t *testing.T) {
	p := newProvider(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // whose handshake never comes
	must(t, err)
	t.Cleanup(func() { silent.Close() })
	f := p.signIn(t, 1, time.Now().Add(-time.Minute))
	_, port, err := net.SplitHostPort(silent.Addr().String())
	must(t, err)
	f.How.Endpoint = "https://auth.example.com:" + port + "/oauth/token"
	w := p.lends(t, f)
	c := w.client(t, false)
	began := time.Now()
	var wg sync.WaitGroup
	wg.Go(func() {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://api.example.com:%d/", p.port), nil)
		req.Header.Set("Authorization", "Bearer "+accessStandIn)
		if resp, err := c.Do(req); err == nil {
			resp.Body.Close()
		}
	})
	conn, err := silent.Accept()
	must(t, err)
	defer conn.Close()
	w.Close()
	if d := time.Since(began); d >= renewTime {
		t.Errorf("it took %v", d)
	}
	c.CloseIdleConnections()
	wg.Wait()
}

// TestLoginOutlivesRefusedLoans checks that a refused change of loans leaves the earlier loans,
// with the value in force and the renewal under way.
func TestLoginOutlivesRefusedLoans(t *testing.T) {
	for name, change := range map[string]func([]wire.Loan) []wire.Loan{
		"without it": func(l []wire.Loan) []wire.Loan {
			l[0].Login = nil
			return l
		},
		"with another value": func(l []wire.Loan) []wire.Loan {
			l[0].Value = wire.Value(access(9))
			return l
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t)
			asked, answer := p.holds(t)
			f := p.signIn(t, 1, time.Now().Add(soon))
			w := p.lends(t, f)
			c := w.client(t, false)
			var wg sync.WaitGroup
			wg.Go(func() {
				if status, text := p.call(t, w, c); status != 200 {
					t.Errorf("%d %s", status, text)
				}
			})
			<-asked // it is renewed now
			loans := change(p.loan(t, f))
			if err := w.SetLoans(append(loans, loans[0])); err == nil { // one placeholder for two
				t.Error("the loans were taken")
			}
			w.logins.mu.Lock()
			if h := w.logins.held[f.Path]; h == nil || h.Access != access(1) {
				t.Errorf("held is %+v", h)
			}
			w.logins.mu.Unlock()
			close(answer)
			wg.Wait()
			if status, text := p.call(t, w, c); status != 200 {
				t.Errorf("%d %s", status, text)
			}
			if asked, _ := p.counts(); asked != 1 {
				t.Errorf("asked %d times", asked)
			}
		})
	}
}

// TestLoginTakenBackMeanwhile checks a login that was made inside and taken back meanwhile: the server's
// tokens for it do not stay on the disk. The tokens of a login of the host stay.
func TestLoginTakenBackMeanwhile(t *testing.T) {
	for _, inside := range []bool{true, false} {
		p := newProvider(t)
		asked, answer := p.holds(t)
		f := p.signIn(t, 1, time.Now().Add(-time.Minute))
		if inside {
			f.Inside, f.Seal = true, &wire.Seal{Key: make([]byte, sealedfile.KeySize), Sealed: "the key, sealed"}
			_, err := f.SealClear(t.Context())
			must(t, err)
		}
		w := p.lends(t, f)
		loans := p.loan(t, f)
		c := w.client(t, false)
		var wg sync.WaitGroup
		wg.Go(func() { p.call(t, w, c) })
		<-asked
		loans[0].Taken = true
		must(t, w.SetLoans(loans))
		close(answer)
		w.renewal(t)
		wg.Wait()
		if d, err := f.Read(); inside != errors.Is(err, oauthfile.ErrNone) || err == nil && d.Access != access(2) {
			t.Errorf("inside %v: %v", inside, err)
		}
	}
}

// TestLoginTakenBack checks that nothing is renewed for a lease after it is taken back.
func TestLoginTakenBack(t *testing.T) {
	p := newProvider(t)
	f := p.signIn(t, 1, time.Now().Add(-time.Minute))
	w := p.lends(t, f)
	must(t, w.SetLoans(p.loan(t, f)))
	w.SetPolicy(document(t, 2, "inspect: all\nallow: [api.example.com, auth.example.com]\n"))
	loans := p.loan(t, f)
	loans[0].Taken = true
	must(t, w.SetLoans(loans))
	c := w.client(t, false)
	status, text := p.call(t, w, c)
	if status != 403 || !strings.Contains(text, "taken back: bothy secret lease tool-login --sandbox box, on") {
		t.Errorf("%d %s", status, text)
	}
	status, text, _ = fetch(t, c, "POST", p.how().Endpoint, strings.NewReader(fmt.Sprintf(`{"refresh_token":%q}`, refreshStandIn)), "Content-Type", "application/json")
	if status != 403 || !strings.Contains(text, "placeholder of secret tool-login") || !strings.Contains(text, "taken back: bothy secret lease") {
		t.Errorf("%d %s", status, text)
	}
	if asked, _ := p.counts(); asked != 0 {
		t.Errorf("asked %d times", asked)
	}
}
