package agent

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

func isTOML(file string) bool { return strings.HasSuffix(file, ".toml") }

// tomlServers returns the value at a path of tables in a TOML configuration, converted to JSON, or nil
// if it is missing.
func tomlServers(data []byte, path []string) (json.RawMessage, error) {
	var at any
	if err := toml.Unmarshal(data, &at); err != nil {
		return nil, err
	}
	for _, name := range path {
		table, ok := at.(map[string]any)
		if !ok || table[name] == nil {
			return nil, nil
		}
		at = table[name]
	}
	return json.Marshal(at)
}

// addTOML appends servers to a TOML configuration. Existing ones with the same name stay.
func addTOML(text, key string, servers Servers) (string, error) {
	var doc map[string]any
	if err := toml.Unmarshal([]byte(text), &doc); err != nil {
		return "", err
	}
	has, _ := doc[key].(map[string]any)
	if doc[key] != nil && has == nil {
		return "", fmt.Errorf("%s is not a table", key)
	}
	more := map[string]any{}
	for name, entry := range servers {
		if has[name] != nil {
			continue
		}
		var values map[string]any
		d := json.NewDecoder(strings.NewReader(string(entry)))
		d.UseNumber() // 10 is not 10.0
		if err := d.Decode(&values); err != nil {
			return "", err
		}
		more[name] = tomlValue(values)
	}
	if len(more) == 0 {
		return text, nil
	}
	added, err := toml.Marshal(map[string]any{key: more})
	if err != nil {
		return "", err
	}
	text = strings.TrimRight(text, "\n") + "\n\n" + string(added)
	return text, toml.Unmarshal([]byte(text), &doc) // an inline table cannot be added to
}

// tomlValue converts numbers to types of TOML, and drops nulls.
func tomlValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if x == nil {
				delete(v, k)
				continue
			}
			v[k] = tomlValue(x)
		}
	case []any:
		for i, x := range v {
			v[i] = tomlValue(x)
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	}
	return v
}
