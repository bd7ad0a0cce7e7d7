package agents

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/agentprogram"
	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) agentCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "agent", Aliases: []string{"agents"}, Short: "The agents there are, and which versions of them are installed",
		RunE: func(*cobra.Command, []string) error { return a.listAgents() },
	}
	c.AddCommand(a.agentLsCommand(), a.agentInstallCommand(), a.agentShowCommand(), a.agentRmCommand())
	return a.JSONFlag(c)
}

func (a *app) agentLsCommand() *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List agents, built-in and your own, and their installed versions",
		Args: cmdline.Exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error { return a.listAgents() },
	})
}

// listedAgent is one agent in ls --json.
type listedAgent struct {
	Name      string          `json:"name"`
	Title     string          `json:"title,omitempty"`
	Source    string          `json:"source"` // "built in", or a file
	Package   string          `json:"package,omitempty"`
	Runtime   bool            `json:"runtime,omitempty"` // not an agent, but a runtime that agents run on
	Error     string          `json:"error,omitempty"`   // why its description cannot be used
	Installed []listedVersion `json:"installed"`
}

type listedVersion struct {
	Version   string    `json:"version"`
	Platform  string    `json:"platform"`
	New       bool      `json:"used_for_new_sandboxes"`
	Size      int64     `json:"size"`
	Sandboxes []string  `json:"sandboxes"`
	Installed time.Time `json:"installed_at"`
	Directory string    `json:"directory"`
}

// builtIn is the source of a description that comes with Bothy.
const builtIn = "built in"

func (a *app) listAgents() error {
	e, err := a.Engine()
	if err != nil {
		return err
	}
	infos, err := e.Programs().List()
	if err != nil {
		return err
	}
	list := make([]listedAgent, 0, len(infos))
	for _, i := range infos {
		row, err := agentRow(i)
		if err != nil {
			return err
		}
		list = append(list, row)
	}
	ignored, err := e.Agents.Ignored()
	if err != nil {
		return err
	}
	for _, file := range ignored {
		a.Note("%s", console.Printable(agent.WhyIgnored(file)))
	}
	if a.JSON {
		return a.PrintJSON(map[string]any{"agents": list})
	}
	return a.agentTable(list)
}

func agentRow(i agentprogram.Agent) (listedAgent, error) {
	l := listedAgent{Name: i.Name, Source: i.File, Installed: []listedVersion{}}
	switch {
	case errors.Is(i.Broken, spec.ErrNotFound):
		l.Source = "its description is gone"
	case i.Broken != nil:
		l.Error = i.Broken.Error()
	}
	if l.Source == "" {
		l.Source = builtIn
	}
	if i.Spec != nil {
		l.Title, l.Runtime = i.Spec.Title, i.Spec.Runtime
		if i.Spec.Install != nil {
			l.Package = i.Spec.Install.Package
		}
	}
	for _, v := range i.Installed {
		size, err := v.Size()
		if err != nil {
			return l, err
		}
		l.Installed = append(l.Installed, listedVersion{
			Version: v.ID(), Platform: v.Platform, New: v.New, Size: size,
			Sandboxes: append([]string{}, v.Sandboxes...), Installed: v.Installation.Installed, Directory: v.Dir,
		})
	}
	return l, nil
}

// agentTable prints a row for each version, and one row for an agent without any.
func (a *app) agentTable(list []listedAgent) error {
	w := a.Table()
	fmt.Fprintln(w, "AGENT\tTITLE\tINSTALLED\tNEW\tSIZE\tSANDBOXES\tSOURCE")
	for _, l := range list {
		title, source := cmdline.Dash(console.Printable(l.Title)), console.Printable(l.Source)
		if l.Error != "" {
			title = "(broken: bothy agent show " + l.Name + ")"
		}
		if l.Runtime {
			title += " (runtime)"
		}
		for _, v := range l.Installed {
			used := "-"
			if v.New {
				used = "yes"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Name, title, v.Version, used, spec.FormatSize(v.Size), cmdline.Dash(strings.Join(v.Sandboxes, ",")), source)
		}
		if len(l.Installed) == 0 {
			fmt.Fprintf(w, "%s\t%s\t-\t-\t-\t-\t%s\n", l.Name, title, source)
		}
	}
	return w.Flush()
}

// described completes the names of agents and of runtimes.
func (a *app) described(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.CompleteAgents(args, func(i agentprogram.Agent) bool { return i.Spec != nil })
}
