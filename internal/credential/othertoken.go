package credential

import (
	"context"
	"slices"

	"github.com/bothy-dev/bothy/internal/hostcreds"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// findToken is Find for tokens of other programs of the host. If none can be lent, it returns the first
// that cannot.
func (v *Values) findToken(a *spec.Agent, have []vault.Secret) (unfit Found, err error) {
	for i := range a.Tokens {
		c, err := v.judgeToken(a, &a.Tokens[i], have)
		c = c.unlessElsewhere(a, a.Tokens[i].Service)
		if err != nil || c.Secret != "" {
			return c, err
		}
		if unfit.Unfit == "" {
			unfit = c
		}
	}
	return unfit, nil
}

// judgeToken is findToken for one of the tokens that a description names.
func (v *Values) judgeToken(a *spec.Agent, how *spec.AgentToken, have []vault.Secret) (c Found, err error) {
	if !slices.Contains(hostcreds.Names(), how.Tool) {
		return c, spec.Errorf(spec.ErrUsage, "tokens: no tokens of %q are known", how.Tool)
	}
	t, err := v.hostToken(how)
	if err != nil || t == nil {
		return c, err
	}
	c.Where = "the token of " + how.Tool + " in " + t.From
	if t.Host == "" { // the file may or may not have a token
		c.Where = "a token that may be in " + t.From
	}
	switch {
	case t.Err != nil:
		c.Unfit = spec.Advised(t.Err)
		return c, nil
	case t.Command == nil && !vault.Takes(how.Service, t.Service, t.Value):
		c.Unfit = spec.Advised(errOtherKind(a, how.Service))
		return c, nil
	}
	c = c.offerSecret(a, have, NewSecret{
		Name: a.Name + "-" + how.Tool + "-token", Service: how.Service,
		Source: vault.Source{Kind: vault.SourceTool, Agent: a.Name, Tool: how.Tool, For: t.For},
	}, ", only for requests of "+a.Title+" that need it; the sandbox sees a placeholder")
	if c.Secret != "" {
		c.from = how
	}
	return c, nil
}

// hostToken returns the token that a tool has for a server. If it has none, it returns a file of the
// tool that cannot be read, or else nil.
func (v *Values) hostToken(how *spec.AgentToken) (*hostcreds.Token, error) {
	list, err := v.Tokens(how.Tool)
	for _, host := range []string{how.Server, ""} {
		i := slices.IndexFunc(list, func(t hostcreds.Token) bool { return t.Host == host && (host != "" || t.Err != nil) })
		if i >= 0 {
			return &list[i], nil
		}
	}
	return nil, err
}

// errOtherKind is the error for a token of a kind that an agent does not take.
func errOtherKind(a *spec.Agent, service string) error {
	return spec.Errorf(spec.ErrDenied, "it is of a kind that %s does not take", a.Title).WithHint("bothy secret set %s", service)
}

// tryToken reads a token that another program prints, before a sandbox gets a lease of it: the program
// may have none, or one of another kind.
func (v *Values) tryToken(ctx context.Context, a *spec.Agent, c Found) error {
	if c.from == nil {
		return nil
	}
	t, err := v.hostToken(c.from)
	if err != nil || t == nil || t.Command == nil { // no program has to be asked
		return err
	}
	ctx, settle := v.untilSignal(ctx)
	defer settle()
	value, err := v.readToken(ctx, vault.Source{Kind: vault.SourceTool, Tool: t.Tool, For: t.For})
	if err == nil {
		value, err = vault.CleanValue(value)
	}
	if err == nil && !vault.Takes(c.from.Service, t.Service, value) {
		err = errOtherKind(a, c.from.Service)
	}
	return err
}

// narrowTerms limits a token of another program, and a key that allows more than the agent needs, to the
// paths that the agent needs. Terms with paths of their own stay as they are.
func narrowTerms(a *spec.Agent, s *vault.Secret, t *vault.Terms) {
	if s.Source.Agent != a.Name || len(t.Paths) > 0 {
		return
	}
	for _, how := range a.Tokens {
		if s.Source.Kind == vault.SourceTool && how.Tool == s.Source.Tool {
			t.Paths = slices.Clone(how.Paths)
		}
	}
	for _, how := range a.Keys {
		if s.Source.Kind == vault.SourceKey && how.Key == s.Source.Pointer {
			t.Paths = slices.Clone(how.Paths)
		}
	}
}
