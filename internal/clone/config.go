package clone

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"unicode"
)

// setting is one setting of a git configuration.
type setting struct{ key, value string }

// maxConfig bounds the user's configuration.
const maxConfig = 1 << 20

// inherited returns the part of the user's configuration that the clone gets, as text. git reads
// the configuration as data: it follows no include, and obeys no setting.
func (g *git) inherited(ctx context.Context, config []byte, branch string) (string, error) {
	out, err := g.runGit(ctx, bytes.NewReader(config), "config", "--file", "-", "--no-includes", "--null", "--list")
	if err != nil {
		return "", err
	}
	var list []setting
	for entry := range strings.SplitSeq(string(out), "\x00") {
		key, value, ok := strings.Cut(entry, "\n")
		if ok && !strings.ContainsFunc(key+value, unicode.IsControl) {
			list = append(list, setting{key, value})
		}
	}
	return compose(list, branch), nil
}

// compose returns the part of a configuration that a clone gets.
func compose(list []setting, branch string) string {
	var b strings.Builder
	var kept []string
	for _, s := range list {
		section, name, key := splitKey(s.key)
		if section != "remote" || key != "url" && key != "pushurl" {
			continue
		}
		address, ok := reachable(s.value)
		if !ok {
			continue
		}
		head := "[remote " + quoteValue(name) + "]\n"
		if key == "url" && !slices.Contains(kept, name) {
			kept = append(kept, name)
			head += "\tfetch = " + quoteValue("+"+heads+"*:"+remotes+name+"/*") + "\n"
		}
		b.WriteString(head + "\t" + key + " = " + quoteValue(address) + "\n")
	}
	b.WriteString(upstream(list, branch, kept))
	for _, s := range list {
		if s.key == "user.name" || s.key == "user.email" {
			b.WriteString("[user]\n\t" + strings.TrimPrefix(s.key, "user.") + " = " + quoteValue(s.value) + "\n")
		}
	}
	return b.String()
}

// upstream returns where the branch is pushed to, if that can be reached.
func upstream(list []setting, branch string, remotes []string) string {
	var remote, merge string
	for _, s := range list {
		section, name, key := splitKey(s.key)
		if section != "branch" || name != branch {
			continue
		}
		switch key {
		case "remote":
			remote = s.value
		case "merge":
			merge = s.value
		}
	}
	if branch == "" || !slices.Contains(remotes, remote) || checkRef(merge) != nil {
		return ""
	}
	return "[branch " + quoteValue(branch) + "]\n\tremote = " + quoteValue(remote) + "\n\tmerge = " + quoteValue(merge) + "\n"
}

// splitKey splits the key of a setting: section.name.key, where the name may have dots in it, and may be
// absent.
func splitKey(key string) (section, name, last string) {
	section, rest, ok := strings.Cut(key, ".")
	if !ok {
		return "", "", ""
	}
	if i := strings.LastIndexByte(rest, '.'); i >= 0 {
		return section, rest[:i], rest[i+1:]
	}
	return section, "", rest
}

// quoteValue writes a value, or the name of a section, in a configuration, and a path in a list of
// paths. The text has no control characters.
func quoteValue(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// reachable returns the address of a remote without its credentials. It refuses addresses of the
// host's disk and of programs, which have no meaning in a sandbox.
func reachable(address string) (string, bool) {
	if helper, _, ok := strings.Cut(address, "::"); ok && !strings.ContainsAny(helper, "/@[") || strings.HasPrefix(address, "-") {
		return "", false
	}
	if !strings.Contains(address, "://") { // user@host:path, or a path
		host, path, ok := strings.Cut(address, ":")
		return address, ok && host != "" && path != "" && !strings.Contains(host, "/") && !strings.Contains(path, "@")
	}
	scheme, rest, _ := strings.Cut(address, "://")
	end := strings.IndexAny(rest+"/", "/?#")
	authority, path := rest[:end], rest[end:]
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path = path[:i]
	}
	user, host := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, host = authority[:i], authority[i+1:]
	}
	if !isHost(host) || strings.ContainsAny(path, " \\") {
		return "", false
	}
	switch scheme {
	case "https", "http", "git":
		user = ""
	case "ssh", "git+ssh", "ssh+git":
		if user, _, _ = strings.Cut(user, ":"); user != "" {
			user += "@"
		}
	default:
		return "", false
	}
	return scheme + "://" + user + host + path, true
}

// isHost reports whether a text is a host, with or without a port: anything else may be a part of
// a password.
func isHost(s string) bool {
	host, port := s, ""
	if i := strings.LastIndexByte(s, ':'); i > strings.LastIndexByte(s, ']') {
		host, port = s[:i], s[i+1:]
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		return ok && inner != "" && strings.Trim(inner, "0123456789abcdefABCDEF:.") == "" && strings.Trim(port, digits) == ""
	}
	return host != "" && strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz._-"+digits) == "" && strings.Trim(port, digits) == ""
}

const digits = "0123456789"
