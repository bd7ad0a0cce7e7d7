package runs

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/run"
)

// oneRun completes a run of a kind.
func (a *app) oneRun(kind string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		e, err := a.Engine()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		list, err := run.ListOf(e.Store.Runs(), kind)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, r := range list {
			names = append(names, r.ID)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// eachRun calls do for each named run, and prints the ID of each success.
func (a *app) eachRun(refs []string, do func(ref string) (*run.Run, error)) error {
	var errs []error
	for _, ref := range refs {
		r, err := do(ref)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintln(a.Out, r.ID)
	}
	return console.Join(errs)
}

// enduring is [interruptible] for a command that may take hours. It continues when the reader of its
// output exits, as head does; only the output is lost. Child processes get SIGPIPE as usual,
// which they would not if the signal were ignored.
func enduring(ctx context.Context) (context.Context, func()) {
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE) // from here on a failed write is an error
	return cmdline.Interruptible(ctx)
}
