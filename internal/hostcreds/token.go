// Package hostcreds finds the tokens with which tools of the host log in to servers, in the
// places where those tools look: gh, git, npm and pip. It reports which tokens could be
// lent and on which terms. It lends nothing itself.
//
// The files belong to the user, but programs in a sandbox may have written some of them,
// and a token is worth much. So a file counts only if no other user can write it, it is not
// a symbolic link, and it is not large. For a refused file the package reports the reason.
package hostcreds

import (
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Tool is a program whose tokens are known.
type Tool struct {
	Name, Title string
	// Variables have precedence over Files. For each file, the first path whose variable is
	// set counts; ~ is the home directory.
	Variables []string
	Files     [][]string
	// None is the message if no token is found, and Get says how to get one. If Get is
	// empty, a login with the tool brings a token.
	None, Get string

	find func(*search)
}

// Tools are the known tools.
var Tools = []Tool{
	{
		Name: "github", Title: "GitHub's API, for gh and others, and git at github.com",
		Variables: []string{"GH_TOKEN", "GITHUB_TOKEN"},
		Files:     [][]string{{"$GH_CONFIG_DIR/hosts.yml", "$XDG_CONFIG_HOME/gh/hosts.yml", "~/.config/gh/hosts.yml"}},
		find:      findGitHub,
	},
	{
		Name: "git", Title: "git over HTTPS",
		Files: [][]string{{"~/.git-credentials"}, {"$XDG_CONFIG_HOME/git/credentials", "~/.config/git/credentials"}, {"~/.netrc"}},
		find:  findGit,
	},
	{
		Name: "npm", Title: "registries of npm and pnpm",
		Files: [][]string{{"$NPM_CONFIG_USERCONFIG", "$npm_config_userconfig", "~/.npmrc"}},
		find:  findNpm,
	},
	{
		Name: "pip", Title: "indexes of pip and uv",
		Variables: []string{"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL"},
		Files: [][]string{
			{"$PIP_CONFIG_FILE"}, {"$XDG_CONFIG_HOME/pip/pip.conf", "~/.config/pip/pip.conf"}, {"~/.pip/pip.conf"}, {"$NETRC", "~/.netrc"},
		},
		find: findPip,
	},
	{
		Name: "ssh", Title: "your SSH agent, for logins at servers that may be reached",
		Variables: []string{"SSH_AUTH_SOCK"},
		None:      "no SSH agent is known here: SSH_AUTH_SOCK is not set",
		Get:       `start one, and give it a key: eval "$(ssh-agent)"; ssh-add`,
		find:      findAgent,
	},
	{
		Name: "ssh-sign", Title: "your SSH agent, for signatures over commits and tags of git",
		Variables: []string{"SSH_AUTH_SOCK"},
		None:      "no SSH agent is known here: SSH_AUTH_SOCK is not set",
		Get:       `start one, and give it a key: eval "$(ssh-agent)"; ssh-add`,
		find:      findSigner,
	},
}

// Names returns the names of the tools.
func Names() (names []string) {
	for _, t := range Tools {
		names = append(names, t.Name)
	}
	return names
}

// Token is a tool's token for a server, or the reason why it cannot be lent.
type Token struct {
	Tool string
	// For is where the tool uses it: a URL, with the user and without the token. It
	// identifies the token among those of a tool, now and later.
	For string
	// Host is that of For, with its port unless that is 443.
	Host  string
	From  string // where it was found, for people
	Value wire.Value
	// Command prints the value, if Value is empty.
	Command []string
	// Service is the vault's service for the placeholder's shape; it may be empty.
	Service string
	Terms   vault.Terms
	Err     error
}

// Choice selects tokens: those of a tool, for all servers or for one.
type Choice struct{ Tool, Host string }

// ParseChoices reads TOOL and TOOL:HOST, also several with commas between them.
func ParseChoices(words []string) ([]Choice, error) {
	var list []Choice
	for _, word := range words {
		for w := range strings.SplitSeq(word, ",") {
			tool, host, _ := strings.Cut(strings.TrimSpace(w), ":")
			if !slices.Contains(Names(), tool) {
				return nil, spec.Errorf(spec.ErrUsage, "no tokens of %q are known", tool).
					WithHint("there are %s; bothy secret sources shows what this host has", strings.Join(Names(), ", "))
			}
			list = append(list, Choice{tool, strings.TrimSuffix(strings.ToLower(host), ":443")})
		}
	}
	return list, nil
}

// Meant reports whether a choice includes the token.
func (c Choice) Meant(t *Token) bool {
	return c.Tool == t.Tool && (c.Host == "" || c.Host == t.Host)
}

func (c Choice) String() string { return strings.TrimSuffix(c.Tool+":"+c.Host, ":") }

// Find looks for the tokens of the named tools, or of all. The result includes tokens that
// cannot be lent, with the reason.
func Find(h Host, tools ...string) []Token {
	var all []Token
	for _, t := range Tools {
		if len(tools) > 0 && !slices.Contains(tools, t.Name) {
			continue
		}
		s := &search{host: h, tool: t}
		t.find(s)
		for i := range s.found {
			s.found[i].checkLendable()
		}
		all = append(all, s.found...)
	}
	return all
}

// checkLendable makes sure that a token can be lent unchanged.
func (t *Token) checkLendable() {
	if t.Err != nil {
		t.Value, t.Command = nil, nil
		return
	}
	t.Terms.Tool = t.Tool
	if t.Terms.Env == nil {
		t.Terms.Env = []string{} // none, rather than the usual ones of the service
	}
	err := t.Terms.Check()
	if err == nil && t.Command == nil {
		t.Value, err = vault.CleanValue(t.Value)
	}
	if err != nil {
		t.Err, t.Value, t.Command = err, nil, nil
	}
}

type search struct {
	host  Host
	tool  Tool
	found []Token
}

// addToken adds a token. An earlier one for the same place has precedence.
func (s *search) addToken(t Token) {
	t.Tool = s.tool.Name
	for _, o := range s.found {
		if o.For == t.For && o.Err == nil {
			return
		}
	}
	s.found = append(s.found, t)
}

func (s *search) refuse(at, from string, err error) {
	t := Token{Tool: s.tool.Name, For: at, From: from, Err: err}
	if l, err := parseLogin(at, from); err == nil {
		t.Host = l.at.host
	}
	s.found = append(s.found, t)
}

// text is a file that was read.
type text struct{ from, content string }

// readToolFile returns the n-th file of the tool. A file that cannot be read is recorded; a missing
// one is empty.
func (s *search) readToolFile(n int) text {
	path := s.host.firstPath(s.tool.Files[n])
	if path == "" {
		return text{}
	}
	t := text{from: s.host.Short(path)}
	var err error
	if t.content, err = readFile(path); err != nil {
		s.refuse("", t.from, err)
	}
	return t
}
