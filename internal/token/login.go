package token

import (
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// login is a user and a password at a server.
type login struct {
	url            *url.URL // without them
	user, password string
	from           string
}

// parseLogin reads a URL that may have a user and a password in it.
func parseLogin(address, from string) (login, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Opaque != "" {
		return login{}, errors.New("it is no URL of a server") // err would quote the password
	}
	l := login{url: u, user: u.User.Username(), from: from}
	l.password, _ = u.User.Password()
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.TrimSuffix(strings.ToLower(u.Host), ":443")
	return l, nil
}

// secretPath tells an address with a token in its path, as some servers have it: the
// inside is told addresses.
func secretPath(u *url.URL) bool {
	return slices.ContainsFunc(strings.Split(u.Path, "/"), func(segment string) bool {
		return vault.LooksSecret(segment) || slices.ContainsFunc(strings.FieldsFunc(segment, notAlphanumeric), looksRandom)
	})
}

func notAlphanumeric(r rune) bool {
	return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
}

// looksRandom tells letters and digits that are no word.
func looksRandom(s string) bool {
	return len(s) >= 16 && strings.ContainsAny(s, "0123456789") && strings.Trim(s, "0123456789") != ""
}

// noPassword stands for a password where the user is a token.
const noPassword = "x-oauth-basic"

// token is a login as what is lent. It is not said yet how tools inside hear of it.
func (l login) token() Token {
	t := Token{Host: l.url.Host, From: l.from, Value: wire.Value(l.password)}
	t.Terms.Place = &spec.Place{Kind: spec.PlaceBasic, User: l.user}
	at := *l.url
	switch {
	case l.userIsToken():
		t.Value, t.Terms.Place.User = wire.Value(l.user), ""
	case vault.LooksSecret(l.user):
		t.Err = errors.New("its user name looks like a token")
	case l.user != "":
		at.User = url.User(l.user)
	}
	if l.url.Scheme != "https" {
		t.Err = errNoTLS
	}
	if secretPath(&at) {
		t.Err = errors.New("its address has in it what looks like a token")
		at.Path, at.RawPath = "", ""
	}
	t.For, t.Terms.Hosts = at.String(), []string{target(l.url)}
	return t
}

// userIsToken tells the way to log in by a token alone.
func (l login) userIsToken() bool {
	return l.user != "" && (l.password == "" || l.password == noPassword)
}

// inURL is the login's URL, with the placeholder where the token is.
func (l login) inURL() string {
	u := *l.url
	u.User = nil
	userinfo := url.User(l.user).String() + ":" + placeholder
	if l.userIsToken() {
		userinfo = placeholder + ":" + l.password
	}
	return strings.Replace(u.String(), "://", "://"+userinfo+"@", 1)
}

// What stands in a setting for the placeholder of the lease, and for that in base64.
const (
	placeholder        = "{placeholder}"
	encodedPlaceholder = "{placeholder:base64}"
)

// target is a server as rules of the policy name it.
func target(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port)
}
