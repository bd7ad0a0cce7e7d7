package credential

import (
	"context"
	"slices"

	"github.com/bothy-dev/bothy/internal/hostcreds"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// otherToken is Find for tokens of other programs of the host. One that cannot be
// lent is told if there is no other.
func (v *Values) findToken(a *spec.Agent, have []vault.Secret) (unfit Found, err error) {
	for i := range a.Tokens {
		c, err := v.judgeToken(a, &a.Tokens[i], have)
		c = c.meant(a, a.Tokens[i].Service)
		if err != nil || c.Secret != "" {
			return c, err
		}
		if unfit.Unfit == "" {
			unfit = c
		}
	}
	return unfit, nil
}

// tokenOf is otherToken for one of those that a description names.
func (v *Values) judgeToken(a *spec.Agent, how *spec.AgentToken, have []vault.Secret) (c Found, err error) {
	if !slices.Contains(hostcreds.Names(), how.Tool) {
		return c, spec.Errorf(spec.ErrUsage, "tokens: no tokens of %q are known", how.Tool)
	}
	t, err := v.hostToken(how)
	if err != nil || t == nil {
		return c, err
	}
	c.Where = "the token of " + how.Tool + " in " + t.From
	if t.Host == "" { // nobody knows whether there is one
		c.Where = "what " + t.From + " may have of a token"
	}
	name := a.Name + "-" + how.Tool + "-token"
	source := vault.Source{Kind: vault.SourceTool, Agent: a.Name, Tool: how.Tool, For: t.For}
	i := slices.IndexFunc(have, func(s vault.Secret) bool { return s.Name == name })
	switch {
	case t.Err != nil:
		c.Unfit = spec.Advised(t.Err)
	case t.Command == nil && !vault.Takes(how.Service, t.Service, t.Value):
		c.Unfit = spec.Advised(otherKind(a, how))
	case i >= 0 && (have[i].Source.Kind != vault.SourceTool || have[i].Source.Agent != a.Name):
		c.Unfit = name + " is a secret of another kind"
	default:
		c.Secret, c.from = name, how
		if i < 0 || have[i].Source.For != t.For {
			c.add = &NewSecret{Name: name, Service: how.Service, Source: source}
			c.say = c.Where + " is lent, as the secret " + name + ", for what " + a.Title + " asks with it and nothing else; the sandbox sees a placeholder"
		}
	}
	return c, nil
}

// tokenFor is what the tool has for the server, or a file of it that cannot be read; nil if
// neither.
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

func otherKind(a *spec.Agent, how *spec.AgentToken) error {
	return spec.Errorf(spec.ErrDenied, "it is of a kind that %s does not take", a.Title).WithHint("bothy secret set %s", how.Service)
}

// tryToken reads a token of another program before a sandbox has a lease of it: what has to
// be asked of that program may not be there, or be of another kind.
func (v *Values) tryToken(ctx context.Context, a *spec.Agent, c Found) error {
	if c.from == nil {
		return nil
	}
	t, err := v.hostToken(c.from)
	if err != nil || t == nil || t.Command == nil { // it is here already
		return err
	}
	ctx, settle := untilSignal(ctx)
	defer settle()
	value, err := v.readToken(ctx, vault.Source{Kind: vault.SourceTool, Tool: t.Tool, For: t.For})
	if err == nil {
		value, err = vault.CleanValue(value)
	}
	if err == nil && !vault.Takes(c.from.Service, t.Service, value) {
		err = otherKind(a, c.from)
	}
	return err
}

// narrow has a token of another program, and a key that may do more than the agent needs, go to
// where the agent needs it, and nowhere else, unless the terms say so themselves.
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
