package credential

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/hostcreds"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// Tokens returns the tokens that some tools have on this host; without a name, those of all tools. It
// looks for commands that print tokens, and does not run them.
func (v *Values) Tokens(tools ...string) ([]hostcreds.Token, error) {
	home, err := store.Home()
	if err != nil {
		return nil, err
	}
	list := hostcreds.Find(hostcreds.Host{Home: home, Environ: os.Environ()}, tools...)
	paths, err := hostpath.Load(v.Store)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if t := &list[i]; t.Command != nil {
			_, err := paths.Program(t.Command[0])
			switch {
			case errors.Is(err, spec.ErrDenied):
				t.Err = err
			case err != nil:
				t.Err = spec.Errorf(nil, "only %s reads it, and is not installed", t.Command[0]).WithHint("install %s, or set $%s", t.Command[0], strings.Join(t.Terms.Env[:1], ""))
			}
		}
	}
	return list, nil
}

// ChooseTokens returns the tokens that choices name. It returns an error if a choice has no token that
// can be lent. It tells the user of further tokens that cannot be lent.
func (v *Values) ChooseTokens(choices []hostcreds.Choice) ([]hostcreds.Token, error) {
	chosen, missing, err := v.matchTokens(choices)
	if err != nil || len(missing) == 0 {
		return chosen, err
	}
	return nil, missing[0]
}

// UsualTokens is ChooseTokens for choices that were made for any host: it leaves out a choice that this
// host has no token for.
func (v *Values) UsualTokens(choices []hostcreds.Choice) ([]hostcreds.Token, error) {
	chosen, missing, err := v.matchTokens(choices)
	for _, m := range missing {
		if !errors.Is(m, spec.ErrNotFound) {
			v.tellUser("%s", spec.Advised(m))
		}
	}
	return chosen, err
}

// matchTokens returns the tokens that choices name, and an error for each choice without one.
func (v *Values) matchTokens(choices []hostcreds.Choice) (chosen []hostcreds.Token, missing []error, err error) {
	if len(choices) == 0 {
		return nil, nil, nil
	}
	var tools []string
	for _, c := range choices {
		tools = append(tools, c.Tool)
	}
	all, err := v.Tokens(tools...)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range choices {
		var good, bad []hostcreds.Token
		for _, t := range all {
			switch {
			case t.Err == nil && c.Meant(&t):
				good = append(good, t)
			case t.Err != nil && (c.Meant(&t) || c.Tool == t.Tool && t.Host == ""):
				bad = append(bad, t)
			}
		}
		if len(good) == 0 {
			missing = append(missing, errNoToken(c, bad))
			continue
		}
		for _, t := range bad {
			v.tellUser("not lent: %s", spec.Advised(errUnlendable(&t)))
		}
		chosen = append(chosen, good...)
	}
	return chosen, missing, nil
}

func errNoToken(c hostcreds.Choice, bad []hostcreds.Token) error {
	if len(bad) > 0 {
		return errUnlendable(&bad[0])
	}
	i := slices.IndexFunc(hostcreds.Tools, func(t hostcreds.Tool) bool { return t.Name == c.Tool })
	if i >= 0 && hostcreds.Tools[i].None != "" && c.Host == "" {
		return spec.Errorf(spec.ErrNotFound, "%s", hostcreds.Tools[i].None).WithHint("%s", hostcreds.Tools[i].Get)
	}
	return spec.Errorf(spec.ErrNotFound, "this host has no token for %s", c).
		WithHint("log in with that tool on the host; bothy secret sources shows what there is")
}

func errUnlendable(t *hostcreds.Token) error {
	what := "the token of " + t.Tool
	if t.For != "" {
		what += " for " + t.For
	}
	return &spec.Error{Op: fmt.Sprintf("%s in %s", what, t.From), Err: t.Err, Hint: spec.Hint(t.Err)}
}

