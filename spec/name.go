package spec

import (
	"path/filepath"
	"strings"
)

// Bounds of a sandbox name.
const (
	minName = 2
	maxName = 63
)

// CheckName refuses an invalid sandbox name. A valid one has 2 to 63 characters: letters, digits, '-'
// and '.'. It begins with a letter or digit and does not end in '-' or '.'. "default" is reserved.
func CheckName(name string) error {
	bad := func(why string) error {
		return Errorf(ErrUsage, "invalid sandbox name %q: %s", name, why)
	}
	switch {
	case len(name) < minName || len(name) > maxName:
		return bad("must have 2 to 63 characters")
	case name == "default":
		return bad("the name is reserved")
	case !alphanumeric(name[0]):
		return bad("must begin with a letter or digit")
	case strings.HasSuffix(name, "-") || strings.HasSuffix(name, "."):
		return bad("must not end in '-' or '.'")
	}
	for i := range len(name) {
		if c := name[i]; !alphanumeric(c) && c != '-' && c != '.' {
			return bad("only letters, digits, '-' and '.' are allowed")
		}
	}
	return nil
}

// DefaultName returns the name for the sandbox of an agent in a directory: "<agent>-<last element of the
// directory>", with every run of other characters replaced by one '-'.
func DefaultName(agent, dir string) string {
	base := "sandbox"
	if dir != "" && dir != "/" {
		base = filepath.Base(dir)
	}
	var b strings.Builder
	for i := range len(base) {
		c := base[i]
		switch {
		case alphanumeric(c) || c == '.':
			b.WriteByte(c)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	name := agent + "-" + strings.Trim(b.String(), "-.")
	if len(name) > maxName-3 { // leave room for a "-NN" that makes it unique
		name = name[:maxName-3]
	}
	return strings.TrimRight(name, "-.")
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
