package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// Servers are MCP servers by their names, each as an agent's configuration has
// it.
type Servers map[string]json.RawMessage

// ReadServers gives the MCP servers that stand in a file of configuration, in JSON or TOML,
// for everything and for a project, of which those are meant where names are the same, and
// the names of those that are withheld: what is brought into a sandbox may hold no secret,
// and these may.
func ReadServers(at *spec.AgentServers, data []byte, project string) (servers Servers, withheld []string, err error) {
	paths := [][]string{{at.Key}}
	if at.Projects != "" && project != "" {
		paths = append(paths, []string{at.Projects, project, at.Key})
	}
	entries := jsonServers
	if isTOML(at.File) {
		entries = tomlServers
	}
	for _, path := range paths {
		list, err := entries(data, path)
		if err != nil {
			return nil, nil, err
		}
		if list == nil {
			continue
		}
		if err := json.Unmarshal(list, &servers); err != nil { // beside those before
			return nil, nil, fmt.Errorf("%s: %w", strings.Join(path, "."), err)
		}
	}
	for name, entry := range servers {
		if !harmless(entry) {
			withheld = append(withheld, name)
			delete(servers, name)
		}
	}
	slices.Sort(withheld)
	return servers, withheld, nil
}

// jsonServers gives what a path of members leads to in a configuration in JSON; nil if it
// leads to nothing.
func jsonServers(data []byte, path []string) (json.RawMessage, error) {
	for _, name := range path {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(data, &members); err != nil {
			return nil, err
		}
		if members[name] == nil {
			return nil, nil
		}
		data = members[name]
	}
	return data, nil
}

// server is what of an entry holds no secret by its meaning.
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

	Allowed []string `json:"tools"` // Copilot's: which it may use

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

// confidential tells whether a word of a command looks like a secret, or as if one may
// stand beside it: it names one, is where one is put, or leads to a server with one.
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
	return isAssignment(word) || hasUser(word) || vault.SecretIn(word)
}

// isAssignment tells one of a variable: what is in a command's environment is as
// confidential as if it stood under env.
func isAssignment(word string) bool {
	for _, option := range []string{"--env=", "-e=", "-e"} {
		word = strings.TrimPrefix(word, option)
	}
	name, value, ok := strings.Cut(word, "=")
	return ok && value != "" && name != "" && name[0] >= 'A' && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == ""
}

// hasUser tells a word with USER:PASSWORD@SERVER in it, or a URL with a user. A package
// may have its scope or version behind a colon: npm:@acme/tasks@1.2.
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

// namesUser tells an option with USER:PASSWORD behind it, in the same word or the next. A
// user alone is no secret, and python -u takes none.
func namesUser(words []string) bool {
	for i, word := range words {
		option, value, _ := strings.Cut(word, "=")
		if option == "--user" && value == "" && i+1 < len(words) || word == "-u" && i+1 < len(words) {
			value = words[i+1]
		} else if option != "--user" {
			value, _ = strings.CutPrefix(word, "-u")
			if value == word {
				continue
			}
		}
		if strings.Contains(value, ":") {
			return true
		}
	}
	return false
}

// harmless tells whether nothing in an entry looks like a secret, is unknown, or stands where
// secrets are put. A secret that looks like a word, and stands where words do, is not told
// from one.
func harmless(entry json.RawMessage) bool {
	var s server
	d := json.NewDecoder(strings.NewReader(string(entry)))
	d.DisallowUnknownFields()
	if d.Decode(&s) != nil || len(s.Env)+len(s.Environment)+len(s.Headers) > 0 {
		return false
	}
	var words []string
	if len(s.Command) > 0 {
		var one string
		if json.Unmarshal(s.Command, &words) != nil {
			if json.Unmarshal(s.Command, &one) != nil {
				return false
			}
			words = []string{one}
		}
	}
	words = append(words, s.Args...)
	if strings.ContainsAny(s.URL+s.HTTPURL, "@?#") {
		return false
	}
	names := slices.Concat([]string{s.URL, s.HTTPURL, s.Type, s.Dir}, s.Allowed, s.Tools, s.NoTools)
	return !slices.ContainsFunc(names, vault.SecretIn) && !slices.ContainsFunc(words, confidential) && !namesUser(words)
}

// AddServers gives the text of a file of this name with servers under a key. Those it
// has already stay.
func AddServers(file, text, key string, servers Servers) (string, error) {
	if len(servers) == 0 {
		return text, nil
	}
	if isTOML(file) {
		return addTOML(text, key, servers)
	}
	doc := map[string]json.RawMessage{}
	if strings.TrimSpace(text) != "" {
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			return "", err
		}
	}
	all := maps.Clone(servers)
	if doc[key] != nil {
		if err := json.Unmarshal(doc[key], &all); err != nil {
			return "", fmt.Errorf("%s: %w", key, err)
		}
	}
	b, err := json.Marshal(all)
	if err != nil {
		return "", err
	}
	doc[key] = b
	if b, err = json.Marshal(doc); err != nil {
		return "", err
	}
	return string(b), nil
}
