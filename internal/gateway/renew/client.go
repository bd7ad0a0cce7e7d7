package renew

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/dial"
	"github.com/bothy-dev/bothy/internal/login"
	"github.com/bothy-dev/bothy/spec"
)

// Client asks servers for tokens.
type Client struct {
	Dialer *dial.Dialer
	Roots  *x509.CertPool   // whom servers must be vouched for by; nil: the host's
	Now    func() time.Time // nil: the host's
	// Judge gives why a server must not be asked by POST at an address; nil: each may be.
	Judge func(*url.URL) error

	mu   sync.Mutex
	dead map[string]dead // by the path of the login
	kept map[string]kept // likewise
}

// dead is a refresh token that a server will not have any more. It is not asked
// again.
type dead struct {
	token string
	why   *Refused
}

func (c *Client) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

// Bounds of a server's answer.
const (
	maxAnswer = 256 << 10 // bytes
	maxCode   = 64
)

// ask gets new tokens for a refresh token. What goes wrong is told without a word
// of the server's, which may repeat a token, but its code.
func (c *Client) ask(ctx context.Context, how *spec.AgentLogin, refresh string) (login.Grant, error) {
	body, kind, err := question(how, refresh)
	if err != nil {
		return login.Grant{}, err
	}
	ctx, end := committed(ctx)
	defer end()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, how.Endpoint, bytes.NewReader(body))
	if err != nil || r.URL.Scheme != "https" {
		return login.Grant{}, errors.New("its description has no usable endpoint")
	}
	if c.Judge != nil {
		if err := c.Judge(r.URL); err != nil {
			return login.Grant{}, err
		}
	}
	r.GetBody = nil // it is sent once: a token may be good for a single time
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "bothy")
	transport := c.transport()
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(r) // which follows nobody elsewhere
	if err != nil {
		return login.Grant{}, &Unreachable{silence(r.URL.Host, err)}
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil || len(text) > maxAnswer {
		return login.Grant{}, &Unreachable{fmt.Errorf("%s gives no answer that can be read", r.URL.Host)}
	}
	g, err := granted(resp.StatusCode, text)
	if refused, ok := errors.AsType[*Refused](err); ok && quotes(refused.Code, refresh, how.ClientSecret) {
		refused.Code = ""
	}
	return g, err
}

// quotes tells whether a word has one of some secrets in it, or a long part of one.
func quotes(word string, secrets ...string) bool {
	const long = 8
	for _, s := range secrets {
		for n := min(long, len(s)); n > 0 && n <= len(s); s = s[1:] {
			if strings.Contains(word, s[:n]) {
				return true
			}
		}
	}
	return false
}

// answerTime bounds the wait for an answer.
const answerTime = 15 * time.Second

// committed is a context that ends with another until there is a connection. From
// then on the server may have taken the token: its answer is waited for.
func committed(ctx context.Context) (context.Context, context.CancelFunc) {
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	var decided atomic.Bool
	stop := context.AfterFunc(ctx, func() {
		if decided.CompareAndSwap(false, true) {
			cancel()
		}
	})
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { decided.Store(true) }}
	return httptrace.WithClientTrace(own, trace), func() { stop(); cancel() }
}

// question is the request of RFC 6749, section 6, or the same in JSON.
func question(how *spec.AgentLogin, refresh string) (body []byte, kind string, err error) {
	said := map[string]string{"grant_type": "refresh_token", "refresh_token": refresh, "client_id": how.Client}
	if how.ClientSecret != "" {
		said["client_secret"] = how.ClientSecret
	}
	if how.Form == spec.FormJSON {
		body, err = json.Marshal(said)
		return body, "application/json", err
	}
	form := url.Values{}
	for name, value := range said {
		form.Set(name, value)
	}
	return []byte(form.Encode()), "application/x-www-form-urlencoded", nil
}

func (c *Client) transport() *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			n, err := strconv.ParseUint(port, 10, 16)
			if err != nil {
				return nil, err
			}
			return c.Dialer.Name(ctx, strings.TrimSuffix(host, "."), uint16(n), anywhere)
		},
		TLSClientConfig:   &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true,
	}
}

// anywhere lets a server have any address: whose it is its certificate says, and
// nobody inside has a word in which it is.
func anywhere(netip.AddrPort) error { return nil }

// Unreachable says that nobody answers, and why. That tells of the network of the
// host.
type Unreachable struct{ Err error }

func (u *Unreachable) Error() string { return u.Err.Error() }
func (u *Unreachable) Unwrap() error { return u.Err }

// silence says why nobody answers.
func silence(host string, err error) error {
	if why := dial.Silence(host, host, err); why != nil {
		return why
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s does not answer in time", host)
	}
	return fmt.Errorf("%s does not answer as a server does", host)
}

// granted reads the answer of RFC 6749, section 5.
func granted(status int, text []byte) (login.Grant, error) {
	var a struct {
		Error json.RawMessage `json:"error"`
	}
	if g, ok := Given(text); ok && status == http.StatusOK {
		return g, nil
	}
	_ = json.Unmarshal(text, &a)
	switch {
	case status == http.StatusBadRequest, status == http.StatusUnauthorized, status == http.StatusForbidden && code(a.Error) != "":
		return login.Grant{}, &Refused{Status: status, Code: code(a.Error)}
	}
	return login.Grant{}, fmt.Errorf("the server gives no tokens (status %d)", status)
}

// Given reads the tokens of an answer, of which the access token must be there.
func Given(text []byte) (login.Grant, bool) {
	var a struct {
		Access   string          `json:"access_token"`
		Refresh  string          `json:"refresh_token"`
		Identity json.RawMessage `json:"id_token"`
		Lifetime json.RawMessage `json:"expires_in"`
	}
	if json.Unmarshal(text, &a) != nil || a.Access == "" {
		return login.Grant{}, false
	}
	g := login.Grant{Access: a.Access, Refresh: a.Refresh, Lifetime: lifetime(a.Lifetime)}
	_ = json.Unmarshal(a.Identity, &g.Identity) // without it the others are good
	return g, true
}

// lifetime reads a number of seconds, which some servers write as text; zero for
// none. The tokens are good whatever is said of their end.
func lifetime(raw json.RawMessage) time.Duration {
	const longest = 100 * 365 * 24 * time.Hour
	var n json.Number // is both
	if json.Unmarshal(raw, &n) != nil {
		return 0
	}
	seconds, err := n.Float64()
	if err != nil {
		return 0
	}
	return time.Duration(min(max(seconds, 0), longest.Seconds())) * time.Second
}

// code is what a server calls an error: a word, or an object that has one.
func code(raw json.RawMessage) string {
	var word string
	if json.Unmarshal(raw, &word) != nil {
		var object struct{ Code, Type string }
		_ = json.Unmarshal(raw, &object)
		word = object.Code
		if word == "" {
			word = object.Type
		}
	}
	if len(word) > maxCode || strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-") != "" {
		return ""
	}
	return word
}
