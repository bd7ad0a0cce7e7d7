package tokenrefresh

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
	"github.com/bothy-dev/bothy/internal/oauthfile"
	"github.com/bothy-dev/bothy/spec"
)

// Client asks servers for tokens.
type Client struct {
	Dialer *dial.Dialer
	Roots  *x509.CertPool   // authorities that must vouch for servers; nil: the host's
	Now    func() time.Time // nil: the host's
	// Judge returns why a server must not be asked by POST at an address; nil: each may be.
	Judge func(*url.URL) error

	mu   sync.Mutex
	dead map[string]dead // by the path of the login
	kept map[string]kept // likewise
}

// dead is a refresh token that a server no longer accepts. It is not used again.
type dead struct {
	token string
	why   *Refused
}

func (c *Client) currentTime() time.Time {
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

// askServer gets new tokens for a refresh token. Its errors contain no text of the server's but its code:
// the text may repeat a token.
func (c *Client) askServer(ctx context.Context, how *spec.AgentLogin, refresh string) (oauthfile.Grant, error) {
	body, kind, err := question(how, refresh)
	if err != nil {
		return oauthfile.Grant{}, err
	}
	ctx, end := committed(ctx)
	defer end()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, how.Endpoint, bytes.NewReader(body))
	if err != nil || r.URL.Scheme != "https" {
		return oauthfile.Grant{}, errors.New("its description has no usable endpoint")
	}
	if c.Judge != nil {
		if err := c.Judge(r.URL); err != nil {
			return oauthfile.Grant{}, err
		}
	}
	r.GetBody = nil // it is sent once: a token may be valid only once
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "bothy")
	transport := c.transport()
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(r) // it follows no redirects
	if err != nil {
		return oauthfile.Grant{}, &Unreachable{silence(r.URL.Host, err)}
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil || len(text) > maxAnswer {
		return oauthfile.Grant{}, &Unreachable{fmt.Errorf("%s gives no answer that can be read", r.URL.Host)}
	}
	g, err := granted(resp.StatusCode, text)
	if refused, ok := errors.AsType[*Refused](err); ok && quotes(refused.Code, refresh, how.ClientSecret) {
		refused.Code = ""
	}
	return g, err
}

// quotes reports whether a word contains one of some secrets, or a long part of one.
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

// committed is a context that ends with another until a connection exists. From then on the server
// may have taken the token: its answer is awaited.
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

// anywhere lets a server have any address: its certificate proves whose it is, and the inside has
// no influence on the address.
func anywhere(netip.AddrPort) error { return nil }

// Unreachable reports that no server answers, and why. The reason reveals the host's network.
type Unreachable struct{ Err error }

func (u *Unreachable) Error() string { return u.Err.Error() }
func (u *Unreachable) Unwrap() error { return u.Err }

// silence returns why no server answers.
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
func granted(status int, text []byte) (oauthfile.Grant, error) {
	var a struct {
		Error json.RawMessage `json:"error"`
	}
	if g, ok := Given(text); ok && status == http.StatusOK {
		return g, nil
	}
	_ = json.Unmarshal(text, &a)
	switch {
	case status == http.StatusBadRequest, status == http.StatusUnauthorized, status == http.StatusForbidden && errorCode(a.Error) != "":
		return oauthfile.Grant{}, &Refused{Status: status, Code: errorCode(a.Error)}
	}
	return oauthfile.Grant{}, fmt.Errorf("the server gives no tokens (status %d)", status)
}

// Given reads the tokens of an answer. The access token is required.
func Given(text []byte) (oauthfile.Grant, bool) {
	var a struct {
		Access   string          `json:"access_token"`
		Refresh  string          `json:"refresh_token"`
		Identity json.RawMessage `json:"id_token"`
		Lifetime json.RawMessage `json:"expires_in"`
	}
	if json.Unmarshal(text, &a) != nil || a.Access == "" {
		return oauthfile.Grant{}, false
	}
	g := oauthfile.Grant{Access: a.Access, Refresh: a.Refresh, Lifetime: lifetime(a.Lifetime)}
	_ = json.Unmarshal(a.Identity, &g.Identity) // the other tokens are good without it
	return g, true
}

// lifetime reads a number of seconds, which some servers write as text; zero for none. The tokens
// are good whatever their stated lifetime.
func lifetime(raw json.RawMessage) time.Duration {
	const longest = 100 * 365 * 24 * time.Hour
	var n json.Number // accepts both
	if json.Unmarshal(raw, &n) != nil {
		return 0
	}
	seconds, err := n.Float64()
	if err != nil {
		return 0
	}
	return time.Duration(min(max(seconds, 0), longest.Seconds())) * time.Second
}

// errorCode returns a server's name for an error: a word, or an object that contains one.
func errorCode(raw json.RawMessage) string {
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
