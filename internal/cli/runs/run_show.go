package runs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/runstate"
)

func runLsCommand(a *app, k *runKind) *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: k.list, Args: cmdline.Exactly(0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			e, err := a.Engine()
			if err != nil {
				return err
			}
			list, err := runstate.List(e, k.name, runstate.Read, a.noteUnread)
			if err != nil {
				return err
			}
			list = slices.DeleteFunc(list, runstate.IsErased)
			if a.JSON {
				views := make([]any, len(list))
				for i, l := range list {
					views[i] = l.View()
				}
				return a.PrintJSON(map[string]any{"runs": views})
			}
			return a.PrintList(k.titles, list)
		},
	})
}

func runStatusCommand(a *app, k *runKind) *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "status [RUN]", Short: "Show how a " + k.name + " stands; without RUN the newest", Args: cmdline.AtMost(1, "a run"), ValidArgsFunction: a.oneRun(k.name),
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := openRun(a, k, strings.Join(args, ""), runstate.Read)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(l.View())
			}
			return a.PrintStatus(l)
		},
	})
}

func runLogCommand(a *app, k *runKind) *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "log [RUN]", Short: "Show the events of a " + k.name, Args: cmdline.AtMost(1, "a run"), ValidArgsFunction: a.oneRun(k.name),
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := openRun(a, k, strings.Join(args, ""), runstate.Read)
			if err != nil {
				return err
			}
			return a.PrintLog(l)
		},
	})
}

func runWatchCommand(a *app, k *runKind) *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "watch [RUN]", Short: fmt.Sprintf("Watch a %s until its process ends", k.name), Args: cmdline.AtMost(1, "a run"), ValidArgsFunction: a.oneRun(k.name),
		Long: fmt.Sprintf("Shows how a %[1]s stands, on a page that is drawn anew as it goes on; without RUN the\nnewest. Without a terminal, or with --json, it prints every event as it comes. It ends when\nthe process of the %[1]s ends; Ctrl-C leaves, and the %[1]s goes on.", k.name),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := openRun(a, k, strings.Join(args, ""), runstate.Read)
			if err != nil {
				return err
			}
			return a.Watch(cmd.Context(), l)
		},
	})
}
