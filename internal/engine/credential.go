package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/oauthfile"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// Credential is what an agent can log in with on this host.
type Credential struct {
	Secret string // the secret it is, or becomes when it is lent; empty: there is none
	Where  string // it is, for people
	Unfit  string // why one that is there cannot be lent
	// Besides tells of others that were there to choose from; empty, or to be said behind.
	Besides string

	add  *NewSecret       // it is no secret yet
	say  string           // when it becomes one
	from *spec.AgentToken // it is of another program, and may turn out to be no good
}

// FindCredential looks for what an agent can log in with: a secret of the vault,
// or else one that stands in the caller's environment, or else what the agent
// logged in with on the host, or else a key that it was given there, or else a token
// of another program that it takes. The first of the agent's services that there is
// counts. Nothing is changed.
func (e *Engine) FindCredential(a *spec.Agent) (Credential, error) {
	have, err := e.Secrets()
	if err != nil {
		return Credential{}, err
	}
	for _, service := range a.Credentials {
		for _, s := range have {
			// Logins and keys of agents come last, and as a tool's token are lent to who
			// was given them only. Variables come next, secrets by now or not: else what
			// is lent would hang on which was there first.
			own := !slices.Contains([]vault.SourceKind{vault.SourceLogin, vault.SourceKey, vault.SourceTool}, s.Source.Kind)
			if !own || !serves(a, &s, service) || ofVariable(a, &s) {
				continue
			}
			if s.Source.Kind == vault.SourceEnvironment && (os.Getenv(s.Source.Variable) == "" || elsewhere(a, service) != "") {
				continue
			}
			return Credential{Secret: s.Name, Where: "the secret " + s.Name}, nil
		}
	}
	c := e.loggedIn(a, have)
	set := inEnvironment(a, have, c)
	if set.Secret != "" {
		return set, nil
	}
	if c.Secret == "" && c.Unfit == "" {
		c, err = e.given(a, have)
	}
	if set.Unfit != "" && c.Secret == "" {
		c = set
	}
	return c, err
}

// given is FindCredential for what the agent, or another program that it goes by, was given.
func (e *Engine) given(a *spec.Agent, have []vault.Secret) (Credential, error) {
	c := givenKey(a, have)
	if c.Secret == "" {
		token, err := e.otherToken(a, have)
		if err != nil || token.Secret != "" || c.Unfit == "" {
			return token, err
		}
	}
	return c, nil
}

// serves tells whether a secret is of one of an agent's services: by what the vault knows,
// or, of a service that only the description knows, by its name.
func serves(a *spec.Agent, s *vault.Secret, service string) bool {
	if _, own := a.Services[service]; own {
		return s.Service == "" && s.Name == service
	}
	return s.Service == service
}

// Credential gives the secret that an agent can log in with, as FindCredential
// has it. What is none yet becomes one. The empty string means that there is
// nothing.
func (e *Engine) Credential(ctx context.Context, a *spec.Agent) (secret string, err error) {
	c, err := e.FindCredential(a)
	if err != nil {
		return "", err
	}
	if c.Unfit != "" {
		e.say("%s is not lent: %s", c.Where, c.Unfit)
	}
	if err := e.tryToken(ctx, a, c); err != nil {
		e.say("%s is not lent: %s", c.Where, spec.Advised(err))
		return "", nil
	}
	if c.add != nil {
		if err := e.SetSecret(ctx, *c.add); err != nil {
			return "", err
		}
	}
	if c.say != "" {
		e.say("%s", c.say)
	}
	return c.Secret, nil
}

// LendCredential lends a sandbox what its agent, which may be nil, logs in with, and has it
// reach whose that is. If it has that already the lease is nil.
func (e *Engine) LendCredential(ctx context.Context, sb *spec.Sandbox, a *spec.Agent, secret string, t vault.Terms) (*spec.Lease, error) {
	return e.lendCredential(ctx, sb, a, secret, t, hasLive(secret))
}

