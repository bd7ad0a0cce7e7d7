package cli

import (
	"fmt"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/cli/command"
	"github.com/bothy-dev/bothy/spec"
)

// maxForks is what one command makes at most.
const maxForks = 100

func (a *app) forkCommand() *command.Command {
	var name, from string
	var count int
	c := &command.Command{
		Use:   "fork [-n COUNT] SANDBOX",
		Short: "Make new sandboxes that begin with the files of another",
		Long:  "Makes new sandboxes that begin with the files that SANDBOX has now, or had at a\ncheckpoint, with the same rules and the same credentials lent. It goes on meanwhile.\nPrograms that run in it do not run in the forks. What the forks change in your\ndirectories waits for bothy diff and apply.",
		Args:  exactly(1, "a sandbox"), Complete: a.oneSandbox,
		RunE: func(cmd *command.Command, args []string) error {
			if count < 1 || count > maxForks {
				return spec.Errorf(spec.ErrUsage, "-n takes a number from 1 to %d", maxForks)
			}
			e, sb, err := a.existing(args[0])
			if err != nil {
				return err
			}
			var p checkpoint.Point
			if from != "" {
				p, err = e.Checkpoints(sb).Find(from)
			} else {
				p, err = e.Checkpoint(cmd.Context(), sb, "", "fork")
			}
			if err != nil {
				return err
			}
			a.noteFork(sb)
			forks := []*spec.Sandbox{}
			for i := range count {
				called := name
				if name != "" && count > 1 {
					called = fmt.Sprintf("%s-%d", name, i+1)
				}
				f, err := e.Fork(cmd.Context(), sb, p, called)
				if err != nil {
					return err
				}
				if !a.json {
					fmt.Fprintln(a.stdout, f.Name)
				}
				forks = append(forks, f)
			}
			if a.json {
				return a.printJSON(forks)
			}
			return nil
		},
	}
	c.Flags().IntVarP(&count, "count", "n", 1, "how many")
	c.Flags().StringVar(&name, "name", "", "what it is called; several are NAME-1, NAME-2, ... (default SANDBOX-fork-1, ...)")
	c.Flags().StringVar(&from, "checkpoint", "", "begin from this checkpoint, not from now")
	return a.jsonFlag(c)
}
