package engine

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/login"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// elsewhere says how the host has an agent ask another server than those of its services,
// for people; the empty string, if it does not. What the agent has in the environment is for
// that server then.
func elsewhere(a *spec.Agent) string {
	home, err := store.Home()
	for _, o := range a.Elsewhere {
		told, by := "", "$"+o.Variable
		if o.File != "" && err == nil {
			k := login.FindKey(spec.AgentKey{File: o.File, Directory: o.Directory, Key: o.Key}, home, os.Getenv)
			if told = k.Plain(); told != "" {
				by = k.Path
			}
		}
		server := serverOf(cmp.Or(told, os.Getenv(o.Variable)))
		if server == "" {
			continue
		}
		if slices.Contains(o.Own, server) {
			return ""
		}
		return fmt.Sprintf("it is for %s, which %s names", server, by)
	}
	return ""
}

// serverOf gives the server that a URL names, or a name alone: with its port, unless that
// is the usual one.
func serverOf(url string) string {
	_, rest, ok := strings.Cut(url, "://")
	if !ok {
		rest = url
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	if rest == "" && url != "" || strings.ContainsFunc(rest, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "a server that is none"
	}
	return strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(rest), ":443"), ".")
}

// meant is a credential that is for another server: it is not lent.
func (c Credential) meant(other string) Credential {
	if c.Secret == "" {
		return c
	}
	return Credential{Where: c.Where, Unfit: other + "; docs/agents.md tells how to lend it for that (another server)"}
}
