package inject

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

const (
	value        = "sk-ant-api03-REAL-8xN2vK9wT4rY7uI0oP3aS6dF1gH5jL8zX2cV4b"
	placeholder  = "sk-ant-api03-FAKE-Zq0Zq1Zq2Zq3Zq4Zq5Zq6Zq7Zq8Zq9Zr0Zr1Zr"
	value2       = "ghp_REAL6C7e42F292c6912E7710c838347Ae17"
	placeholder2 = "ghp_FAKEzzzzyyyyxxxxwwwwvvvvuuuuttttsssr"
)

func lend(change func(*wire.Loan)) wire.Loan {
	l := wire.Loan{Lease: spec.Lease{
		ID: "l1", Secret: "anthropic", Hosts: []string{"api.example.com:443"}, Place: spec.Place{Kind: spec.PlaceBearer}, Placeholder: placeholder,
	}, Value: wire.Value(value)}
	if change != nil {
		change(&l)
	}
	return l
}

// valueless returns a loan without its value.
func valueless(l wire.Loan) wire.Loan {
	l.Value = nil
	return l
}

// github is another secret, lent for another host.
func github() wire.Loan {
	return wire.Loan{Lease: spec.Lease{
		ID: "l2", Secret: "github", Hosts: []string{"git.example.org"}, Place: spec.Place{Kind: spec.PlaceBasic}, Placeholder: placeholder2,
	}, Value: wire.Value(value2)}
}