// LendFirst is LendCredential for a sandbox that was never lent one: if it was meanwhile, the
// lease is nil.
func (e *Engine) LendFirst(ctx context.Context, sb *spec.Sandbox, a *spec.Agent, secret string) (*spec.Lease, error) {
	return e.lendCredential(ctx, sb, a, secret, vault.Terms{}, func(list []spec.Lease) bool {
		return !neverLent(e.Store.Sandbox(sb.ID), list)
	})
}

// lendCredential is LendCredential for another reason not to. The rules come first: a lease
// without them would be taken for one that needs nothing more.
func (e *Engine) lendCredential(ctx context.Context, sb *spec.Sandbox, a *spec.Agent, secret string, t vault.Terms, has func([]spec.Lease) bool) (*spec.Lease, error) {
	list, err := e.Leases(sb)
	if err != nil || has(list) {
		return nil, err
	}
	if a != nil && sb.Mock == nil {
		if err := e.reach(ctx, sb, a, secret); err != nil {
			return nil, err
		}
	}
	if a != nil {
		if err := e.complete(a, secret, &t); err != nil {
			return nil, err
		}
	}
	return e.lend(ctx, sb, secret, t, has)
}

// complete adds to terms what an agent's description says of its own service, where the
// secret is of that.
func (e *Engine) complete(a *spec.Agent, secret string, t *vault.Terms) error {
	own, ok := agent.Terms(a, secret)
	if !ok && len(a.Tokens) == 0 && len(a.Keys) == 0 {
		return nil
	}
	have, err := e.Secrets()
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(have, func(s vault.Secret) bool { return s.Name == secret }); i >= 0 {
		narrow(a, &have[i], t)
	}
	if ok && slices.ContainsFunc(have, func(s vault.Secret) bool { return s.Name == secret && serves(a, &s, secret) }) {
		t.Hosts, t.Place, t.Env = own.Hosts, own.Place, own.Env
	}
	return nil
}

// reachOf are the presets that go with what an agent logs in with.
func (e *Engine) reachOf(a *spec.Agent, c Credential) ([]string, error) {
	if c.add != nil { // it is no secret yet
		return a.Reach[cmp.Or(c.add.Service, c.add.Name)], nil
	}
	have, err := e.Secrets()
	i := slices.IndexFunc(have, func(s vault.Secret) bool { return s.Name == c.Secret })
	if err != nil || i < 0 {
		return nil, err
	}
	return a.Reach[cmp.Or(have[i].Service, have[i].Name)], nil
}

// reach adds those presets, unless there are to be none.
func (e *Engine) reach(ctx context.Context, sb *spec.Sandbox, a *spec.Agent, secret string) error {
	presets, err := e.reachOf(a, Credential{Secret: secret})
	if err != nil || len(presets) == 0 {
		return err
	}
	return e.EditPolicy(ctx, sb, func(f *policy.File) error {
		if slices.Contains(f.Presets, "none") {
			return nil
		}
		for _, name := range presets {
			if err := f.AddPreset(name); err != nil {
				return err
			}
		}
		return nil
	})
}

// inEnvironment is FindCredential for variables, of somebody who may have logged in. One that
// is for another server, or that the agent is not to use, is told if there is no other.
func inEnvironment(a *spec.Agent, have []vault.Secret, logged Credential) (unfit Credential) {
	for _, service := range a.Credentials {
		for _, variable := range agent.Variables(a, service) {
			value := os.Getenv(variable)
			if value == "" {
				continue
			}
			besides := besides(a, value, logged)
			c := Credential{
				Secret: service, Where: "$" + variable + " of your environment", Besides: besides,
				add: &NewSecret{Name: service, Service: serviceOf(a, service, value), Source: vault.Source{Kind: vault.SourceEnvironment, Variable: variable}},
				say: fmt.Sprintf("$%s is lent from your environment, as the secret %s; the sandbox sees a placeholder%s", variable, service, besides),
			}.meant(a, service).wanted(a, service, value)
			i := slices.IndexFunc(have, func(h vault.Secret) bool { return h.Name == service })
			switch {
			case c.Secret == "" && unfit.Where == "":
				unfit = c
			case c.Secret != "" && i < 0:
				return c
			case c.Secret != "" && ofVariable(a, &have[i]) && have[i].Source.Variable == variable:
				return c.known()
			}
		}
	}
	return unfit
}

