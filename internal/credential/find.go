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

// Found is a credential for an agent on this host.
type Found struct {
	Secret string // its secret, or the name of the secret that SecretFor makes of it; empty: none can be lent
	Where  string // its place, for the user
	Unfit  string // why it cannot be lent
	// Besides names other credentials that were not chosen, to be appended to a message about this
	// one. It may be empty.
	Besides string

	add  *NewSecret       // the secret to make of it; nil if the secret exists
	say  string           // the message about it
	from *spec.AgentToken // its description, if it is a token of another program, which may not fit
}

// Find looks for something that an agent can log in with, and changes nothing. It returns, in this
// order: a secret of the vault, a variable of the caller's environment, the agent's login on the host,
// a key that the agent keeps there, a token of another program. Of several services of the agent, the
// first with a credential counts.
func (v *Values) Find(a *spec.Agent) (Found, error) {
	have, err := v.Secrets()
	if err != nil {
		return Found{}, err
	}
	for _, service := range a.Credentials {
		for _, s := range have {
			// Logins, keys and tokens belong to one agent, and come last. Variables come before
			// them, whether or not they are secrets by now: the order in which they became secrets
			// must not matter.
			own := !slices.Contains([]vault.SourceKind{vault.SourceLogin, vault.SourceKey, vault.SourceTool}, s.Source.Kind)
			if !own || !servesAgent(a, &s, service) || ofVariable(a, &s) {
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

// findGiven is Find for keys of the agent, and for tokens of other programs.
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

// servesAgent reports whether a secret belongs to one of an agent's services. A secret of a service that
// only the agent's description defines has the name of the service.
func servesAgent(a *spec.Agent, s *vault.Secret, service string) bool {
	if _, own := a.Services[service]; own {
		return s.Service == "" && s.Name == service
	}
	return s.Service == service
}

// inEnvironment is Find for variables of the environment. If none can be lent, it returns the first
// that is for another server, or that the agent is not to use. logged is the agent's login.
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
			}.unlessElsewhere(a, service).unlessRefused(a, service, value)
			i := slices.IndexFunc(have, func(h vault.Secret) bool { return h.Name == service })
			switch {
			case c.Secret == "" && unfit.Where == "":
				unfit = c
			case c.Secret != "" && i < 0:
				return c
			case c.Secret != "" && ofVariable(a, &have[i]) && have[i].Source.Variable == variable:
				return c.asSecret()
			}
		}
	}
	return unfit
}

// ofVariable reports whether a secret was made of one of an agent's variables.
func ofVariable(a *spec.Agent, s *vault.Secret) bool {
	return s.Source.Kind == vault.SourceEnvironment && slices.Contains(a.Credentials, s.Name) &&
		slices.Contains(agent.Variables(a, s.Name), s.Source.Variable)
}

// asSecret returns a credential that is a secret by now. The user is told about it only if another
// credential was passed over.
func (c Found) asSecret() Found {
	c.add, c.Where = nil, "the secret "+c.Secret
	if c.Besides == "" {
		c.say = ""
	}
	return c
}

// passedOver names the credentials that are passed over for a variable with a value: variables with
// other values, and the login, which another account may pay for.
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

// unlessRefused returns a credential, or why it is unfit, if the user told the agent on this host not to
// use its value: the agent pays with something else there.
func (c Found) unlessRefused(a *spec.Agent, service, value string) Found {
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
			why = fmt.Sprintf("it is unknown whether you told %s on this host not to use it: %v", a.Title, err)
		}
		if refused || err != nil {
			return Found{Where: c.Where, Unfit: fmt.Sprintf("%s; to lend it all the same: bothy secret set %s --env %s, and --secret %s when the sandbox is created",
				why, service, c.add.Source.Variable, service)}
		}
	}
	return c
}

// serviceOf returns the service of a value in the vault; "" if only the agent's description defines
// it. Users often set a subscription's token where an API key is expected.
func serviceOf(a *spec.Agent, service, value string) string {
	if _, own := a.Services[service]; own {
		return ""
	}
	return vault.SortService(service, []byte(value))
}

