package credential

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/oauthfile"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// Found is what an agent can log in with on this host.
type Found struct {
	Secret string // the secret it is, or becomes when it is lent; empty: there is none
	Where  string // it is, for people
	Unfit  string // why one that is there cannot be lent
	// Besides tells of others that were there to choose from; empty, or to be said behind.
	Besides string

	add  *NewSecret       // it is no secret yet
	say  string           // when it becomes one
	from *spec.AgentToken // it is of another program, and may turn out to be no good
}

// Find looks for what an agent can log in with: a secret of the vault,
// or else one that stands in the caller's environment, or else what the agent
// logged in with on the host, or else a key that it was given there, or else a token
// of another program that it takes. The first of the agent's services that there is
// counts. Nothing is changed.
func (v *Values) Find(a *spec.Agent) (Found, error) {
	have, err := v.Secrets()
	if err != nil {
		return Found{}, err
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
			if s.Source.Kind == vault.SourceEnvironment && (os.Getenv(s.Source.Variable) == "" || otherServer(a, service) != "") {
				continue
			}
			return Found{Secret: s.Name, Where: "the secret " + s.Name}, nil
		}
	}
	c := v.findLogin(a, have)
	set := inEnvironment(a, have, c)
	if set.Secret != "" {
		return set, nil
	}
	if c.Secret == "" && c.Unfit == "" {
		c, err = v.findGiven(a, have)
	}
	if set.Unfit != "" && c.Secret == "" {
		c = set
	}
	return c, err
}

// given is Find for what the agent, or another program that it goes by, was given.
func (v *Values) findGiven(a *spec.Agent, have []vault.Secret) (Found, error) {
	c := givenKey(a, have)
	if c.Secret == "" {
		token, err := v.findToken(a, have)
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

// inEnvironment is Find for variables, of somebody who may have logged in. One that
// is for another server, or that the agent is not to use, is told if there is no other.
func inEnvironment(a *spec.Agent, have []vault.Secret, logged Found) (unfit Found) {
	for _, service := range a.Credentials {
		for _, variable := range agent.Variables(a, service) {
			value := os.Getenv(variable)
			if value == "" {
				continue
			}
			besides := passedOver(a, value, logged)
			c := Found{
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
func (c Found) known() Found {
	c.add, c.Where = nil, "the secret "+c.Secret
	if c.Besides == "" {
		c.say = ""
	}
	return c
}

// besides tells of what counts less than the variable with a value, and is something else:
// other variables, and the login, with which another may pay.
func passedOver(a *spec.Agent, value string, logged Found) (said string) {
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
func (c Found) wanted(a *spec.Agent, service, value string) Found {
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
			return Found{Where: c.Where, Unfit: fmt.Sprintf("%s; to lend it all the same: bothy secret set %s --env %s, and --secret %s when the sandbox is created",
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

// loggedIn is Find for what the agent logged in with on the host.
func (v *Values) findLogin(a *spec.Agent, have []vault.Secret) Found {
	if a.Login == nil {
		return Found{}
	}
	name := a.Name + "-login"
	c := Found{Where: "your login"}
	n := NewSecret{Name: name, Source: vault.Source{Kind: vault.SourceLogin, Agent: a.Name}}
	switch err := v.completeLogin(&n); {
	case errors.Is(err, oauthfile.ErrNone):
		return Found{}
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

// givenKey is Find for keys that the agent was given on the host. One that cannot
// be lent is told if there is no other.
func givenKey(a *spec.Agent, have []vault.Secret) (found Found) {
	if len(a.Keys) == 0 {
		return Found{}
	}
	home, err := store.Home()
	if err != nil {
		return Found{Where: "what it was given", Unfit: spec.Advised(err)}
	}
	var first spec.AgentKey
	var more []string
	for _, how := range a.Keys {
		c := judgeKey(a, how, home, have).meant(a, how.Service)
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
func judgeKey(a *spec.Agent, how spec.AgentKey, home string, have []vault.Secret) (c Found) {
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
