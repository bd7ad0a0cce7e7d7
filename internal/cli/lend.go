package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/hostcreds"
	"github.com/bothy-dev/bothy/spec"
)

// lendNothing is the word for nothing, not even what the settings lend.
const lendNothing = "none"

// tokenChoice is what --lend and the settings ask for.
type tokenChoice struct {
	asked, usual []hostcreds.Choice
}

// tokenChoice reads --lend.
func (a *app) tokenChoice(words []string) (c tokenChoice, err error) {
	each := strings.Split(strings.Join(words, ","), ",")
	if slices.ContainsFunc(each, func(w string) bool { return strings.TrimSpace(w) == lendNothing }) {
		if len(each) > 1 {
			return c, spec.Errorf(spec.ErrUsage, "--lend %s goes with no other", lendNothing)
		}
		return c, nil
	}
	if c.asked, err = hostcreds.ParseChoices(words); err != nil {
		return c, &spec.Error{Op: "--lend", Err: err, Hint: spec.Hint(err)}
	}
	c.usual = slices.DeleteFunc(slices.Clone(a.settings.Lend), func(u hostcreds.Choice) bool { return slices.Contains(c.asked, u) })
	return c, nil
}

// loans are what a command asks to be lent.
type loans struct {
	secrets []lendAt
	tokens  []hostcreds.Token // of tools
	usual   []hostcreds.Choice
}

// loans reads --secret and --lend. What there is not is told before anything is
// made.
func (a *app) loans(e *engine.Engine, f *createFlags) (w loans, err error) {
	if w.secrets, err = parseLend(f.secrets); err != nil {
		return w, err
	}
	choice, err := a.tokenChoice(f.lend)
	if err != nil {
		return w, err
	}
	w.usual = choice.usual
	w.tokens, err = e.Credentials().Values.ChooseTokens(choice.asked)
	return w, err
}

// lendAll lends a sandbox what is asked for, what its agent can log in with if it
// never had that, and if it is still made what the settings say.
func (a *app) lendAll(cmd *cobra.Command, e *engine.Engine, l *lodger, sb *spec.Sandbox, w loans, making bool) error {
	var err error
	if (making || l.spec != nil) && e.Credentials().NeverLent(sb) {
		w.secrets, err = a.credential(cmd, e, l, sb, w.secrets)
	}
	if err == nil {
		err = a.lend(cmd, e, sb, l.spec, w.secrets)
	}
	if err == nil && (making || e.Credentials().NeverLent(sb)) {
		_, err = e.Credentials().LendServerKey(cmd.Context(), sb, l.spec)
	}
	if err == nil {
		err = a.lendTokens(cmd, e, sb, w.tokens)
	}
	if err == nil && making {
		a.lendUsual(cmd, e, sb, w.usual)
	}
	return err
}

// lendUsual lends a sandbox that is new what the settings say, and that it has not
// yet. What cannot be lent keeps nobody from work: it is said.
func (a *app) lendUsual(cmd *cobra.Command, e *engine.Engine, sb *spec.Sandbox, choices []hostcreds.Choice) {
	usual, err := e.Credentials().Values.UsualTokens(choices)
	for _, t := range usual {
		err = errors.Join(err, a.lendTokens(cmd, e, sb, []hostcreds.Token{t}))
	}
	if err != nil {
		a.Note("not all that the settings say is lent: %s", console.Printable(err.Error()))
	}
}

// lendTokens lends them, unless they are lent already.
func (a *app) lendTokens(cmd *cobra.Command, e *engine.Engine, sb *spec.Sandbox, list []hostcreds.Token) error {
	for _, t := range list {
		l, err := e.Credentials().LendToken(cmd.Context(), sb, &t)
		if err != nil {
			return err
		}
		if l != nil {
			a.warnUnreachable(e, sb, l)
		}
	}
	return nil
}

// toolNames completes --lend.
func toolNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	names := []string{lendNothing + "\tnot even what the settings lend"}
	for _, t := range hostcreds.Tools {
		names = append(names, t.Name+"\t"+t.Title)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
