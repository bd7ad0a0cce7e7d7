package cli

import (
	"errors"
	"slices"

	"github.com/bothy-dev/bothy/internal/cli/command"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/token"
	"github.com/bothy-dev/bothy/spec"
)

// lendNothing is the word for nothing, not even what the settings lend.
const lendNothing = "none"

// tokenChoice is what --lend and the settings ask for.
type tokenChoice struct {
	asked, usual []token.Choice
}

// tokenChoice reads --lend.
func (a *app) tokenChoice(words []string) (c tokenChoice, err error) {
	if slices.Contains(words, lendNothing) {
		if len(words) > 1 {
			return c, spec.Errorf(spec.ErrUsage, "--lend %s goes with no other", lendNothing)
		}
		return c, nil
	}
	if c.asked, err = token.ParseChoices(words); err != nil {
		return c, &spec.Error{Op: "--lend", Err: err, Hint: spec.Hint(err)}
	}
	c.usual = slices.DeleteFunc(slices.Clone(a.config.lend), func(u token.Choice) bool { return slices.Contains(c.asked, u) })
	return c, nil
}

// lendUsual lends a sandbox that is new what the settings say, and that it has not
// yet. What cannot be lent keeps nobody from work: it is said.
func (a *app) lendUsual(cmd *command.Command, e *engine.Engine, sb *spec.Sandbox, c tokenChoice) {
	usual, err := e.UsualTokens(c.usual)
	for _, t := range usual {
		err = errors.Join(err, a.lendTokens(cmd, e, sb, []token.Token{t}))
	}
	if err != nil {
		a.note("not all that the settings say is lent: %s", printable(err.Error()))
	}
}

// lendTokens lends them, unless they are lent already.
func (a *app) lendTokens(cmd *command.Command, e *engine.Engine, sb *spec.Sandbox, list []token.Token) error {
	for _, t := range list {
		l, err := e.LendToken(cmd.Context(), sb, &t)
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
func toolNames(*command.Command, []string, string) ([]string, command.Directive) {
	names := []string{lendNothing + "\tnot even what the settings lend"}
	for _, t := range token.Tools {
		names = append(names, t.Name+"\t"+t.Title)
	}
	return names, command.NoFiles
}
