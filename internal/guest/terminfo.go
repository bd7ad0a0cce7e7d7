package guest

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// terminfoDirs are the directories with descriptions of terminals, besides TERMINFO and the home.
var terminfoDirs = []string{"/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo", "/usr/lib/terminfo", "/usr/local/share/terminfo", "/usr/share/lib/terminfo"}

// knownTerminal replaces an undescribed TERM by the first of the names that has a description. If none
// has one, TERM stays: a program that needs no description may know it.
func knownTerminal(env, names []string) []string {
	at := slices.IndexFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "TERM=") })
	if at < 0 {
		return env
	}
	dirs := terminfoDirs
	for _, kv := range env {
		if home, ok := strings.CutPrefix(kv, "HOME="); ok {
			dirs = append([]string{filepath.Join(home, ".terminfo")}, dirs...)
		}
		if dir, ok := strings.CutPrefix(kv, "TERMINFO="); ok {
			dirs = append([]string{dir}, dirs...)
		}
	}
	for _, name := range append([]string{strings.TrimPrefix(env[at], "TERM=")}, names...) {
		if described(name, dirs) {
			env = slices.Clone(env)
			env[at] = "TERM=" + name
			break
		}
	}
	return env
}

// described reports whether one of the directories describes a terminal. On file systems that ignore
// case, the directory of a description is the hexadecimal code of its first letter.
func described(name string, dirs []string) bool {
	if name == "" || strings.ContainsAny(name, "/\x00") {
		return false
	}
	for _, dir := range dirs {
		for _, first := range []string{name[:1], strconv.FormatInt(int64(name[0]), 16)} {
			if st, err := os.Stat(filepath.Join(dir, first, name)); err == nil && st.Mode().IsRegular() {
				return true
			}
		}
	}
	return false
}
