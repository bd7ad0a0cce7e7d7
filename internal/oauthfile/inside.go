package oauthfile

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// never is the expiry of a placeholder login: no program inside is to renew it.
var never = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// Inside is the content of the file in the sandbox. It has only the members that the
// description names; whatever else the program keeps beside its login stays out.
func (d *Document) Inside(access, refresh string) ([]byte, error) {
	all := map[string]any{}
	for _, pointer := range d.how.Keep {
		if v := valueAt(d.all, pointer); v != nil {
			setValue(all, pointer, v)
		}
	}
	setValue(all, d.how.Access, access)
	setValue(all, d.how.Refresh, refresh)
	if d.how.Expires != "" {
		setValue(all, d.how.Expires, never.UnixMilli())
	}
	if d.how.Renewed != "" {
		setValue(all, d.how.Renewed, never.Format(time.RFC3339))
	}
	if d.how.Identity != "" {
		if token, ok := valueAt(d.all, d.how.Identity).(string); ok {
			// The signature is not checked, and every start is to write the same.
			setValue(all, d.how.Identity, standIn(token, d.how.Claims, "unsigned"))
		}
	}
	return encode(all, d.indent)
}

// StandIn makes a placeholder of the access token, if that is a JWT. The placeholder has
// the claims that the description lists, and expires late.
func (d *Document) StandIn() (token string, ok bool) {
	if claims(d.Access) == nil {
		return "", false
	}
	return standIn(d.Access, d.how.Claims, rand.Text()+rand.Text()), true
}

// StandInIdentity returns the placeholder for an ID token.
func (d *Document) StandInIdentity(token string) string {
	return standIn(token, d.how.Claims, "unsigned")
}

// standIn returns a JWT with some of the claims of another.
func standIn(token string, keep []string, signature string) string {
	from, to := claims(token), map[string]any{}
	for _, pointer := range keep {
		if v := valueAt(from, pointer); v != nil {
			setValue(to, pointer, v)
		}
	}
	to["exp"] = never.Unix()
	body, _ := json.Marshal(to) // it was decoded from JSON before
	e := base64.RawURLEncoding
	return e.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + e.EncodeToString(body) + "." + signature
}

// claims returns the claims of a JWT, nil for other tokens. It does not check the
// signature; that is up to the receiver.
func claims(token string) map[string]any {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	body, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return nil
	}
	all, err := decodeObject(body)
	if err != nil {
		return nil
	}
	return all
}

// expiry returns the time at which a JWT expires; zero if it has none or is not a JWT.
func expiry(token string) time.Time {
	n, ok := claims(token)["exp"].(json.Number)
	if !ok {
		return time.Time{}
	}
	f, err := n.Float64()
	if err != nil || f <= 0 || f > 1e12 {
		return time.Time{}
	}
	return time.Unix(int64(f), 0)
}
