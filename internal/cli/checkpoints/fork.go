package checkpoints

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) forkCommand() *cobra.Command {
	var name, from string
	var count int
	var files bool
	c := &cobra.Command{
		Use:   "fork [-n COUNT] SANDBOX",
		Short: "Make copies of a sandbox that go on by themselves",
		Long:  "Makes new sandboxes that begin with what SANDBOX is now, or was at a checkpoint, with the\nsame rules and the same credentials lent. It goes on meanwhile. If it runs, the programs\nrun in each fork, too, and go on from this moment for themselves; but not those that\nbothy exec waits for without a terminal. Their connections are broken off. What the\nforks change in your directories waits for bothy diff and apply.",
		Args:  cmdline.Exactly(1, "a sandbox"), ValidArgsFunction: a.OneSandbox,
		RunE: func(cmd *cobra.Command, args []string) error {
			if count < 1 { // a request takes 0 for one
				count = -1
			}
			e, err := a.Engine()
			if err != nil {
				return err
			}
			p := a.Provisioner(e)
			pl, err := p.PlanFork(spec.ForkRequest{Sandbox: args[0], Count: count, Name: name, Checkpoint: from, Files: files})
			if err != nil {
				return err
			}
			for _, note := range pl.Notes {
				a.Note("%s", note)
			}
			ctx, release := cmdline.Interruptible(cmd.Context())
			defer release()
			forks, err := p.Fork(ctx, pl)
			if ctx.Err() != nil { // forks not finished were removed again
				err = context.Cause(ctx)
			}
			return console.Join([]error{err, a.printForks(forks)})
		},
	}
	c.Flags().IntVarP(&count, "count", "n", 1, "how many")
	c.Flags().StringVar(&name, "name", "", "name of the fork; several are NAME-1, NAME-2, ... (default SANDBOX-fork-1, ...)")
	c.Flags().StringVar(&from, "checkpoint", "", "begin from this checkpoint, not from now")
	c.Flags().BoolVar(&files, "files", false, "begin with the files alone; no program runs in the forks")
	return a.JSONFlag(c)
}

// printForks prints the forks that were made, which may be fewer than requested.
func (a *app) printForks(forks []*spec.Sandbox) error {
	if a.JSON && len(forks) > 0 {
		return a.PrintJSON(forks)
	}
	for _, f := range forks {
		fmt.Fprintln(a.Out, f.Name)
	}
	return nil
}