// offerSecret completes a credential that can be lent as a new secret, or is that secret since an earlier Find. lent is
// the end of the message about a new secret.
func (c Found) offerSecret(a *spec.Agent, have []vault.Secret, n NewSecret, lent string) Found {
	i := slices.IndexFunc(have, func(s vault.Secret) bool { return s.Name == n.Name })
	if i >= 0 && (have[i].Source.Kind != n.Source.Kind || have[i].Source.Agent != a.Name) {
		c.Unfit = n.Name + " is a secret of another kind"
		return c
	}
	c.Secret = n.Name
	if i < 0 || !reflect.DeepEqual(have[i].Source, n.Source) {
		c.add, c.say = &n, fmt.Sprintf("%s is lent, as the secret %s%s", c.Where, n.Name, lent)
	}
	return c
}

// findLogin is Find for the agent's login on the host.
func (v *Values) findLogin(a *spec.Agent, have []vault.Secret) Found {
	if a.Login == nil {
		return Found{}
	}
	c := Found{Where: "your login"}
	n := NewSecret{Name: a.Name + "-login", Source: vault.Source{Kind: vault.SourceLogin, Agent: a.Name}}
	switch err := v.completeLogin(&n); {
	case errors.Is(err, oauthfile.ErrNone):
		return Found{}
	case err != nil:
		c.Unfit = spec.Advised(err)
		return c
	}
	c.Where = "your login " + n.Source.Path
	return c.offerSecret(a, have, n, "; the sandbox sees placeholders")
}

// givenKey is Find for keys that the agent keeps on the host. If none can be lent, it returns the first
// that cannot.
func givenKey(a *spec.Agent, have []vault.Secret) (found Found) {
	if len(a.Keys) == 0 {
		return Found{}
	}
	home, err := store.Home()
	if err != nil {
		return Found{Where: "a key that it keeps", Unfit: spec.Advised(err)}
	}
	var first spec.AgentKey
	var more []string
	for _, how := range a.Keys {
		c := judgeKey(a, how, home, have).unlessElsewhere(a, how.Service)
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

// judgeKey is givenKey for one of the places that a description names.
func judgeKey(a *spec.Agent, how spec.AgentKey, home string, have []vault.Secret) (c Found) {
	key := oauthfile.FindKey(how, home, os.Getenv)
	value, err := key.Read()
	if errors.Is(err, oauthfile.ErrNone) {
		return c
	}
	c.Where = "the key in " + key.Path
	if errors.Is(err, oauthfile.ErrCommand) {
		c.Where = "the output of the command at " + how.Key + " in " + key.Path
		c.Unfit = fmt.Sprintf("%v; if you trust it: bothy secret set %s --command COMMAND", err, how.Service)
		return c
	}
	if err != nil && !errors.Is(err, spec.ErrDenied) { // the file may or may not have a key
		c.Where = "a key that may be in " + key.Path
	}
	if err != nil {
		c.Unfit = spec.Advised(err)
		return c
	}
	return c.offerSecret(a, have, NewSecret{
		Name: a.Name + "-" + how.Service + "-key", Service: vault.SortService(how.Service, []byte(value)),
		Source: vault.Source{Kind: vault.SourceKey, Agent: a.Name, Path: key.Path, Pointer: key.Pointer},
	}, "; the sandbox sees a placeholder")
}

func readKey(s vault.Source) ([]byte, error) {
	value, err := oauthfile.Key{Path: s.Path, Pointer: s.Pointer}.Read()
	if errors.Is(err, oauthfile.ErrNone) {
		err = spec.Errorf(spec.ErrNotFound, "%s no longer has a key", s.Path).
			WithHint("give %s one on the host, or: bothy secret set", s.Agent)
	} else if err != nil {
		err = &spec.Error{Op: "read the key in " + s.Path, Err: err, Hint: spec.Hint(err)}
	}
	return []byte(value), err
}
