package hostcreds

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/goccy/go-yaml"

	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

const github = "github.com"

// findGitHub looks for tokens in the same places and order as gh.
func findGitHub(s *search) {
	for _, name := range s.tool.Variables {
		if v, ok := s.host.lookup(name); ok {
			s.addToken(gitHub("$"+name, v, nil))
			return
		}
	}
	f := s.readToolFile(0)
	if f.content == "" {
		return
	}
	accounts := map[string]ghAccount{}
	if yaml.Unmarshal([]byte(f.content), &accounts) != nil { // the error would quote the file
		s.refuse("", f.from, errors.New("it does not have the form that gh writes"))
		return
	}
	for _, host := range slices.Sorted(maps.Keys(accounts)) {
		a := accounts[host]
		switch value := a.tokenValue(); {
		case host != github:
			s.refuse("https://"+host, f.from, spec.Errorf(nil, "only that of %s is lent", github).
				WithHint("bothy secret set NAME --command 'gh auth token --hostname %s', and bothy secret lease NAME --host %s --bearer --env GH_ENTERPRISE_TOKEN", host, host))
		case value != "":
			s.addToken(gitHub(f.from, value, nil))
		default:
			s.addToken(gitHub(fmt.Sprintf("the desktop's keyring, as %s says", f.from), "", []string{"gh", "auth", "token", "--hostname", github}))
		}
	}
}

// ghAccount is gh's entry for a host. Whether a token is above or beside its user depends
// on the version of gh. If both are empty, the token is in the keyring.
type ghAccount struct {
	Token string `yaml:"oauth_token"`
	User  string `yaml:"user"`
	Users map[string]struct {
		Token string `yaml:"oauth_token"`
	} `yaml:"users"`
}

func (a ghAccount) tokenValue() string {
	if a.Token != "" {
		return a.Token
	}
	return a.Users[a.User].Token
}

func gitHub(from, value string, command []string) Token {
	service := vault.FindService("github")
	return Token{
		For: "https://" + github, Host: github, From: from, Value: wire.Value(value), Command: command, Service: service.Name,
		Terms: vault.Terms{
			Hosts: append(slices.Clone(service.Hosts), github+":443"),
			// gh gives git the same token as the API.
			Place: &spec.Place{Kind: spec.PlaceAuthorization}, Env: service.Env,
			Settings: []spec.Setting{gitSetting("https://"+github, "x-access-token", placeholder)},
		},
	}
}
