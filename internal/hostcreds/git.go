package hostcreds

import (
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// findGit looks where git's helper "store" keeps credentials, and where libcurl finds them without a
// helper.
func findGit(s *search) {
	var list []login
	for n := range 2 {
		f := s.readToolFile(n)
		for line := range strings.Lines(f.content) {
			l, err := parseLogin(strings.TrimSpace(line), f.from)
			if err == nil && l.user != "" && l.password != "" { // as git, which skips the others
				list = append(list, l)
			}
		}
	}
	f := s.readToolFile(2)
	for _, m := range parseNetrc(f.content) {
		l, err := parseLogin("https://"+m.name, f.from)
		if err == nil && m.login != "" && m.password != "" {
			l.user, l.password = m.login, m.password
			list = append(list, l)
		}
	}
	asked := map[string]bool{} // without a user in the URL the first counts
	for _, l := range list {
		t := l.toToken()
		at := l.at
		if asked[at.String()] && !l.userIsToken() {
			at.user = l.user
		}
		asked[l.at.String()] = true
		user, password := l.user, placeholder
		if l.userIsToken() {
			user, password = placeholder, l.password
		}
		t.Terms.Settings = []spec.Setting{gitSetting(at.String(), user, password)}
		s.addToken(t)
	}
}

// gitSetting makes git ask a helper that returns the placeholder of a credential for a URL.
func gitSetting(address, user, password string) spec.Setting {
	return spec.Setting{
		Kind: spec.SettingGit, Name: "credential." + strings.TrimSuffix(address, "/") + ".helper",
		Text: `!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' ` + shellQuote(user) + " " + shellQuote(password) + `; }; f`,
	}
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
