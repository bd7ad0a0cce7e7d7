// Package carried answers which settings of the person who runs a command count inside: where
// they look for programs, their terminal, language, time zone and file mode mask.
//
// Nothing else of the caller's environment goes in, and no value that could hold a secret: each
// variable is named here, and has the form that is expected of it.
package carried

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// terminal are variables that describe the terminal, besides TERM.
var terminal = []string{"COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "FORCE_COLOR", "CLICOLOR_FORCE"}

// taste are variables that say how programs are to look, with or without a terminal.
var taste = []string{"NO_COLOR", "CLICOLOR"}

const (
	maxValue = 128  // of a variable, in bytes
	maxPath  = 1024 // of a directory in PATH
	maxDirs  = 64
)

// Settings returns the settings of this process. Named are the paths by which the person named the
// shared directories and files.
func Settings(named []spec.Named, hasTerminal bool) wire.Caller {
	return settings(os.LookupEnv, host{}, named, hasTerminal)
}

// host is where files of the host are found; root is empty but for tests.
type host struct{ root string }

func settings(lookup func(string) (string, bool), h host, named []spec.Named, hasTerminal bool) wire.Caller {
	c := wire.Caller{Named: named, Zone: h.zone(), Umask: h.umask()}
	if list, ok := lookup("PATH"); ok {
		c.Path = dirs(list)
	}
	c.Env = plain(lookup, taste)
	if hasTerminal {
		c.Terminal = plain(lookup, terminal)
	}
	c.Locale = h.locale(lookup)
	if tz, ok := lookup("TZ"); ok && isZone(tz) {
		c.TZ = tz
	}
	return c
}

// dirs are the directories of a PATH that mean the same in any working directory.
func dirs(list string) (out []string) {
	seen := map[string]bool{}
	for _, d := range filepath.SplitList(list) {
		if !filepath.IsAbs(d) || len(d) > maxPath || !printable(d) {
			continue
		}
		if d = filepath.Clean(d); !seen[d] && len(out) < maxDirs {
			seen[d] = true
			out = append(out, d)
		}
	}
	return out
}

// plain are variables with their values, if those are short and plain.
func plain(lookup func(string) (string, bool), names []string) (out []string) {
	for _, name := range names {
		if v, ok := lookup(name); ok && len(v) <= maxValue && ascii(v) {
			out = append(out, name+"="+v)
		}
	}
	return out
}

// isZone tells whether a value of TZ means the same inside: a name, or a rule, but no file of the
// host's besides those that every system has.
func isZone(tz string) bool {
	if len(tz) > maxValue || !ascii(tz) {
		return false
	}
	file := strings.TrimPrefix(tz, ":")
	return !filepath.IsAbs(file) || file == localtime || strings.HasPrefix(filepath.Clean(file), zones)
}

const (
	localtime = "/etc/localtime"
	zones     = "/usr/share/zoneinfo/"
)

// zone is the name of the host's time zone; empty if it has none.
func (h host) zone() string {
	target, err := os.Readlink(h.root + localtime)
	if err != nil {
		return ""
	}
	_, name, ok := strings.Cut(target, "zoneinfo/")
	if !ok || len(name) > maxValue || !ascii(name) || !filepath.IsLocal(name) {
		return ""
	}
	return name
}

// umask is the mask of this process. To ask the kernel for it by umask(2) would change it, for
// all threads.
func (h host) umask() string {
	text, err := os.ReadFile(h.root + "/proc/self/status")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "Umask:"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// printable tells whether a text is UTF-8 without control characters; a colon would be two
// directories.
func printable(s string) bool {
	if strings.ToValidUTF8(s, "") != s {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == ':' })
}

// ascii tells whether a text is printable ASCII.
func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