// ofVariable tells whether a secret is what one of an agent's variables became.
func ofVariable(a *spec.Agent, s *vault.Secret) bool {
	return s.Source.Kind == vault.SourceEnvironment && slices.Contains(a.Credentials, s.Name) &&
		slices.Contains(agent.Variables(a, s.Name), s.Source.Variable)
}

// known is a credential that is a secret by now: that is worth a word only if another is
// passed over.
func (c Credential) known() Credential {
	c.add, c.Where = nil, "the secret "+c.Secret
	if c.Besides == "" {
		c.say = ""
	}
	return c
}

// besides tells of what counts less than the variable with a value, and is something else:
// other variables, and the login, with which another may pay.
func besides(a *spec.Agent, value string, logged Credential) (said string) {
	var more []string
	for _, service := range a.Credentials {
		for _, variable := range agent.Variables(a, service) {
			if v := os.Getenv(variable); v != "" && v != value {
				more = append(more, "$"+variable)
			}
		}
	}
	if len(more) > 0 {
		said = "; not that of " + strings.Join(more, ", ")
	}
	switch {
	case logged.Secret == "":
		return said
	case said == "":
		return "; not " + logged.Where
	}
	return said + ", nor " + logged.Where
}

// wanted is a credential whose value is not among those that its user told the agent on this
// host not to use: it would not use it there, and one who pays otherwise meant that.
func (c Credential) wanted(a *spec.Agent, service, value string) Credential {
	home, err := store.Home()
	if c.Secret == "" || err != nil {
		return c
	}
	for _, r := range a.Refused {
		if r.Service != service {
			continue
		}
		at := oauthfile.FindKey(spec.AgentKey{File: r.File, Directory: r.Directory, Key: r.Key}, home, os.Getenv)
		end := value
		if r.Last > 0 {
			end = value[max(0, len(value)-r.Last):]
		}
		refused, err := at.Lists(end)
		why := fmt.Sprintf("you told %s on this host not to use it, says %s", a.Title, at.Path)
		if err != nil {
			why = fmt.Sprintf("nobody can tell whether you told %s on this host not to use it: %v", a.Title, err)
		}
		if refused || err != nil {
			return Credential{Where: c.Where, Unfit: fmt.Sprintf("%s; to lend it all the same: bothy secret set %s --env %s, and --secret %s when the sandbox is created",
				why, service, c.add.Source.Variable, service)}
		}
	}
	return c
}

// serviceOf gives the service of the vault that a value is of: none if only the agent's
// description knows it. A subscription's token is often set where an API key is expected.
func serviceOf(a *spec.Agent, service, value string) string {
	if _, own := a.Services[service]; own {
		return ""
	}
	return vault.SortService(service, []byte(value))
}

// loggedIn is FindCredential for what the agent logged in with on the host.
func (e *Engine) loggedIn(a *spec.Agent, have []vault.Secret) Credential {
	if a.Login == nil {
		return Credential{}
	}
	name := a.Name + "-login"
	c := Credential{Where: "your login"}
	n := NewSecret{Name: name, Source: vault.Source{Kind: vault.SourceLogin, Agent: a.Name}}
	switch err := e.completeLogin(&n); {
	case errors.Is(err, oauthfile.ErrNone):
		return Credential{}
	case err != nil:
		c.Unfit = spec.Advised(err)
		return c
	}
	i := slices.IndexFunc(have, func(s vault.Secret) bool { return s.Name == name })
	if i >= 0 && (have[i].Source.Kind != vault.SourceLogin || have[i].Source.Agent != a.Name) {
		c.Unfit = name + " is a secret of another kind"
		return c
	}
	c.Secret, c.Where = name, "your login "+n.Source.Path
	if i < 0 || have[i].Source.Path != n.Source.Path {
		c.add = &n
		c.say = fmt.Sprintf("your login %s is lent, as the secret %s; the sandbox sees placeholders", n.Source.Path, name)
	}
	return c
}

