package sshserver

import (
	"slices"
	"strings"
)

// variables are the environment variables that a client may set inside, besides those of the locale. Clients
// can be set up to send any, and some hold secrets.
var variables = []string{
	"LANG", "LANGUAGE", "TZ", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE",
	"GIT_PROTOCOL", // git on the client asks for it
}

// mayPass reports whether a client may set a variable.
func mayPass(name string) bool {
	if category, ok := strings.CutPrefix(name, "LC_"); ok {
		return category != "" && !strings.ContainsFunc(category, func(r rune) bool {
			return (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_'
		})
	}
	return slices.Contains(variables, name)
}

// isPlain reports whether a text is printable ASCII.
func isPlain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
