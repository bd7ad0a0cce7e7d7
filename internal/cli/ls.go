package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/document"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) lsCommand() *cobra.Command {
	var quiet bool
	c := &cobra.Command{
		Use: "ls", Aliases: []string{"list", "ps"}, Short: "List sandboxes", Args: cmdline.Exactly(0, "no arguments"),
		RunE: a.OnEngine(func(_ *cobra.Command, _ []string, e *engine.Engine) error {
			list, err := e.List()
			if err != nil {
				return err
			}
			switch {
			case a.JSON:
				return a.PrintJSON(a.listing(document.ListedOf(list)))
			case quiet:
				for _, i := range list {
					fmt.Fprintln(a.Out, i.Spec.Name)
				}
				return nil
			}
			return a.listed(list)
		}),
	}
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "print names only")
	return a.JSONFlag(c)
}

// listing returns the document of ls --json. Callers of docker's plugin may expect the key that
// docker's document had.
func (a *app) listing(list []document.Listed) any {
	if a.Command == pluginCommand {
		return map[string]any{"sandboxes": list, "vms": list}
	}
	return document.Sandboxes{Sandboxes: list}
}

// statusCell also says whether an agent waits for a person, and for how long.
func statusCell(l document.Listed, now time.Time) string {
	if l.Full {
		return string(l.Status) + " (disk limit)"
	}
	if l.Waiting == nil {
		return string(l.Status)
	}
	waited := now.Sub(*l.Waiting)
	switch {
	case waited >= time.Hour:
		return fmt.Sprintf("waiting %dh", int(waited.Hours()))
	case waited >= time.Minute:
		return fmt.Sprintf("waiting %dm", int(waited.Minutes()))
	}
	return fmt.Sprintf("waiting %ds", int(waited.Seconds()))
}

func (a *app) listed(list []engine.Info) error {
	w := a.Table()
	fmt.Fprintln(w, "SANDBOX\tAGENT\tSTATUS\tPORTS\tWORKSPACE")
	for _, l := range document.ListedOf(list) {
		var cells []string
		for _, ws := range l.Workspaces {
			cells = append(cells, term.Sanitize(ws))
		}
		where := strings.Join(cells, ", ")
		if l.Mode != spec.WorkspaceLive && where != "" {
			where += " (" + l.Mode + ")"
		}
		switch {
		case l.Silent:
			where += " (does not answer)"
		case l.Missing:
			where += " (missing)"
		case l.Replaced:
			where += " (replaced)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", l.Name, l.Agent, statusCell(l, time.Now()), cmdline.PortCells(l.Ports), where)
	}
	return w.Flush()
}