// givenKey is FindCredential for keys that the agent was given on the host. One that cannot
// be lent is told if there is no other.
func givenKey(a *spec.Agent, have []vault.Secret) (found Credential) {
	if len(a.Keys) == 0 {
		return Credential{}
	}
	home, err := store.Home()
	if err != nil {
		return Credential{Where: "what it was given", Unfit: spec.Advised(err)}
	}
	var first spec.AgentKey
	var more []string
	for _, how := range a.Keys {
		c := keyOf(a, how, home, have).meant(a, how.Service)
		switch {
		case c.Secret != "" && found.Secret == "":
			found, first = c, how
		case c.Secret != "" && c.Where != found.Where:
			more = append(more, c.Where)
		case c.Secret != "" && how.Service != first.Service:
			more = append(more, "that for "+how.Service)
		case found.Where == "":
			found = c
		}
	}
	if len(more) > 0 {
		slices.Sort(more)
		found.Besides = "; not " + strings.Join(slices.Compact(more), ", ")
	}
	if found.say != "" {
		found.say += found.Besides
	}
	return found
}

// keyOf is givenKey for one of the places that a description names.
func keyOf(a *spec.Agent, how spec.AgentKey, home string, have []vault.Secret) (c Credential) {
	key := oauthfile.FindKey(how, home, os.Getenv)
	value, err := key.Read()
	if errors.Is(err, oauthfile.ErrNone) {
		return c
	}
	name := a.Name + "-" + how.Service + "-key"
	c.Where = "the key in " + key.Path
	if errors.Is(err, oauthfile.ErrCommand) {
		c.Where = "what the command at " + how.Key + " in " + key.Path + " prints"
		c.Unfit = fmt.Sprintf("%v; if you trust it: bothy secret set %s --command COMMAND", err, how.Service)
		return c
	}
	if err != nil && !errors.Is(err, spec.ErrDenied) { // nobody knows whether there is one
		c.Where = "what " + key.Path + " may have of a key"
	}
	source := vault.Source{Kind: vault.SourceKey, Agent: a.Name, Path: key.Path, Pointer: key.Pointer}
	i := slices.IndexFunc(have, func(s vault.Secret) bool { return s.Name == name })
	switch {
	case err != nil:
		c.Unfit = spec.Advised(err)
		return c
	case i >= 0 && (have[i].Source.Kind != vault.SourceKey || have[i].Source.Agent != a.Name):
		c.Unfit = name + " is a secret of another kind"
		return c
	case i < 0 || !reflect.DeepEqual(have[i].Source, source):
		c.add = &NewSecret{Name: name, Service: vault.SortService(how.Service, []byte(value)), Source: source}
		c.say = fmt.Sprintf("%s is lent, as the secret %s; the sandbox sees a placeholder", c.Where, name)
	}
	c.Secret = name
	return c
}

// readKey reads the source of a key.
func readKey(s vault.Source) ([]byte, error) {
	value, err := oauthfile.Key{Path: s.Path, Pointer: s.Pointer}.Read()
	if errors.Is(err, oauthfile.ErrNone) {
		err = spec.Errorf(spec.ErrNotFound, "there is no key in %s any more", s.Path).
			WithHint("give %s one on the host, or: bothy secret set", s.Agent)
	} else if err != nil {
		err = &spec.Error{Op: "read the key in " + s.Path, Err: err, Hint: spec.Hint(err)}
	}
	return []byte(value), err
}
