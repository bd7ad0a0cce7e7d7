package npm

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// settings are the lines of npm's configuration, lists joined by listSeparator.
type settings map[string]string

const listSeparator = "\n"

// maxNpmrc bounds a configuration file in bytes.
const maxNpmrc = 1 << 20

// readNpmrc reads one file. A missing one is empty.
func readNpmrc(path string, env func(string) (string, bool)) (settings, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil // npm does without, too
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxNpmrc {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseNpmrc(string(text), env), nil
}

// parseNpmrc reads the little of the ini format that npm's files use.
func parseNpmrc(text string, env func(string) (string, bool)) settings {
	s := settings{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == ';' || line[0] == '#' {
			continue
		}
		if line[0] == '[' {
			break // what stands in a section means nothing to npm
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			value = "true"
		}
		key, value = expand(unquote(strings.TrimSpace(key)), env), expand(unquote(strings.TrimSpace(value)), env)
		if list, ok := strings.CutSuffix(key, "[]"); ok {
			if s[list] != "" {
				value = s[list] + listSeparator + value
			}
			key = list
		}
		s[key] = value
	}
	return s
}

// unquote takes off quotes, or, from a value that has none, escapes and a comment.
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

// expand puts variables in: ${NAME}, and ${NAME?}, which is empty if there is
// none. As with npm, ${NAME} stays as it is written if there is none.
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

// fromEnv are settings given as npm_config_KEY, in any case.
func fromEnv(environ []string) settings {
	const prefix = "npm_config_"
	s := settings{}
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

// load reads the configuration npm would use outside of any project: the
// environment before the user's file before the machine's.
//
// The .npmrc of a project is not read. It belongs to the repository, which is not
// trusted: it could name a registry of its own, and where it stands depends on
// the directory one happens to be in.
func load(environ []string) (settings, error) {
	env := func(name string) (string, bool) {
		for _, kv := range environ {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				return v, true
			}
		}
		return "", false
	}
	given := fromEnv(environ)
	userFile := given["userconfig"]
	if home, ok := env("HOME"); ok && userFile == "" && filepath.IsAbs(home) {
		userFile = filepath.Join(home, ".npmrc")
	}
	user, err := readNpmrc(userFile, env)
	if err != nil {
		return nil, err
	}
	all := settings{}
	for _, file := range globalFiles(given, user, env) {
		global, err := readNpmrc(file, env)
		if err != nil {
			return nil, err
		}
		if global != nil {
			maps.Copy(all, global)
			break
		}
	}
	maps.Copy(all, user)
	maps.Copy(all, given)
	return all, nil
}

// globalFiles are where the machine's configuration may stand: npm keeps it below
// its prefix, which is where node is installed.
func globalFiles(given, user settings, env func(string) (string, bool)) []string {
	for _, s := range []settings{given, user} {
		if f := s["globalconfig"]; f != "" {
			return []string{f}
		}
		if prefix := s["prefix"]; prefix != "" {
			return []string{filepath.Join(prefix, "etc", "npmrc")}
		}
	}
	path, _ := env("PATH")
	for _, dir := range filepath.SplitList(path) {
		node, err := filepath.EvalSymlinks(filepath.Join(dir, "node"))
		if filepath.IsAbs(dir) && err == nil {
			return []string{filepath.Join(filepath.Dir(node), "..", "etc", "npmrc")}
		}
	}
	return []string{"/usr/local/etc/npmrc", "/usr/etc/npmrc"}
}
