package credential

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/oauthfile"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// otherServer says how the host makes an agent ask another server than that of one of its services. It
// returns the empty string if the host does not. If it does, the agent's credentials on the host for
// that service are for the other server.
func otherServer(a *spec.Agent, service string) string {
	home, err := store.Home()
	for i := range a.Elsewhere {
		o := &a.Elsewhere[i]
		if len(o.Services) > 0 && slices.Contains(a.Credentials, service) && !slices.Contains(o.Services, service) {
			continue
		}
		if server := unknownServer(o, os.Getenv(o.Variable)); server != "" {
			return fmt.Sprintf("it is for %s, which $%s names", server, o.Variable)
		}
		if o.File == "" || err != nil { // no file can name a server
			continue
		}
		for _, k := range serverPlaces(o, home) {
			if why := otherServerIn(o, k); why != "" {
				return why
			}
		}
	}
	return ""
}

// unknownServer returns the server that a text names, if the agent's description does not list it.
func unknownServer(o *spec.AgentElsewhere, url string) string {
	if server := serverOf(url); !slices.Contains(o.Own, server) {
		return server
	}
	return ""
}

// serverPlaces returns the places in files that may name a server.
func serverPlaces(o *spec.AgentElsewhere, home string) []oauthfile.Key {
	at := func(file, directory string) oauthfile.Key {
		return oauthfile.FindKey(spec.AgentKey{File: file, Directory: directory, Key: o.Key}, home, os.Getenv)
	}
	list := []oauthfile.Key{at(o.File, o.Directory)}
	for _, file := range o.Also {
		switch {
		case path.IsAbs(file):
			found, _ := filepath.Glob(file) // the pattern was checked
			for _, f := range found {
				list = append(list, oauthfile.Key{Path: f, Pointer: o.Key})
			}
		case path.Dir(file) == path.Dir(o.File):
			list = append(list, at(file, o.Directory))
		default:
			list = append(list, at(file, ""))
		}
	}
	return list
}

// otherServerIn is otherServer for one place in a file.
func otherServerIn(o *spec.AgentElsewhere, k oauthfile.Key) string {
	told, err := k.Plain()
	if err != nil {
		return fmt.Sprintf("its server is unknown: %s may name another one, and cannot be read (%v)", k.Path, err)
	}
	if server := unknownServer(o, told); server != "" {
		return fmt.Sprintf("it is for %s, which %s names", server, k.Path)
	}
	return ""
}

// Elsewhere says how the host makes any agent ask another server than that of a service: credentials of
// the service in the environment may be for the other server. It returns the empty string if the host
// does not.
func (v *Values) Elsewhere(service string) (string, error) {
	names, err := v.Agents.Names()
	if err != nil {
		return "", err
	}
	for _, name := range names {
		a, err := v.Agents.Find(name)
		if err != nil {
			return fmt.Sprintf("its server is unknown: the description of the agent %s cannot be read (%v)", name, err), nil
		}
		if _, own := a.Services[service]; own || !slices.Contains(a.Credentials, service) {
			continue
		}
		if why := otherServer(a, service); why != "" {
			return why, nil
		}
	}
	return "", nil
}

// refuseOther refuses a lease whose value is for another server by now: the environment or the files of
// the host may have changed since it was lent. It accepts a lease for hosts that the user chose.
func (v *Values) refuseOther(sb *spec.Sandbox, d *vault.Document, l *spec.Lease) error {
	s, err := d.Find(l.Secret)
	if err != nil {
		return nil // reading its value fails, and reports this
	}
	if of := vault.FindService(s.Service); of == nil || !slices.Equal(l.Hosts, of.Hosts) {
		return nil
	}
	a, err := v.finderOf(sb, s)
	if err != nil {
		return spec.Errorf(spec.ErrDenied, "secret %s: its server is unknown: %v", l.Secret, err).WithHint("%s", spec.Hint(err))
	}
	if a == nil || !isOfOccasion(a, s) {
		return nil
	}
	if other := otherServer(a, cmp.Or(s.Service, s.Name)); other != "" {
		return spec.Errorf(spec.ErrDenied, "secret %s: %s", l.Secret, other).WithHint("docs/guide/agents.md tells how to lend it for that (another server)")
	}
	return nil
}

// finderOf returns the agent that a secret is found for on the host, anew at each start. It returns nil
// for a secret that the vault stores, or that is read in a way that the user chose.
func (v *Values) finderOf(sb *spec.Sandbox, s *vault.Secret) (*spec.Agent, error) {
	switch {
	case s.Source.Kind == vault.SourceEnvironment:
		return v.Agents.In(sb)
	case s.Source.Agent != "" && (s.Source.Kind == vault.SourceKey || s.Source.Kind == vault.SourceTool):
		return v.Agents.Find(s.Source.Agent)
	}
	return nil, nil
}

// isOfOccasion reports whether a secret is only found on the host by an agent, each time that it looks.
func isOfOccasion(a *spec.Agent, s *vault.Secret) bool {
	switch s.Source.Kind {
	case vault.SourceKey, vault.SourceTool:
		return s.Source.Agent == a.Name
	case vault.SourceEnvironment:
		return slices.ContainsFunc(a.Credentials, func(service string) bool { return servesAgent(a, s, service) })
	}
	return false
}

// serverOf returns the server of a URL, or of a name alone, with its port unless that is the usual one.
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

// unlessElsewhere returns a credential of one of an agent's services, or why it is unfit, if it is for
// another server.
func (c Found) unlessElsewhere(a *spec.Agent, service string) Found {
	if c.Secret == "" {
		return c
	}
	why := otherServer(a, service)
	if why == "" {
		return c
	}
	return Found{Where: c.Where, Unfit: why + "; docs/guide/agents.md tells how to lend it for that (another server)"}
}
