package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/vault"
)

// Servers are MCP servers by their names, each as an agent's configuration has
// it.
type Servers map[string]json.RawMessage

// ReadServers gives the MCP servers that stand in a file of this name under a key, in
// JSON or TOML, and the names of those that are withheld: what is brought into a sandbox
// may hold no secret, and these may.
func ReadServers(file string, data []byte, key string) (servers Servers, withheld []string, err error) {
	entries := jsonServers
	if isTOML(file) {
		entries = tomlServers
	}
	list, err := entries(data, key)
	if list == nil || err != nil {
		return nil, nil, err
	}
	if err := json.Unmarshal(list, &servers); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", key, err)
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

// jsonServers gives what stands under a key of a configuration in JSON; nil if nothing
// does.
func jsonServers(data []byte, key string) (json.RawMessage, error) {
	var doc map[string]json.RawMessage
	err := json.Unmarshal(data, &doc)
	return doc[key], err
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

// confidential tells whether a word of a command has a secret in it, or one may
// stand beside it.
func confidential(word string) bool {
	lower := strings.ToLower(word)
	if lower == "-p" || lower == "--pat" {
		return true
	}
	return slices.ContainsFunc([]string{"key", "token", "secret", "pass", "pwd", "auth", "credential", "bearer"}, func(sign string) bool {
		return strings.Contains(lower, sign)
	}) || strings.Contains(word, "://") && strings.Contains(word, "@") || vault.SecretIn(word)
}

// harmless tells whether an entry certainly holds no secret: nothing in it is
// unknown, nothing is where secrets are put.
func harmless(entry json.RawMessage) bool {
	var s server
	d := json.NewDecoder(strings.NewReader(string(entry)))
	d.DisallowUnknownFields()
	if d.Decode(&s) != nil || len(s.Env)+len(s.Environment)+len(s.Headers) > 0 {
		return false
	}
	words := slices.Clone(s.Args)
	if len(s.Command) > 0 {
		var one string
		var list []string
		if json.Unmarshal(s.Command, &one) != nil && json.Unmarshal(s.Command, &list) != nil {
			return false
		}
		words = append(append(words, one), list...)
	}
	if strings.ContainsAny(s.URL+s.HTTPURL, "@?#") || vault.SecretIn(s.URL) || vault.SecretIn(s.HTTPURL) {
		return false
	}
	return !slices.ContainsFunc(words, confidential)
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
