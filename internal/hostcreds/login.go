package hostcreds

import (
	"errors"

	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// login is a user and a password at a server.
type login struct {
	at             address // without them
	user, password string
	from           string
}

// parseLogin reads a URL that may have a user and a password in it.
func parseLogin(text, from string) (login, error) {
	at, password, _, err := parseAddress(text)
	l := login{at: at, user: at.user, password: password, from: from}
	l.at.user = ""
	return l, err
}

// noPassword is the password in use where the user name is a token.
const noPassword = "x-oauth-basic"

// toToken turns a login into a token to lend, without the settings for tools inside.
func (l login) toToken() Token {
	t := Token{Host: l.at.host, From: l.from, Value: wire.Value(l.password)}
	t.Terms.Place = &spec.Place{Kind: spec.PlaceBasic, User: l.user}
	at := l.at
	switch {
	case l.userIsToken():
		t.Value, t.Terms.Place.User = wire.Value(l.user), ""
	case vault.SecretIn(l.user):
		t.Err = errors.New("its user name looks like a token")
	default:
		at.user = l.user
	}
	if l.at.scheme != "https" {
		t.Err = errNoTLS
	}
	if vault.SecretIn(l.at.path) {
		t.Err, at.path = errors.New("its address has a part that looks like a token"), ""
	}
	t.For, t.Terms.Hosts = at.String(), []string{l.at.target()}
	return t
}

func (l login) userIsToken() bool {
	return l.user != "" && (l.password == "" || l.password == noPassword)
}

// placeholderURL is the login's URL, with the placeholder in place of the token.
func (l login) placeholderURL() string {
	userinfo := escape(l.user) + ":" + placeholder
	if l.userIsToken() {
		userinfo = placeholder + ":" + l.password
	}
	return l.at.scheme + "://" + userinfo + "@" + l.at.host + l.at.path
}

// In a setting, these stand for the lease's placeholder, and for the placeholder in base64.
const (
	placeholder        = "{placeholder}"
	encodedPlaceholder = "{placeholder:base64}"
)

// mistake is the reason why something is not lent.
type mistake string

func (m mistake) Error() string { return string(m) }

const errNoTLS = mistake("it is not used over TLS")
