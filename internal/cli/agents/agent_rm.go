package agents

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/agentprogram"
	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) agentRmCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "rm NAME[@VERSION]...", Aliases: []string{"remove", "uninstall"},
		Short: "Remove the installed versions of an agent, or one of them",
		Args:  cmdline.AtLeast(1, "an agent"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return a.CompleteAgents(args, func(i agentprogram.Agent) bool { return len(i.Installed) > 0 })
		},
		RunE: a.OnEngine(func(_ *cobra.Command, args []string, e *engine.Engine) error {
			var errs []error
			for _, word := range args {
				errs = append(errs, a.removeAgent(e, word, force))
			}
			return console.Join(errs)
		}),
	}
	c.Flags().BoolVarP(&force, "force", "f", false, "do not ask, and remove it even when a sandbox uses it")
	return c
}

// removeAgent removes the versions that a word names and prints each. If one cannot be removed, it
// still removes the others.
func (a *app) removeAgent(e *engine.Engine, word string, force bool) error {
	name, version, _ := strings.Cut(word, "@")
	if d, err := e.Agents.Find(name); err == nil {
		name = d.Name
	}
	ids, err := e.Programs().IDs(name, version)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range ids {
		err := a.removeVersion(e, name, id, force)
		if err == nil {
			fmt.Fprintf(a.Out, "%s@%s\n", name, id)
		}
		errs = append(errs, err)
	}
	return console.Join(errs)
}

// removeVersion removes one version. Without force it fails for a version in use, and asks before it
// removes any other.
func (a *app) removeVersion(e *engine.Engine, name, id string, force bool) error {
	if !force {
		if err := e.Programs().CheckUnused(name, id); err != nil {
			return err
		}
		if !a.Ask("remove %s %s?", name, id) {
			return spec.Errorf(spec.ErrDenied, "%s %s was not removed", name, id)
		}
	}
	return e.Programs().Remove(name, id, force)
}
