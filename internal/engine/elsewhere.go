package engine

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/login"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// elsewhere says how the host has an agent ask another server than those of its services,
// for people; the empty string, if it does not. What the agent has in the environment is for
// that server then.
func elsewhere(a *spec.Agent) string {
	for _, o := range a.Elsewhere {
		if server := serverOf(os.Getenv(o.Variable)); server != "" && !slices.Contains(o.Own, server) {
			return fmt.Sprintf("it is for %s, which $%s names", server, o.Variable)
		}
		if o.File == "" {
			continue
		}
		if why := elsewhereIn(&o); why != "" {
			return why
		}
	}
	return ""
}

// elsewhereIn is elsewhere for a file.
func elsewhereIn(o *spec.AgentElsewhere) string {
	home, err := store.Home()
	if err != nil {
		return "" // there is no file either of which it could be
	}
	k := login.FindKey(spec.AgentKey{File: o.File, Directory: o.Directory, Key: o.Key}, home, os.Getenv)
	told, err := k.Plain()
	if err != nil {
		return fmt.Sprintf("nobody can say for which server it is: %s, which may name one, cannot be read (%v)", k.Path, err)
	}
	if server := serverOf(told); server != "" && !slices.Contains(o.Own, server) {
		return fmt.Sprintf("it is for %s, which %s names", server, k.Path)
	}
	return ""
}

// forOther says why what a lease of what an agent has would be now is for another server than
// those that it goes to: what stands in the environment, or in files, may have changed since it
// was lent. A lease for hosts that somebody chose is for those.
func (e *Engine) forOther(sb *spec.Sandbox, d *vault.Document, l *spec.Lease) error {
	s, err := d.Find(l.Secret)
	if err != nil {
		return nil // which is said by who reads it
	}
	a, err := e.Agents.Find(cmp.Or(s.Source.Agent, sb.Agent))
	if err != nil || !isOfOccasion(a, s) {
		return nil
	}
	if of := vault.FindService(s.Service); of == nil || !slices.Equal(l.Hosts, of.Hosts) {
		return nil
	}
	if other := elsewhere(a); other != "" {
		return spec.Errorf(spec.ErrDenied, "secret %s: %s", l.Secret, other).WithHint("docs/agents.md tells how to lend it for that (another server)")
	}
	return nil
}

// isOfOccasion tells whether a secret is what an agent finds on the host whenever it looks,
// and no more.
func isOfOccasion(a *spec.Agent, s *vault.Secret) bool {
	switch s.Source.Kind {
	case vault.SourceKey, vault.SourceTool:
		return s.Source.Agent == a.Name
	case vault.SourceEnvironment:
		return slices.ContainsFunc(a.Credentials, func(service string) bool { return serves(a, s, service) })
	}
	return false
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
