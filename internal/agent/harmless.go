package agent

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/vault"
)

// server has the fields of an entry that by their meaning contain no secret.
type server struct {
	Type     string          `json:"type"`
	Command  json.RawMessage `json:"command"` // a text, or a list with the arguments
	Args     []string        `json:"args"`
	URL      string          `json:"url"`
	HTTPURL  string          `json:"httpUrl"`
	Dir      string          `json:"cwd"`
	Timeout  float64         `json:"timeout"`
	Enabled  bool            `json:"enabled"`
	Disabled bool            `json:"disabled"`

	Allowed []string `json:"tools"` // Copilot's: the tools that it may use

	// Codex's.
	StartTimeout float64  `json:"startup_timeout_sec"`
	ToolTimeout  float64  `json:"tool_timeout_sec"`
	Required     bool     `json:"required"`
	Tools        []string `json:"enabled_tools"`
	NoTools      []string `json:"disabled_tools"`

	Env         map[string]any `json:"env"`         // must be empty
	Environment map[string]any `json:"environment"` // likewise
	Headers     map[string]any `json:"headers"`     // likewise
}

// confidential reports whether a word of a command looks like a secret, or as if the next word may be
// one. It names a secret, is an option for one, or is the address of a server with one.
func confidential(word string) bool {
	lower := strings.ToLower(word)
	has := func(signs ...string) bool {
		return slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(lower, sign) })
	}
	switch {
	case word == "-H", lower == "-p", lower == "-k", lower == "--pat":
		return true
	case has("key", "token", "secret", "pass", "pwd", "auth", "credential", "bearer"):
		return true
	case strings.HasPrefix(word, "-") && has("dsn", "conn", "header", "cookie"):
		return true
	}
	return assigns(word) || hasUser(word) || hasQuery(word) || vault.SecretIn(word)
}

// hasQuery reports whether a word is a URL with more than a path, where keys often are.
func hasQuery(word string) bool {
	_, rest, ok := strings.Cut(word, "://")
	return ok && strings.ContainsAny(rest, "?#")
}

// hasUser reports whether a word contains USER:PASSWORD@SERVER, or is a URL with a user. A package may
// have its scope or version after a colon: npm:@acme/tasks@1.2.
func hasUser(word string) bool {
	if _, rest, ok := strings.Cut(word, "://"); ok {
		if server, _, _ := strings.Cut(rest, "/"); strings.Contains(server, "@") {
			return true
		}
	}
	for rest := word; ; {
		before, after, ok := strings.Cut(rest, ":")
		if !ok {
			return false
		}
		rest = after
		registry := strings.HasSuffix(before, "npm") || strings.HasSuffix(before, "jsr")
		if i := strings.IndexByte(rest, '@'); i > 0 && !registry && !strings.HasPrefix(rest, "//") {
			return true
		}
	}
}

// namesUser reports whether an option is followed by USER:PASSWORD, in the same word or the next. A user
// alone is not a secret, and the -u of python takes no user.
func namesUser(words []string) bool {
	for i, word := range words {
		value, ok := userIn(word)
		if ok && value == "" && i+1 < len(words) {
			value = words[i+1]
		}
		if ok && strings.Contains(value, ":") {
			return true
		}
	}
	return false
}

// userIn returns the value of an option for a user in the same word: --user=me, -ume, and
// curl's -sSume.
func userIn(word string) (value string, ok bool) {
	if option, value, _ := strings.Cut(word, "="); strings.HasPrefix(option, "--") {
		return value, strings.HasSuffix(option, "user")
	}
	rest, short := strings.CutPrefix(word, "-")
	switches, value, ok := strings.Cut(rest, "u")
	if !ok {
		switches, value, ok = strings.Cut(rest, "U") // for a proxy
	}
	return value, ok && short && strings.Trim(switches, "sSfFLkivgN") == ""
}

// harmless reports whether nothing in an entry looks like a secret, is unknown, or is in a place for
// secrets. It cannot detect a secret that looks like a word, in a place for words.
func harmless(entry json.RawMessage) bool {
	var s server
	d := json.NewDecoder(strings.NewReader(string(entry)))
	d.DisallowUnknownFields()
	if d.Decode(&s) != nil || len(s.Env)+len(s.Environment)+len(s.Headers) > 0 {
		return false
	}
	program, err := s.program()
	if err != nil || strings.ContainsAny(s.URL+s.HTTPURL, "@?#") {
		return false
	}
	names := slices.Concat([]string{s.URL, s.HTTPURL, s.Type, s.Dir}, s.Allowed, s.Tools, s.NoTools)
	return !slices.ContainsFunc(names, vault.SecretIn) && harmlessCommand(append(program, s.Args...))
}

func (s *server) program() (words []string, err error) {
	var one string
	switch {
	case len(s.Command) == 0:
		return nil, nil
	case json.Unmarshal(s.Command, &one) == nil:
		return []string{one}, nil
	}
	err = json.Unmarshal(s.Command, &words)
	return words, err
}

// Harmless reports whether nothing in a command looks like a secret, as far as that is possible: it cannot
// detect a secret that looks like a word.
func Harmless(command []string) bool { return harmlessCommand(command) }
