package cli

import (
	"github.com/bothy-dev/bothy/internal/cli/command"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) discardCommand() *command.Command {
	var force bool
	c := &command.Command{
		Use:   "discard [-f] SANDBOX [PATH...]",
		Short: "Throw away what a sandbox changed and you have not applied",
		Long:  "Throws away what a sandbox made with --workspace review has changed and you have not\napplied: all of it, or what PATHs name. It then sees your files as they are. The\nsandbox must be stopped.",
		Args:  atLeast(1, "a sandbox"), Complete: a.oneSandbox,
		RunE: func(_ *command.Command, args []string) error {
			e, sb, list, err := a.review(args[0], args[1:])
			if err != nil {
				return err
			}
			count := 0
			for _, r := range list {
				if len(args) == 1 && r.kept > 0 { // all means all
					if r.changes, err = r.Changes(); err != nil {
						return err
					}
				}
				for _, c := range r.changes {
					if !c.Implied {
						count++
					}
				}
			}
			if count == 0 {
				return nil
			}
			if !force && !a.canAsk() {
				return spec.Errorf(spec.ErrUsage, "discard would throw %d changes away", count).
					WithHint("add -f, or run it in a terminal, where it asks")
			}
			if !force && !a.ask("throw %d changes of sandbox %s away?", count, sb.Name) {
				return spec.Errorf(spec.ErrDenied, "nothing was discarded")
			}
			t := settlement{app: a}
			for _, r := range list {
				done, err := e.Discard(sb, r.Workspace, r.changes)
				t.add(r, done)
				if err != nil {
					_ = t.print()
					return err
				}
			}
			if err := t.print(); err != nil {
				return err
			}
			return t.verdict(sb)
		},
	}
	c.Flags().BoolVarP(&force, "force", "f", false, "do not ask")
	return a.jsonFlag(c)
}
