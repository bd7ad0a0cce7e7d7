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

// Tokens are those that tools of this host have, of all tools without a name. A
// command that would print one is looked for and not run.
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
				t.Err = spec.Errorf(nil, "only %s reads it, and is not there", t.Command[0]).WithHint("install %s, or set $%s", t.Command[0], strings.Join(t.Terms.Env[:1], ""))
			}
		}
	}
	return list, nil
}

// ChooseTokens gives the tokens that choices mean. It is an error if there is none
// for one of them; those beside it that cannot be lent are told.
func (v *Values) ChooseTokens(choices []hostcreds.Choice) ([]hostcreds.Token, error) {
	chosen, missing, err := v.matchTokens(choices)
	if err != nil || len(missing) == 0 {
		return chosen, err
	}
	return nil, missing[0]
}

// UsualTokens is ChooseTokens for choices that are made for any host: of what there
// is not nothing is said.
func (v *Values) UsualTokens(choices []hostcreds.Choice) ([]hostcreds.Token, error) {
	chosen, missing, err := v.matchTokens(choices)
	for _, m := range missing {
		if !errors.Is(m, spec.ErrNotFound) {
			v.say("%s", spec.Advised(m))
		}
	}
	return chosen, err
}

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
			missing = append(missing, noToken(c, bad))
			continue
		}
		for _, t := range bad {
			v.say("not lent: %s", spec.Advised(unlendable(&t)))
		}
		chosen = append(chosen, good...)
	}
	return chosen, missing, nil
}

// noToken says why there is no token for a choice.
func noToken(c hostcreds.Choice, bad []hostcreds.Token) error {
	if len(bad) > 0 {
		return unlendable(&bad[0])
	}
	i := slices.IndexFunc(hostcreds.Tools, func(t hostcreds.Tool) bool { return t.Name == c.Tool })
	if i >= 0 && hostcreds.Tools[i].None != "" && c.Host == "" {
		return spec.Errorf(spec.ErrNotFound, "%s", hostcreds.Tools[i].None).WithHint("%s", hostcreds.Tools[i].Get)
	}
	return spec.Errorf(spec.ErrNotFound, "this host has no token for %s", c).
		WithHint("log in with that tool on the host; bothy secret sources shows what there is")
}

// unlendable says why a token is not lent.
func unlendable(t *hostcreds.Token) error {
	what := "the token of " + t.Tool
	if t.For != "" {
		what += " for " + t.For
	}
	return &spec.Error{Op: fmt.Sprintf("%s in %s", what, t.From), Err: t.Err, Hint: spec.Hint(t.Err)}
}

// LendToken lends a sandbox the token of a tool. If it has it already the lease is
// nil.
func (b *Broker) LendToken(ctx context.Context, sb *spec.Sandbox, t *hostcreds.Token) (*spec.Lease, error) {
	name, err := b.Values.tokenSecret(t)
	if err != nil {
		return nil, err
	}
	l, err := b.lendUnless(ctx, sb, name, t.Terms, hasLive(name))
	if l != nil && len(npmLines([]spec.Lease{*l})) > 0 && b.Values.Store.Sandbox(sb.ID).ReadStatus().StartedAt != nil {
		b.Values.say("npm finds what is lent in ~/%s of sandbox %s from its next start on", npmrcName, sb.Name)
	}
	if l != nil && l.Place.Kind == spec.PlaceSignature && b.Values.Store.Sandbox(sb.ID).ReadStatus().State == spec.Running {
		b.Values.say("git of sandbox %s hears by which key it signs at its next start; until then name one: git config --global gpg.format ssh, and user.signingKey", sb.Name)
	}
	return l, err
}

// secretOf gives the secret that is read from where a token stands. If there is none, one is
// made of a name that no other has.
func (v *Values) tokenSecret(t *hostcreds.Token) (string, error) {
	source := vault.Source{Kind: vault.SourceTool, Tool: t.Tool, For: t.For}
	have, err := v.Secrets()
	if err != nil {
		return "", err
	}
	if name := nameOf(have, source); name != "" {
		return name, nil
	}
	c, err := v.vault().Begin()
	if err != nil {
		return "", err
	}
	defer c.End()
	if name := nameOf(c.Secrets, source); name != "" { // somebody was faster
		return name, nil
	}
	return v.addSecret(c, NewSecret{Name: freeSecret(c.Document, t), Service: t.Service, Source: source})
}

// addSecret adds one that is not there yet, and so lent to nobody. The caller has the lock of
// the vault.
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

// nameOf gives the secret of a source.
func nameOf(have []vault.Secret, source vault.Source) string {
	for _, s := range have {
		if reflect.DeepEqual(s.Source, source) {
			return s.Name
		}
	}
	return ""
}

// freeSecret is the usual name of the secret for a token, numbered if it is taken.
func freeSecret(d *vault.Document, t *hostcreds.Token) string {
	base := "lent-" + t.Tool
	if t.Host != "" && t.Tool != "github" {
		base += "-" + strings.Map(inName, t.Host)
	}
	base = base[:min(len(base), 60)]
	name := base
	for n := 2; slices.ContainsFunc(d.Secrets, func(s vault.Secret) bool { return s.Name == name }); n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return name
}

// inName keeps what may stand in the name of a secret.
func inName(r rune) rune {
	if r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' {
		return r
	}
	return '-'
}

// readToken reads the source of a tool's token.
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
			why = spec.Errorf(nil, "%w", unlendable(&t)).WithHint("%s", spec.Hint(t.Err))
		case t.Command != nil:
			paths, err := hostpath.Load(v.Store)
			if err != nil {
				return nil, err
			}
			return runSource(ctx, paths, t.Command)
		default:
			return t.Value, nil
		}
	}
	return nil, why
}