func compile(t testing.TB, loans ...wire.Loan) *Set {
	t.Helper()
	s, err := Compile("box", loans)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var api = Target{Name: "api.example.com", Port: 443, Secure: true}

// request reads a request as a server does.
func request(t testing.TB, method, target string, body io.Reader, header ...string) *http.Request {
	t.Helper()
	r := httptest.NewRequest(method, target, body)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// sent returns everything of a request that would leave.
func sent(t testing.TB, r *http.Request) string {
	t.Helper()
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		return b.String() + " ERROR " + err.Error()
	}
	return b.String()
}

func refused(err error) *Refused {
	r, _ := errors.AsType[*Refused](err)
	return r
}

// TestExchange checks that the placeholder is exchanged in its place.
func TestExchange(t *testing.T) {
	tests := []struct {
		name   string
		place  spec.Place
		target string
		header []string
		want   string // a line that is sent
	}{
		{"bearer", spec.Place{Kind: spec.PlaceBearer}, "/", []string{"Authorization", "Bearer " + placeholder}, "Authorization: Bearer " + value + "\r\n"},
		{"bearer in small letters", spec.Place{Kind: spec.PlaceBearer}, "/", []string{"Authorization", "bearer  " + placeholder}, "Authorization: bearer " + value + "\r\n"},
		{"token, as GitHub has it", spec.Place{Kind: spec.PlaceBearer}, "/", []string{"Authorization", "token " + placeholder}, "Authorization: token " + value + "\r\n"},
		{"basic", spec.Place{Kind: spec.PlaceBasic}, "/", []string{"Authorization", basic("x-access-token", placeholder)}, "Authorization: " + basic("x-access-token", value) + "\r\n"},
		{"basic with a user", spec.Place{Kind: spec.PlaceBasic, User: "me"}, "/", []string{"Authorization", basic("mallory", placeholder)}, "Authorization: " + basic("me", value) + "\r\n"},
		{"basic without a password", spec.Place{Kind: spec.PlaceBasic}, "/", []string{"Authorization", basic(placeholder, "")}, "Authorization: " + basic(value, "") + "\r\n"},
		{"basic, GitHub's way", spec.Place{Kind: spec.PlaceBasic}, "/", []string{"Authorization", basic(placeholder, "x-oauth-basic")}, "Authorization: " + basic(value, "x-oauth-basic") + "\r\n"},
		{"basic, twice", spec.Place{Kind: spec.PlaceBasic}, "/", []string{"Authorization", basic(placeholder, placeholder)}, "Authorization: " + basic(value, value) + "\r\n"},
		{"authorization, bearer", spec.Place{Kind: spec.PlaceAuthorization}, "/", []string{"Authorization", "token " + placeholder}, "Authorization: token " + value + "\r\n"},
		{"authorization, basic", spec.Place{Kind: spec.PlaceAuthorization}, "/", []string{"Authorization", basic("me", placeholder)}, "Authorization: " + basic("me", value) + "\r\n"},
		{"header", spec.Place{Kind: spec.PlaceHeader, Name: "x-api-key"}, "/", []string{"X-Api-Key", placeholder}, "X-Api-Key: " + value + "\r\n"},
		{"query", spec.Place{Kind: spec.PlaceQuery, Name: "key"}, "/v1?a=1&key=" + placeholder + "&b=%2f", nil, "GET /v1?a=1&key=" + value + "&b=%2f HTTP/1.1\r\n"},
		{"query, escaped", spec.Place{Kind: spec.PlaceQuery, Name: "key"}, "/v1?k%65y=%73" + placeholder[1:], nil, "GET /v1?k%65y=" + value + " HTTP/1.1\r\n"},
	}
	for _, tt := range tests {
		s := compile(t, lend(func(l *wire.Loan) { l.Place = tt.place }), github())
		r := request(t, "GET", "https://api.example.com"+tt.target, nil, tt.header...)
		uses, err := s.Request(r, api, noon)
		if err != nil || len(uses) != 1 || uses[0] != (Use{Lease: "l1", Secret: "anthropic", Place: tt.place.Kind}) {
			t.Errorf("%s: %+v, %v", tt.name, uses, err)
		}
		if got := sent(t, r); !strings.Contains(got, tt.want) || strings.Contains(got, "FAKE") {
			t.Errorf("%s: sent %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestExchangeTwo checks that two secrets in one request are both exchanged.
func TestExchangeTwo(t *testing.T) {
	second := github()
	second.Hosts, second.Place = []string{"*.example.com"}, spec.Place{Kind: spec.PlaceHeader, Name: "DD-Application-Key"}
	s := compile(t, lend(nil), second)
	r := request(t, "GET", "https://api.example.com/", nil, "Authorization", "Bearer "+placeholder, "Dd-Application-Key", placeholder2)
	uses, err := s.Request(r, api, noon)
	if got := sent(t, r); err != nil || len(uses) != 2 || !strings.Contains(got, value) || !strings.Contains(got, value2) {
		t.Errorf("%v, %v: %q", uses, err, got)
	}
}

// TestC1OtherCredentials checks that the client's own credentials are not sent, with or without the
// lent one (C1).
func TestC1OtherCredentials(t *testing.T) {
	const own = "MALLORYS-OWN-KEY-0000000"
	var header []string
	for _, name := range []string{
		"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "X-Auth-Token", "X-Auth-Key", "X-Amz-Security-Token", "X-Amz-Date",
		"Private-Token", "Job-Token", "Deploy-Token", "Token", "X-GitHub-Token", "X-Github-Otp", "Ocp-Apim-Subscription-Key", "DD-API-KEY", "DD-APPLICATION-KEY",
		"X-Vault-Token", "X-Shopify-Access-Token", "X-Csrf-Token", "X-Goog-Iam-Authorization-Token", "Grpc-Metadata-Authorization", "Grpcgateway-Authorization",
		"X-Ms-Authorization-Auxiliary", "X-Original-Authorization", "X-Forwarded-Authorization", "X-Forwarded-User", "Remote-User", "X-Forwarded-Client-Cert", "X-Ssl-Client-Cert",
		"Xi-Api-Key", "X-Apikey", "Apikey", "X_api_key", "X.Api.Key", "X-Secret", "X-Password", "Signature", "Signature-Input", "Dpop", "Cf-Access-Jwt-Assertion",
		"Cf-Access-Client-Secret", "X-Plex-Token", "X-Session-Token", "X-Access-Key", "X-Hub-Signature-256", "Www-Authenticate-Token", "x-lower-case-token",
	} {
		header = append(header, name, own)
	}
	header = append(header, "Sec-Websocket-Protocol", "realtime, openai-insecure-api-key."+own+", base64url.bearer.authorization.k8s.io."+own, "Connection", "keep-alive, Authorization")
	const query = "?a=1&key=" + own + "&api_key=" + own + "&API-Key=" + own + "&access_token=" + own + "&token=" + own + "&auth=" + own + "&sig=" + own + "&%6bey=" + own +
		"&x;token=" + own + "&token[]=" + own + "&X-Amz-Signature=" + own + "&oauth_signature=" + own + "&client_secret=" + own + "&page_token=2&sort_key=x&author=me"
	keep := []string{
		"Anthropic-Version", "2023-06-01", "Anthropic-Beta", "x", "X-Claude-Code-Session-Id", "s", "Session_id", "c", "X-Stainless-Retry-Count", "0", "Idempotency-Key", "i", "Sec-Websocket-Key", "w",
		"Content-Type", "application/json", "Accept", "*/*", "Git-Protocol", "version=2", "Mcp-Session-Id", "m", "Openai-Organization", "o", "Chatgpt-Account-Id", "a", "X-Goog-Api-Client", "g",
		"Last-Event-Id", "7", "X-Github-Api-Version", "2022-11-28", "Te", "trailers", "If-None-Match", "e",
	}
	for _, l := range []wire.Loan{lend(nil), lend(func(l *wire.Loan) { l.Place = spec.Place{Kind: spec.PlaceHeader, Name: "X-Lent"} })} {
		for _, with := range []bool{true, false} {
			for _, secure := range []bool{true, false} {
				s := compile(t, l)
				r := request(t, "GET", "https://"+own+":"+own+"@api.example.com/v1"+query, nil, append(header, keep...)...)
				r.Trailer = http.Header{"X-Api-Key": {own}}
				if with && secure {
					if l.Place.Kind == spec.PlaceHeader {
						r.Header.Set("X-Lent", placeholder)
					} else {
						r.Header.Set("Authorization", "Bearer "+placeholder)
					}
				}
				to := api
				to.Secure = secure
				uses, err := s.Request(r, to, noon)
				if err != nil || len(uses) != 1 && with && secure {
					t.Fatal(uses, err)
				}
				got := sent(t, r)
				if strings.Contains(got, own) || strings.Contains(got, value) != (with && secure) || r.URL.User != nil || r.Trailer != nil {
					t.Errorf("sent %s", got)
				}
				for i := 0; i < len(keep); i += 2 {
					if r.Header.Get(keep[i]) != keep[i+1] {
						t.Errorf("%s is %q", keep[i], r.Header.Get(keep[i]))
					}
				}
				if got := r.URL.RawQuery; got != "a=1&page_token=2&sort_key=x&author=me" {
					t.Errorf("query %q", got)
				}
				if got := r.Header["Sec-Websocket-Protocol"]; len(got) != 1 || got[0] != "realtime" {
					t.Errorf("subprotocols %q", got)
				}
				if got := r.Header["Connection"]; len(got) != 1 || got[0] != "keep-alive" {
					t.Errorf("connection %q", got)
				}
			}
		}
	}
}

// TestOtherHostsKeepTheirCredentials checks that nothing is removed from requests to other hosts.
func TestOtherHostsKeepTheirCredentials(t *testing.T) {
	s := compile(t, lend(nil))
	r := request(t, "GET", "https://other.example.com/?key=own", nil, "Authorization", "Bearer own", "Cookie", "a=b", "Range", "bytes=0-1", "Accept-Encoding", "br")
	before := sent(t, r)
	uses, err := s.Request(r, Target{Name: "other.example.com", Port: 443, Secure: true}, noon)
	if got := sent(t, r); err != nil || uses != nil || got != before {
		t.Errorf("%v, %v: %q", uses, err, got)
	}
}

// TestC3PlaceholderElsewhere checks that a placeholder for another host is refused, in whatever
// part and spelling (C3).
func TestC3PlaceholderElsewhere(t *testing.T) {
	s := compile(t, lend(nil), github())
	targets := map[string]Target{
		"other.example.com": {Name: "other.example.com", Port: 443, Secure: true},
		"git.example.org":   {Name: "git.example.org", Port: 443, Secure: true}, // another secret's
		"192.0.2.1":         {Addr: netip.MustParseAddr("192.0.2.1"), Port: 443, Secure: true},
	}
	for host, to := range targets {
		for _, e := range encodings {
			p := e.do(placeholder)
			if strings.ContainsAny(p, "\x00\n\r") {
				continue // no part of a head
			}
			for where, make := range map[string]func() *http.Request{
				"header X-Note":  func() *http.Request { return request(t, "GET", "https://"+host+"/", nil, "X-Note", "a "+p+" b") },
				"header Cookie":  func() *http.Request { return request(t, "GET", "https://"+host+"/", nil, "Cookie", "a="+p) },
				"header Referer": func() *http.Request { return request(t, "GET", "https://"+host+"/", nil, "Referer", "https://x/?"+p) },
				"query": func() *http.Request {
					r := request(t, "GET", "https://"+host+"/", nil)
					r.URL.RawQuery = "a=" + p
					return r
				},
				"path": func() *http.Request {
					r := request(t, "GET", "https://"+host+"/", nil)
					r.URL.Path = "/x/" + p
					return r
				},
			} {
				_, err := s.Request(make(), to, noon)
				if f := refused(err); f == nil || f.Where != where || f.Secret != "anthropic" || f.Lease != "l1" || !errors.Is(err, spec.ErrDenied) || strings.Contains(err.Error(), placeholder) {
					t.Errorf("%s: %s in %s: %v", host, e.name, where, err)
				}
			}
		}
		for where, r := range map[string]*http.Request{
			"header Authorization": request(t, "GET", "https://"+host+"/", nil, "Authorization", "Bearer "+placeholder),
			"name of a header":     request(t, "GET", "https://"+host+"/", nil, placeholder, "x"),
			"host":                 request(t, "GET", "https://"+strings.ReplaceAll(placeholder, "_", "-")+"."+host+"/", nil),
			"URL":                  request(t, "GET", "https://"+placeholder+":x@"+host+"/", nil),
			"method":               request(t, placeholder, "https://"+host+"/", nil),
		} {
			_, err := s.Request(r, to, noon)
			if f := refused(err); f == nil || f.Where != where {
				t.Errorf("%s: in %s: %v", host, where, err)
			}
		}
		if _, err := s.Request(request(t, "GET", "https://"+host+"/", nil, "Authorization", basic("me", placeholder)), to, noon); refused(err) == nil {
			t.Errorf("%s: in Basic: %v", host, err)
		}
	}
}

// TestMisplacedOnBoundHost checks that on its own host, too, a placeholder belongs in its place,
// once.
func TestMisplacedOnBoundHost(t *testing.T) {
	s := compile(t, lend(nil), github())
	good := []string{"Authorization", "Bearer " + placeholder}
	for name, r := range map[string]*http.Request{
		"twice":               request(t, "GET", "https://api.example.com/", nil, append(good, good...)...),
		"twice, one other":    request(t, "GET", "https://api.example.com/", nil, append(good, "Authorization", "Bearer own")...),
		"in basic":            request(t, "GET", "https://api.example.com/", nil, "Authorization", basic("me", placeholder)),
		"with more":           request(t, "GET", "https://api.example.com/", nil, "Authorization", "Bearer "+placeholder+", x"),
		"without a scheme":    request(t, "GET", "https://api.example.com/", nil, "Authorization", placeholder),
		"in a credential":     request(t, "GET", "https://api.example.com/", nil, "X-Api-Key", placeholder),
		"in a header besides": request(t, "GET", "https://api.example.com/", nil, append(good, "X-Note", placeholder)...),
		"in the path":         request(t, "GET", "https://api.example.com/"+placeholder, nil, good...),
		"in the query":        request(t, "GET", "https://api.example.com/?key="+placeholder, nil),
		"another secret's":    request(t, "GET", "https://api.example.com/", nil, append(good, "X-Note", placeholder2)...),
		"another's as user":   request(t, "GET", "https://api.example.com/", nil, "Authorization", basic(placeholder2, placeholder)),
		"TRACE":               request(t, "TRACE", "https://api.example.com/", nil, good...),
		"for another host":    request(t, "GET", "https://other.example.com/", nil, good...),
		"upgrade":             request(t, "GET", "https://api.example.com/", nil, append(good, "Connection", "Upgrade", "Upgrade", "h2c")...),
	} {
		if uses, err := s.Request(r, api, noon); refused(err) == nil || uses != nil {
			t.Errorf("%s: %v, %v", name, uses, err)
		}
	}
	s = compile(t, lend(func(l *wire.Loan) { l.Place = spec.Place{Kind: spec.PlaceBasic} }), github())
	for name, auth := range map[string]string{
		"user with another password": basic(placeholder, "own"), "another secret's as user": basic(placeholder2, placeholder), "part of the password": basic("me", placeholder+"x"),
		"no pair": "Basic " + base64.StdEncoding.EncodeToString([]byte(placeholder)),
	} {
		if uses, err := s.Request(request(t, "GET", "https://api.example.com/", nil, "Authorization", auth), api, noon); refused(err) == nil || uses != nil {
			t.Errorf("%s: %v, %v", name, uses, err)
		}
	}
	s = compile(t, lend(func(l *wire.Loan) { l.Place = spec.Place{Kind: spec.PlaceQuery, Name: "key"} }))
	for _, q := range []string{"key=" + placeholder + "&key=own", "key=own&key=" + placeholder, "key=" + placeholder + "x", "key=" + placeholder + ";key=own", "KEY=" + placeholder} {
		r := request(t, "GET", "https://api.example.com/", nil)
		r.URL.RawQuery = q
		if uses, err := s.Request(r, api, noon); refused(err) == nil || uses != nil {
			t.Errorf("%s: %v, %v", q, uses, err)
		}
	}
}

// TestC4OnlyOnTheBoundRoute checks that nothing is exchanged in clear text, on another port, or for
// a name that only looks like the bound one (C4).
func TestC4OnlyOnTheBoundRoute(t *testing.T) {
	s := compile(t, lend(nil))
	for name, to := range map[string]Target{
		"clear":     {Name: "api.example.com", Port: 443},
		"port 80":   {Name: "api.example.com", Port: 80},
		"port 8443": {Name: "api.example.com", Port: 8443, Secure: true},
		"suffix":    {Name: "api.example.com.evil.example", Port: 443, Secure: true},
		"prefix":    {Name: "evilapi.example.com", Port: 443, Secure: true},
		"below":     {Name: "a.api.example.com", Port: 443, Secure: true},
		"address":   {Addr: netip.MustParseAddr("192.0.2.1"), Port: 443, Secure: true},
		"nobody":    {Port: 443, Secure: true},
	} {
		r := request(t, "GET", "https://api.example.com/", nil, "Authorization", "Bearer "+placeholder)
		uses, err := s.Request(r, to, noon)
		if refused(err) == nil || uses != nil || strings.Contains(sent(t, r), value) {
			t.Errorf("%s: %v, %v", name, uses, err)
		}
	}
	r := request(t, "CONNECT", "https://api.example.com/", nil, "Proxy-Authorization", "Bearer "+placeholder)
	if _, err := s.Request(r, Target{Name: "api.example.com", Port: 443}, noon); refused(err) == nil {
		t.Error("in the head of a CONNECT:", err)
	}
}

// TestC8BoundToTheConnection checks that the connection counts, not the host that the client writes
// (C8).
func TestC8BoundToTheConnection(t *testing.T) {
	s := compile(t, lend(nil))
	r := request(t, "GET", "https://api.example.com/", nil, "Authorization", "Bearer "+placeholder)
	if _, err := s.Request(r, Target{Name: "evil.example", Port: 443, Secure: true}, noon); refused(err) == nil {
		t.Error(err)
	}
	r = request(t, "GET", "https://evil.example/", nil, "Authorization", "Bearer "+placeholder)
	if _, err := s.Request(r, api, noon); refused(err) == nil || strings.Contains(sent(t, r), value) {
		t.Error(err)
	}
}

// TestC12Ended checks that a lease that has ended or was taken back gives nothing, and that its
// placeholder is still recognised (C12).
func TestC12Ended(t *testing.T) {
	until := lend(func(l *wire.Loan) { l.Until = noon.Add(time.Hour) })
	back := lend(func(l *wire.Loan) { l.Value, l.Taken = nil, true })
	for name, tt := range map[string]struct {
		loan wire.Loan
		now  time.Time
		why  string
	}{
		"ended": {until, noon.Add(time.Hour), "ended"}, "taken back": {back, noon, "taken back"},
		"over at the start": {valueless(until), noon.Add(time.Hour), "ended"},
	} {
		s := compile(t, tt.loan)
		if s.Bound("api.example.com", netip.Addr{}, 443, tt.now) {
			t.Errorf("%s: bound", name)
		}
		r := request(t, "GET", "https://api.example.com/", nil, "Authorization", "Bearer "+placeholder)
		if _, err := s.Request(r, api, tt.now); refused(err) == nil || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: %v", name, err)
		}
		if got := s.Mask("x " + value); (got == "x "+value) != (tt.loan.Value == nil) {
			t.Errorf("%s: masked %q", name, got)
		}
	}
	s := compile(t, until)
	if !s.Bound("api.example.com", netip.Addr{}, 443, noon) {
		t.Error("before its end it is not bound")
	}
	r := request(t, "GET", "https://api.example.com/", nil, "Authorization", "Bearer "+placeholder)
	if uses, err := s.Request(r, api, noon); err != nil || len(uses) != 1 {
		t.Error(uses, err)
	}
}

// TestLendAgain checks a request with the placeholder of a lease that was taken back: its client
// gets the whole command that made the lease.
func TestLendAgain(t *testing.T) {
	for want, change := range map[string]func(*wire.Loan){
		"bothy secret lease anthropic --host api.example.com:443 --bearer --env API_TOKEN --sandbox box,": func(l *wire.Loan) { l.Env = []string{"API_TOKEN"} },
		"bothy secret lease anthropic --host api.example.com:443 --method GET --path '/a/*' --path /b --header x-key --env '' --for TIME --sandbox box,": func(l *wire.Loan) {
			l.Methods, l.Paths, l.Place, l.Until = []string{"GET"}, []string{"/a/*", "/b"}, spec.Place{Kind: spec.PlaceHeader, Name: "x-key"}, noon.Add(time.Hour)
		},
		"bothy secret lease anthropic --host api.example.com:443 --basic '' --env A --env B --sandbox box,": func(l *wire.Loan) {
			l.Place, l.Env = spec.Place{Kind: spec.PlaceBasic}, []string{"A", "B"}
		},
		"bothy secret lease anthropic --host api.example.com:443 --query key --env A --sandbox box,": func(l *wire.Loan) {
			l.Place, l.Env = spec.Place{Kind: spec.PlaceQuery, Name: "key"}, []string{"A"}
		},
		"bothy run --lend github box,": func(l *wire.Loan) { l.Tool, l.Env = "github", []string{"GH_TOKEN"} },
		"log in again":                 func(l *wire.Loan) { l.Captured = "claude" },
	} {
		s := compile(t, lend(func(l *wire.Loan) {
			l.Sandbox, l.Value, l.Taken = "188203b6bc14", nil, true
			change(l)
		}))
		r := request(t, "GET", "https://api.example.com/", nil, "Authorization", "Bearer "+placeholder)
		if _, err := s.Request(r, api, noon); refused(err) == nil || !strings.Contains(err.Error(), "taken back: "+want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestStartedWithout checks that a value that was unavailable at the sandbox's start does not count
// as taken back: lending it again is refused, for the lease exists.
func TestStartedWithout(t *testing.T) {
	s := compile(t, valueless(lend(nil)))
	r := request(t, "GET", "https://api.example.com/", nil, "Authorization", "Bearer "+placeholder)
	want := "the sandbox started without it: bothy inspect box, on the host, says why; when that is mended, bothy stop box: the next start lends it"
	if _, err := s.Request(r, api, noon); refused(err) == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
	if s.Bound("api.example.com", netip.Addr{}, 443, noon) {
		t.Error("it is bound")
	}
}

// TestAnyMethod checks that a lease for some methods does not cover a request that asks for another
// one in its body.
func TestAnyMethod(t *testing.T) {
	s := compile(t, lend(func(l *wire.Loan) { l.Methods = []string{"POST"} }), github())
	for lease, want := range map[string]bool{"l1": false, "l2": true, "l3": true} {
		if err := s.AnyMethod(Uses{{Lease: lease}}); (err == nil) != want {
			t.Errorf("%s: %v", lease, err)
		}
	}
	if err := (*Set)(nil).AnyMethod(nil); err != nil {
		t.Error(err)
	}
}

func TestMethodsAndPaths(t *testing.T) {
	s := compile(t, lend(func(l *wire.Loan) { l.Methods, l.Paths = []string{"GET", "POST"}, []string{"/repos/acme/**"} }))
	for _, tt := range []struct {
		method, path string
		header       []string
		ok           bool
	}{
		{"GET", "/repos/acme/app", nil, true},
		{"POST", "/repos/acme/app/issues?x=1", nil, true},
		{"DELETE", "/repos/acme/app", nil, false},
		{"GET", "/repos/evil/app", nil, false},
		{"GET", "/repos/acme/../evil", nil, false},
		{"GET", "/repos/acme/%2e%2e/evil", nil, false},
		{"GET", "/user", nil, false},
		{"POST", "/repos/acme/app", []string{"X-HTTP-Method-Override", "DELETE"}, false},
		{"GET", "/repos/acme/app?_method=DELETE", nil, false},
		{"GET", "/repos/acme/stream", []string{"Connection", "Upgrade", "Upgrade", "websocket"}, true},
	} {
		r := request(t, tt.method, "https://api.example.com"+tt.path, nil, append(tt.header, "Authorization", "Bearer "+placeholder)...)
		uses, err := s.Request(r, api, noon)
		if ok := err == nil && len(uses) == 1; ok != tt.ok || !ok && refused(err) == nil {
			t.Errorf("%s %s: %v, %v", tt.method, tt.path, uses, err)
		}
	}
}

// TestAskedForReadableAnswers checks that answers are requested in a form that can be read whole.
func TestAskedForReadableAnswers(t *testing.T) {
	s := compile(t, lend(nil))
	for in, want := range map[string]string{
		"": "identity", "gzip, deflate, br, zstd": "gzip", "br": "identity", "gzip;q=0": "identity", "gzip;q=0.000, br": "identity", "*": "identity", "GZIP;q=0.5": "gzip", "zstd, gzip": "gzip",
	} {
		r := request(t, "GET", "https://api.example.com/", nil, "Range", "bytes=0-3", "If-Range", "x", "A-Im", "vcdiff", "Available-Dictionary", "d", "Accept-Charset", "utf-16",
			"Grpc-Accept-Encoding", "gzip", "Sec-Websocket-Extensions", "permessage-deflate")
		if in != "" {
			r.Header.Set("Accept-Encoding", in)
		}
		if _, err := s.Request(r, api, noon); err != nil {
			t.Fatal(err)
		}
		if got := r.Header.Get("Accept-Encoding"); got != want || len(r.Header) != 1 {
			t.Errorf("%q became %q in %v", in, got, r.Header)
		}
	}
}

func TestBound(t *testing.T) {
	s := compile(t, lend(func(l *wire.Loan) { l.Hosts = []string{"api.example.com:443", "*.example.net", "192.0.2.0/24:443"} }))
	for want, list := range map[bool][]Target{
		true: {
			{Name: "api.example.com", Port: 443},
			{Name: "API.example.com.", Port: 443},
			{Name: "a.example.net", Port: 8443},
			{Addr: netip.MustParseAddr("192.0.2.7"), Port: 443},
			{Addr: netip.MustParseAddr("::ffff:192.0.2.7"), Port: 443},
		},
		false: {
			{Name: "api.example.com", Port: 80},
			{Name: "example.net", Port: 443},
			{Name: "a.b.example.net", Port: 443},
			{Name: "xexample.net", Port: 443},
			{Addr: netip.MustParseAddr("192.0.3.7"), Port: 443},
			{Addr: netip.MustParseAddr("192.0.2.7"), Port: 80},
			{Port: 443},
			{Name: "api.example.com"},
		},
	} {
		for _, to := range list {
			if got := s.Bound(to.Name, to.Addr, to.Port, noon); got != want {
				t.Errorf("%+v: %t", to, got)
			}
		}
	}
	if (*Set)(nil).Bound("api.example.com", netip.Addr{}, 443, noon) {
		t.Error("no set is bound")
	}
}

func TestCompileRefuses(t *testing.T) {
	for name, change := range map[string]func(*wire.Loan){
		"short value":            func(l *wire.Loan) { l.Value = wire.Value("1234567") },
		"long value":             func(l *wire.Loan) { l.Value = wire.Value(strings.Repeat("x", maxValue+1)) },
		"value with a line":      func(l *wire.Loan) { l.Value = wire.Value("12345678\n") },
		"value in UTF-8":         func(l *wire.Loan) { l.Value = wire.Value("pässword") },
		"value with a space":     func(l *wire.Loan) { l.Value = wire.Value("password ") },
		"value in placeholder":   func(l *wire.Loan) { l.Value = wire.Value(placeholder[:20]) },
		"placeholder in value":   func(l *wire.Loan) { l.Value = wire.Value("x" + placeholder) },
		"the placeholder itself": func(l *wire.Loan) { l.Value = wire.Value(placeholder) },
		"no placeholder":         func(l *wire.Loan) { l.Placeholder = "" },
		"short placeholder":      func(l *wire.Loan) { l.Placeholder = "123456789012345" },
		"odd placeholder":        func(l *wire.Loan) { l.Placeholder = "123456789 12345678" },
		"escaped placeholder":    func(l *wire.Loan) { l.Placeholder = "1234567890%4112345" },
		"another's placeholder":  func(l *wire.Loan) { l.Placeholder = placeholder2 },
		"within another's":       func(l *wire.Loan) { l.Placeholder = placeholder2[2:] },
		"no host":                func(l *wire.Loan) { l.Hosts = nil },
		"odd host":               func(l *wire.Loan) { l.Hosts = []string{"https://api.example.com"} },
		"everybody":              func(l *wire.Loan) { l.Hosts = []string{"**"} },
		"everybody at a port":    func(l *wire.Loan) { l.Hosts = []string{"**:443"} },
		"a top domain":           func(l *wire.Loan) { l.Hosts = []string{"**.com:443"} },
		"all of one label":       func(l *wire.Loan) { l.Hosts = []string{"*.dev"} },
		"every address":          func(l *wire.Loan) { l.Hosts = []string{"0.0.0.0/0"} },
		"host twice":             func(l *wire.Loan) { l.Hosts = []string{"a.example.com", "a.example.com"} },
		"odd method":             func(l *wire.Loan) { l.Methods = []string{"get"} },
		"odd path":               func(l *wire.Loan) { l.Paths = []string{"repos"} },
		"no place":               func(l *wire.Loan) { l.Place = spec.Place{} },
		"unknown place":          func(l *wire.Loan) { l.Place.Kind = "body" },
		"bearer with a name":     func(l *wire.Loan) { l.Place.Name = "X" },
		"bearer with a user":     func(l *wire.Loan) { l.Place.User = "me" },
		"user with a colon":      func(l *wire.Loan) { l.Place = spec.Place{Kind: spec.PlaceBasic, User: "a:b"} },
		"header without a name":  func(l *wire.Loan) { l.Place = spec.Place{Kind: spec.PlaceHeader} },
		"header with a space":    func(l *wire.Loan) { l.Place = spec.Place{Kind: spec.PlaceHeader, Name: "X Y"} },
		"header Host":            func(l *wire.Loan) { l.Place = spec.Place{Kind: spec.PlaceHeader, Name: "Host"} },
		"header Content-Length":  func(l *wire.Loan) { l.Place = spec.Place{Kind: spec.PlaceHeader, Name: "content-length"} },
		"query with an '='":      func(l *wire.Loan) { l.Place = spec.Place{Kind: spec.PlaceQuery, Name: "a=b"} },
	} {
		s, err := Compile("box", []wire.Loan{lend(change), github()})
		if s != nil || !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%s: %v, %v", name, s, err)
		} else if strings.Contains(err.Error(), "1234567") || strings.Contains(err.Error(), "password") {
			t.Errorf("%s: the value is in %q", name, err)
		}
	}
	if s, err := Compile("box", nil); s != nil || err != nil {
		t.Error(s, err)
	}
}

// TestFind checks that names that are looked up or asked for contain no placeholder either.
func TestFind(t *testing.T) {
	s := compile(t, lend(nil), github())
	for _, name := range []string{placeholder, "a." + strings.ToLower(placeholder) + ".evil.example", tohex(placeholder) + ".example", "x" + url.PathEscape(placeholder)} {
		if f := s.Find("name", name); f == nil || f.Secret != "anthropic" {
			t.Errorf("%q: %v", name, f)
		}
	}
	if f := s.Find("name", "api.example.com"); f != nil {
		t.Error(f)
	}
	if f := (*Set)(nil).Find("name", placeholder); f != nil {
		t.Error(f)
	}
}

func BenchmarkRequest(b *testing.B) {
	s := compile(b, lend(nil), github())
	make := func() *http.Request {
		return request(b, "POST", "https://api.example.com/v1/messages?beta=true", nil, "Authorization", "Bearer "+placeholder, "Anthropic-Version", "2023-06-01", "Anthropic-Beta", "a,b,c",
			"User-Agent", "claude-cli/2.1.197 (external, sdk-cli)", "Content-Type", "application/json", "Accept", "application/json", "X-Stainless-Lang", "js", "X-Stainless-Os", "Linux",
			"Accept-Encoding", "gzip, deflate, br, zstd", "Connection", "keep-alive")
	}
	r := make()
	head := r.Header
	b.ReportAllocs()
	for b.Loop() {
		r.Header = head.Clone()
		if _, err := s.Request(r, api, noon); err != nil {
			b.Fatal(err)
		}
	}
}
