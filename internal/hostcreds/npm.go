package hostcreds

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/npmrc"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// npmjs is npm's own registry.
const npmjs = "registry.npmjs.org"

// findNpm looks where npm does, except in projects: those are not trusted.
func findNpm(s *search) {
	f := s.readToolFile(0)
	stand := map[string]string{}
	all := npmrc.Parse(f.content, s.host.lookup)
	for key := range all {
		stand[key] = f.from
	}
	for key, value := range npmrc.FromEnviron(s.host.Environ) {
		all[key], stand[key] = value, "your environment"
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		at, what, ok := cutSetting(key)
		if !ok {
			continue
		}
		if _, open, missing := strings.Cut(all[key], "${"); missing {
			name, _, _ := strings.Cut(open, "}")
			s.refuse("https:"+at, stand[key], spec.Errorf(nil, "the variable %s is not set", name).WithHint("set it where you call bothy"))
			continue
		}
		if t, ok := npmToken(all, at, what); ok {
			t.From = stand[key]
			s.addToken(t)
		}
	}
}

// cutSetting takes //HOST/PATH/:SETTING apart.
func cutSetting(key string) (at, what string, ok bool) {
	i := strings.LastIndexByte(key, ':')
	if !strings.HasPrefix(key, "//") || i < 0 {
		return "", "", false
	}
	return strings.TrimSuffix(key[:i], "/") + "/", key[i+1:], true
}

func npmToken(all npmrc.Settings, at, what string) (Token, bool) {
	l, err := parseLogin("https:"+at, "")
	if err != nil || l.user != "" {
		return Token{}, false
	}
	if what != "_authToken" && all[at+":_authToken"] != "" { // which npm takes instead
		return Token{}, false
	}
	var line string
	switch what {
	case "_authToken":
		l.password, line = all[at+":"+what], at+":_authToken="+placeholder
	case "_auth":
		user, password, _ := strings.Cut(decodeBase64(all[at+":"+what]), ":")
		l.user, l.password = user, password
	case "_password":
		l.user, l.password = all[at+":username"], decodeBase64(all[at+":"+what])
	}
	if l.password == "" || what != "_authToken" && l.user == "" || l.userIsToken() {
		return Token{}, false
	}
	return l.withNpmSettings(all, at, line), true
}

// withNpmSettings is the login as npm's settings inside: the registry's line, and those that name its
// packages.
func (l login) withNpmSettings(all npmrc.Settings, at, line string) Token {
	t := l.toToken()
	if line != "" {
		t.Terms.Place = &spec.Place{Kind: spec.PlaceBearer}
		t.addNpmLine(line)
	} else {
		t.addNpmLine(at + ":username=" + l.user)
		t.addNpmLine(at + ":_password=" + encodedPlaceholder)
	}
	if t.Host == npmjs {
		t.Service = "npm"
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		scope, isScope := strings.CutSuffix(key, ":registry")
		if key != "registry" && !(isScope && strings.HasPrefix(scope, "@")) {
			continue
		}
		u, password, more, err := parseAddress(all[key])
		if err != nil || u.user+password != "" || more || u.host != l.at.host || vault.SecretIn(u.path) {
			continue
		}
		if u.scheme != "https" {
			t.Err = errNoTLS
		}
		t.addNpmLine(key + "=" + u.String())
	}
	return t
}

func (t *Token) addNpmLine(line string) {
	t.Terms.Settings = append(t.Terms.Settings, spec.Setting{Kind: spec.SettingNpm, Text: line})
}

func decodeBase64(s string) string {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return ""
	}
	return string(b)
}
