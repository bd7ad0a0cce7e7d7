// Package npmrc reads npm's configuration files.
package npmrc

import (
	"encoding/json"
	"strings"
)

// Settings are the lines of npm's configuration, lists joined by ListSeparator.
type Settings map[string]string

// ListSeparator separates the values of a list.
const ListSeparator = "\n"

// Parse reads the subset of the ini format that npm's files use.
func Parse(text string, env func(string) (string, bool)) Settings {
	s, lists := Settings{}, map[string][]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == ';' || line[0] == '#' {
			continue
		}
		if line[0] == '[' {
			break // npm ignores sections
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			value = "true"
		}
		key, value = expand(unquote(strings.TrimSpace(key)), env), expand(unquote(strings.TrimSpace(value)), env)
		if list, ok := strings.CutSuffix(key, "[]"); ok {
			lists[list] = append(lists[list], value)
			continue
		}
		s[key] = value
	}
	for key, values := range lists {
		if s[key] != "" {
			values = append([]string{s[key]}, values...)
		}
		s[key] = strings.Join(values, ListSeparator)
	}
	return s
}

// unquote removes quotes, or, from an unquoted value, escapes and a comment.
func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		plain := s[1 : len(s)-1]
		if s[0] == '"' {
			_ = json.Unmarshal([]byte(s), &plain)
		}
		return plain
	}
	var out strings.Builder
	escaped := false
	for _, r := range s {
		switch {
		case escaped && !strings.ContainsRune(`\;#`, r):
			out.WriteString(`\` + string(r))
		case escaped:
			out.WriteRune(r)
		case r == '\\':
			escaped = true
			continue
		case r == ';' || r == '#':
			return strings.TrimSpace(out.String())
		default:
			out.WriteRune(r)
		}
		escaped = false
	}
	return strings.TrimSpace(out.String())
}

// expand inserts variables: ${NAME}, and ${NAME?}, which is empty if the variable is not set. As with
// npm, ${NAME} stays as it is if it is not set.
func expand(s string, env func(string) (string, bool)) string {
	var out strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "${")
		name, after, closed := strings.Cut(rest, "}")
		out.WriteString(before)
		switch {
		case !ok:
			return out.String()
		case !closed:
			out.WriteString("${" + rest)
			return out.String()
		}
		name, optional := strings.CutSuffix(name, "?")
		value, set := env(name)
		if !set && !optional {
			value = "${" + name + "}"
		}
		out.WriteString(value)
		s = after
	}
}

// FromEnviron returns the settings given as npm_config_KEY, in any case.
func FromEnviron(environ []string) Settings {
	const prefix = "npm_config_"
	s := Settings{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if len(name) <= len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) || value == "" {
			continue
		}
		key := name[len(prefix):]
		if !strings.HasPrefix(key, "//") {
			key = key[:1] + strings.ReplaceAll(key[1:], "_", "-")
			key = strings.ToLower(key)
		}
		s[key] = value
	}
	return s
}
