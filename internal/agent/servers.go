package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// Servers are MCP servers by name, each in the form of the agent's configuration.
type Servers map[string]json.RawMessage

// ReadServers returns the MCP servers in a configuration file, in JSON or TOML. It reads the global ones
// and those of a project; if names are equal, the project's count. It also returns the names of those
// withheld, which may contain a secret: a sandbox must not get them.
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
		if err := json.Unmarshal(list, &servers); err != nil { // merged into the earlier ones
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

// jsonServers returns the value at a path of members in a JSON configuration, or nil if it is missing.
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

// AddServers returns the text of a file of this name with servers added under a key. Existing ones stay.
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
