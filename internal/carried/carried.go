// Package carried selects the settings of the person who runs a command that apply inside: where they
// look for programs, their terminal, language, time zone and file mode mask.
//
// Nothing else of the caller's environment goes in, and no value that could contain a secret: each
// variable is named here, and must have the expected form.
package carried

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// terminal lists variables that describe the terminal, besides TERM.
var terminal = []string{"COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "FORCE_COLOR", "CLICOLOR_FORCE"}

// taste lists variables that determine how programs look, with or without a terminal.
var taste = []string{"NO_COLOR", "CLICOLOR"}

const (
	maxValue = 128  // of a variable, in bytes
	maxPath  = 1024 // of a directory in PATH
	maxDirs  = 64
)

// Settings returns the settings of this process. named are the paths by which the person named the
// shared directories and files.
func Settings(named []spec.Named, hasTerminal bool) wire.Caller {
	return settings(os.LookupEnv, host{}, named, hasTerminal)
}

// host is where files of the host are found. root is empty except in tests.
type host struct{ root string }

func settings(lookup func(string) (string, bool), h host, named []spec.Named, hasTerminal bool) wire.Caller {
	c := wire.Caller{Named: named, Zone: h.timeZone(), Umask: h.readUmask()}
	if list, ok := lookup("PATH"); ok {
		c.Path = fixedDirs(list)
	}
	c.Env = plainVariables(lookup, taste)
	if hasTerminal {
		c.Terminal = plainVariables(lookup, terminal)
	}
	c.Locale = h.locale(lookup)
	if tz, ok := lookup("TZ"); ok && isZone(tz) {
		c.TZ = tz
	}
	return c
}

// fixedDirs returns the directories of a PATH that mean the same in any working directory.
func fixedDirs(list string) (out []string) {
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

// plainVariables returns variables with their values, if those are short and plain.
func plainVariables(lookup func(string) (string, bool), names []string) (out []string) {
	for _, name := range names {
		if v, ok := lookup(name); ok && len(v) <= maxValue && isASCII(v) {
			out = append(out, name+"="+v)
		}
	}
	return out
}

// isZone reports whether a value of TZ means the same inside: a name or a rule, but not a file of the
// host, except those that every system has.
func isZone(tz string) bool {
	if len(tz) > maxValue || !isASCII(tz) {
		return false
	}
	file := strings.TrimPrefix(tz, ":")
	return !filepath.IsAbs(file) || file == localtime || strings.HasPrefix(filepath.Clean(file), zones)
}

const (
	localtime = "/etc/localtime"
	zones     = "/usr/share/zoneinfo/"
)

// timeZone returns the name of the host's time zone, or "".
func (h host) timeZone() string {
	target, err := os.Readlink(h.root + localtime)
	if err != nil {
		return ""
	}
	_, name, ok := strings.Cut(target, "zoneinfo/")
	if !ok || len(name) > maxValue || !isASCII(name) || !filepath.IsLocal(name) {
		return ""
	}
	return name
}

// readUmask returns the mask of this process. Asking the kernel with umask(2) would change it, for all
// threads.
func (h host) readUmask() string {
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

// printable reports whether a text is UTF-8 without control characters, and without a colon, which would
// separate two directories.
func printable(s string) bool {
	if strings.ToValidUTF8(s, "") != s {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == ':' })
}

// isASCII reports whether a text is printable ASCII.
func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
