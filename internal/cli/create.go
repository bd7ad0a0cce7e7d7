package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/engine"
)

func (a *app) createCommand() *cobra.Command {
	f := &cmdline.CreateFlags{}
	c := &cobra.Command{
		Use:               "create [flags] AGENT [PATH[:ro]]...",
		Short:             "Create a sandbox without starting it",
		Long:              "Creates a sandbox. Without PATH it has no project of the host in it.",
		Args:              cmdline.AtLeast(1, "an agent, e.g. claude, or shell"),
		ValidArgsFunction: a.completeCreate,
		RunE: a.OnEngine(func(cmd *cobra.Command, args []string, e *engine.Engine) error {
			req, err := f.Request(a.App, args[0], args[1:])
			if err != nil {
				return err
			}
			ctx, release := cmdline.Interruptible(cmd.Context())
			defer release()
			p := a.Provisioner(e)
			pl, err := p.Plan(req, false)
			if err != nil {
				return err
			}
			a.ShowPlan(pl)
			sb, err := p.Create(ctx, pl, nil)
			if err != nil && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				return err
			}
			a.AdviseGit(cmd, pl)
			if a.JSON {
				return a.PrintJSON(sb)
			}
			fmt.Fprintln(a.Out, sb.Name)
			if !f.Quiet {
				a.WarnShared(e, sb)
				a.Note("created; start it with: bothy run --name %s", sb.Name)
			}
			return nil
		}),
	}
	f.Add(a.App, c)
	c.Flags().Lookup("quiet").Usage = "print the name only"
	f.Budget.Add(c)
	cmdline.CompleteFlag(c, "secret", a.SecretNames)
	return a.JSONFlag(c)
}