// LendToken lends a sandbox the token of a tool. If the sandbox has a lease of it, the returned lease is
// nil.
func (b *Broker) LendToken(ctx context.Context, sb *spec.Sandbox, t *hostcreds.Token) (*spec.Lease, error) {
	name, err := b.Values.tokenSecret(t)
	if err != nil {
		return nil, err
	}
	l, err := b.lendUnless(ctx, sb, name, t.Terms, hasLive(name))
	if l != nil && len(npmLines([]spec.Lease{*l})) > 0 && b.Values.Store.Sandbox(sb.ID).ReadStatus().StartedAt != nil {
		b.Values.tellUser("npm finds the lent credential in ~/%s of sandbox %s from its next start on", npmrcName, sb.Name)
	}
	if l != nil && l.Place.Kind == spec.PlaceSignature && b.Values.Store.Sandbox(sb.ID).ReadStatus().State == spec.Running {
		b.Values.tellUser("git of sandbox %s gets its signing key at the next start; until then: git config --global gpg.format ssh, and the same for user.signingKey", sb.Name)
	}
	return l, err
}

// tokenSecret returns the secret that is read from the place of a token. If the vault has none,
// tokenSecret adds it under a free name.
func (v *Values) tokenSecret(t *hostcreds.Token) (string, error) {
	source := vault.Source{Kind: vault.SourceTool, Tool: t.Tool, For: t.For}
	have, err := v.Secrets()
	if err != nil {
		return "", err
	}
	if name := nameOfSource(have, source); name != "" {
		return name, nil
	}
	c, err := v.vault().Begin()
	if err != nil {
		return "", err
	}
	defer c.End()
	if name := nameOfSource(c.Secrets, source); name != "" { // another process was faster
		return name, nil
	}
	return v.addSecret(c, NewSecret{Name: freeSecret(c.Document, t), Service: t.Service, Source: source})
}

// addSecret adds a new secret, which no sandbox is lent. The caller holds the lock of the vault.
func (v *Values) addSecret(c *vault.Change, n NewSecret) (string, error) {
	if err := vault.CheckName(n.Name); err != nil {
		return "", err
	}
	s := newSecret(c, n)
	if err := v.putSecret(c, &s); err != nil {
		return "", err
	}
	return s.Name, nil
}

// nameOfSource returns the name of the secret with a source.
func nameOfSource(have []vault.Secret, source vault.Source) string {
	for _, s := range have {
		if reflect.DeepEqual(s.Source, source) {
			return s.Name
		}
	}
	return ""
}

// freeSecret returns the usual name of the secret for a token, numbered if it is taken.
func freeSecret(d *vault.Document, t *hostcreds.Token) string {
	base := "lent-" + t.Tool
	if t.Host != "" && t.Tool != "github" {
		base += "-" + strings.Map(replaceInName, t.Host)
	}
	base = base[:min(len(base), 60)]
	name := base
	for n := 2; slices.ContainsFunc(d.Secrets, func(s vault.Secret) bool { return s.Name == name }); n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return name
}

// replaceInName replaces a character that the name of a secret cannot have.
func replaceInName(r rune) rune {
	if r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' {
		return r
	}
	return '-'
}

func (v *Values) readToken(ctx context.Context, s vault.Source) ([]byte, error) {
	list, err := v.Tokens(s.Tool)
	if err != nil {
		return nil, err
	}
	why := spec.Errorf(spec.ErrNotFound, "%s has no token for %s any more", s.Tool, s.For).
		WithHint("log in with it on the host; bothy secret sources shows what there is")
	for _, t := range list {
		switch {
		case t.For != s.For && t.For != "":
		case t.Err != nil:
			why = spec.Errorf(nil, "%w", errUnlendable(&t)).WithHint("%s", spec.Hint(t.Err))
		case t.Command != nil:
			paths, err := hostpath.Load(v.Store)
			if err != nil {
				return nil, err
			}
			return v.runSource(ctx, paths, t.Command)
		default:
			return t.Value, nil
		}
	}
	return nil, why
}
