package pull

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/bothy-dev/bothy/internal/fetch"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// login adds the credentials that a registry asks for to its requests, one at a time. Requests that follow
// a redirect to another host go without.
type login struct {
	next       http.RoundTripper
	host       string
	scopes     []string // scopes of the requested token
	credential credential

	authorization string
}

func (l *login) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != l.host {
		return l.next.RoundTrip(r)
	}
	resp, err := l.sendRequest(r)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	challenges := resp.Header.Values("WWW-Authenticate")
	answered, err := l.answer(r.Context(), challenges)
	if err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	if !answered {
		return resp, nil
	}
	_ = resp.Body.Close()
	if r, err = rewindRequest(r); err != nil {
		return nil, err
	}
	return l.sendRequest(r)
}

func (l *login) sendRequest(r *http.Request) (*http.Response, error) {
	if l.authorization != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", l.authorization)
	}
	return l.next.RoundTrip(r)
}

// rewindRequest copies a sent request with its body rewound to the start.
func rewindRequest(r *http.Request) (*http.Request, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return r, nil
	}
	if r.GetBody == nil {
		return nil, errors.New("the registry asked for a login too late")
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body = body
	return r, nil
}

// answer gets the credentials for a registry's challenge.
func (l *login) answer(ctx context.Context, challenges []string) (answered bool, err error) {
	for _, c := range challenges {
		scheme, rest, _ := strings.Cut(c, " ")
		with := ""
		switch {
		case l.credential.access != "":
			with = "Bearer " + l.credential.access
		case strings.EqualFold(scheme, "basic") && l.credential.user != "":
			with = basicAuth(l.credential)
		case strings.EqualFold(scheme, "bearer"):
			token, err := l.requestToken(ctx, parameters(rest))
			if err != nil {
				return false, err
			}
			with = "Bearer " + token
		}
		if with == "" {
			continue
		}
		fresh := with != l.authorization
		l.authorization = with
		return fresh, nil
	}
	return false, nil
}

func basicAuth(c credential) string {
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth(c.user, c.password)
	return r.Header.Get("Authorization")
}

// parameters reads KEY="VALUE",… of a challenge.
func parameters(text string) map[string]string {
	out := map[string]string{}
	for text != "" {
		key, rest, ok := strings.Cut(text, "=")
		if !ok {
			break
		}
		var value string
		if rest, quoted := strings.CutPrefix(rest, `"`); quoted {
			value, text, _ = strings.Cut(rest, `"`)
			_, text, _ = strings.Cut(text, ",")
		} else {
			value, text, _ = strings.Cut(rest, ",")
		}
		out[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
	}
	return out
}

// requestToken asks the token server that the registry names for a token.
func (l *login) requestToken(ctx context.Context, p map[string]string) (string, error) {
	realm, err := url.Parse(p["realm"])
	if err != nil || realm.Host == "" {
		return "", fmt.Errorf("%s does not say who gives out tokens", l.host)
	}
	ctx, cancel := context.WithTimeout(ctx, fetch.Patience)
	defer cancel()
	r, err := l.tokenRequest(ctx, realm, p["service"])
	if err != nil {
		return "", err
	}
	resp, err := (&http.Client{Transport: l.next, CheckRedirect: fetch.CheckRedirect}).Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return "", errStatus(realm.Host, resp.StatusCode, "tokens")
	}
	text, err := store.ReadAll(resp.Body, maxToken)
	var answer struct {
		Token  string `json:"token"`
		Access string `json:"access_token"`
	}
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	token := cmp.Or(answer.Token, answer.Access)
	if err != nil || token == "" {
		return "", spec.Errorf(nil, "%s gives no token that can be read", realm.Host)
	}
	return token, nil
}

func (l *login) tokenRequest(ctx context.Context, realm *url.URL, service string) (*http.Request, error) {
	q := url.Values{"service": {service}, "scope": l.scopes}
	if l.credential.identity != "" {
		q.Set("scope", strings.Join(l.scopes, " "))
		for key, value := range map[string]string{"grant_type": "refresh_token", "refresh_token": l.credential.identity, "client_id": "bothy"} {
			q.Set(key, value)
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, realm.String(), io.NopCloser(strings.NewReader(q.Encode())))
		if err == nil {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		return r, err
	}
	maps.Copy(q, realm.Query())
	address := *realm
	address.RawQuery = q.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), http.NoBody)
	if err == nil && l.credential.user != "" {
		r.SetBasicAuth(l.credential.user, l.credential.password)
	}
	return r, err
}
