package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/inject"
	"github.com/bothy-dev/bothy/internal/gateway/tokenrefresh"
	"github.com/bothy-dev/bothy/internal/oauthfile"
	"github.com/bothy-dev/bothy/spec"
)

// Capture keeps on the host the login that a program inside is given.
type Capture struct {
	At   *inject.Endpoint // where it is given
	Pass []string         // members of the answer that come in as they are
	// Keep keeps tokens. When it returns, their placeholders are exchanged: the placeholders of the
	// lease, and identity for the ID token. It is called concurrently.
	Keep func(context.Context, oauthfile.Grant) (lease *spec.Lease, identity string, err error)
}

// captures reports whether the answer to a request may be a login to keep. It returns false while a
// login of the host is lent for the same server: then no program inside needs to log in.
func (i *Inspector) captures(r *http.Request, x *exchange) bool {
	to := i.target(x.conn.host)
	return i.conf.Capture != nil && i.conf.Capture.At.Answers(r, to) && !x.secrets.LendsLogin(to, time.Now())
}

// maxGiven bounds an answer with tokens, in bytes.
const maxGiven = 256 << 10

// errGiven is of class answers that complete no login. Errors of this class contain nothing of the
// host's, so the inside sees them.
var errGiven = errors.New("what the server gave is not kept, and so not passed on")

// capture keeps the tokens of an answer, and answers with their placeholders. It returns false for
// answers without tokens. An answer that may have tokens but is not understood, or cannot be kept,
// is not passed on: an unknown token inside is worse than no login.
func (i *Inspector) capture(ctx context.Context, w *answer, r *http.Request, x *exchange, resp *http.Response) bool {
	if s := resp.StatusCode; s != http.StatusSwitchingProtocols && (s < 200 || s > 299) {
		return false
	}
	body, err := i.keepTokens(ctx, resp, x)
	if err != nil {
		x.refuse(err.Error())
		x.record.Verdict = spec.VerdictError
		i.conf.Log(x.captured(err.Error()), &x.decision)
		if !errors.Is(err, errGiven) {
			err = errors.New("the login could not be kept: bothy secret audit says why, on the host")
		}
		i.sayToken(w, r, http.StatusBadGateway, map[string]any{"error": "server_error", "error_description": "bothy: " + err.Error()})
		return true
	}
	i.conf.Log(x.captured("a login inside, kept on the host"), &x.decision)
	i.sayToken(w, r, http.StatusOK, body)
	return true
}

// captured returns the record of a captured login.
func (x *exchange) captured(why string) spec.NetworkRecord {
	record := x.record
	record.Event, record.Reason = spec.NetworkRenewal, why
	if record.Verdict == "" {
		record.Verdict = spec.VerdictAllow
	}
	return record
}

// keepTokens keeps the tokens of an answer, and returns the answer for the inside: of the server's answer
// it contains only members that are known not to be secret.
func (i *Inspector) keepTokens(ctx context.Context, resp *http.Response, x *exchange) (map[string]any, error) {
	text, err := readTokens(resp)
	if err != nil {
		return nil, err
	}
	g, ok := tokenrefresh.Given(text)
	if !ok || g.Refresh == "" {
		return nil, fmt.Errorf("%w: it is not a login with a token for requests and one that renews it", errGiven)
	}
	lease, identity, err := i.conf.Capture.Keep(ctx, g)
	switch {
	case errors.Is(err, oauthfile.ErrNoToken):
		return nil, fmt.Errorf("%w: %w", errGiven, oauthfile.ErrNoToken)
	case errors.Is(err, oauthfile.ErrLoggedIn):
		return nil, fmt.Errorf("%w: %w", errGiven, err)
	}
	if err != nil {
		return nil, err
	}
	x.record.Lease, x.record.Secret = lease.ID, lease.Secret
	body := i.passed(text, g.Identity)
	body["access_token"], body["refresh_token"], body["token_type"] = lease.Placeholder, lease.Renewal, "Bearer"
	body["expires_in"], body["refresh_token_expires_in"] = int64(lasting/time.Second), int64(lasting/time.Second)
	if identity != "" {
		body["id_token"] = identity
	}
	return body, nil
}

// passed returns the members of an answer that come in, without the tokens that are lent now, and
// without the ID token.
func (i *Inspector) passed(text []byte, identity string) map[string]any {
	all, out := map[string]json.RawMessage{}, map[string]any{}
	_ = json.Unmarshal(text, &all) // it was read already
	secrets, mask := i.conf.Secrets(), inject.TokenMask(identity)
	for _, name := range i.conf.Capture.Pass {
		if masked := mask(secrets.Mask(string(all[name]))); json.Valid([]byte(masked)) {
			out[name] = json.RawMessage(masked)
		}
	}
	return out
}

// readTokens reads an answer in JSON.
func readTokens(resp *http.Response) ([]byte, error) {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK || kind != "application/json" {
		return nil, fmt.Errorf("%w: the answer has the status %d, and is not 200 in JSON", errGiven, resp.StatusCode)
	}
	r, err := inject.Plain(resp)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errGiven, err)
	}
	text, err := io.ReadAll(io.LimitReader(r, maxGiven+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: the answer breaks off", errGiven)
	case len(text) > maxGiven:
		return nil, fmt.Errorf("%w: the answer has more than %d bytes", errGiven, maxGiven)
	}
	return text, nil
}
