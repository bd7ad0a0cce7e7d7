package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/hostdirs"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// listed is a sandbox in ls --json, in the form of docker's ls.
type listed struct {
	Name       string      `json:"name"`
	ID         string      `json:"id"`
	Agent      string      `json:"agent"`
	Status     spec.State  `json:"status"`
	Ports      []spec.Port `json:"ports"`
	Workspaces []string    `json:"workspaces"`
	Mode       string      `json:"workspace_mode"`
	Missing    bool        `json:"workspace_missing"`
	Replaced   bool        `json:"workspace_replaced"` // its path now leads to another directory
	Silent     bool        `json:"workspace_silent"`   // its file system does not answer
	CreatedAt  time.Time   `json:"created_at"`
	LastUsedAt *time.Time  `json:"last_used_at"`
	Waiting    *time.Time  `json:"waiting_since"`

	full bool // stopped because of its disk limit
}

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
				return a.PrintJSON(a.listing(listedOf(list)))
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
func (a *app) listing(list []listed) map[string]any {
	doc := map[string]any{"sandboxes": list}
	if a.Command == pluginCommand {
		doc["vms"] = list
	}
	return doc
}

func listedOf(list []engine.Info) []listed {
	out := make([]listed, 0, len(list))
	silent := silentWorkspaces(list)
	for _, i := range list {
		if i.Spec.Broken != "" {
			i.Status.State = "broken"
		}
		l := listed{
			Name: i.Spec.Name, ID: i.Spec.ID, Agent: i.Spec.Agent, Status: i.Status.State,
			Ports: []spec.Port{}, Workspaces: []string{}, Mode: i.Spec.Mode(), CreatedAt: i.Spec.CreatedAt, LastUsedAt: i.Status.UsedAt,
		}
		if i.Status.State == spec.Running {
			l.Ports = append(l.Ports, i.Status.Ports...)
			if i.Spec.Agent != agent.Shell { // a shell's prompt does not wait for a person
				l.Waiting = i.Status.WaitingSince
			}
		}
		if i.Status.State == spec.Running {
			_, what := hostdirs.Replaced(i.Status)
			l.Replaced = what != "" && what != hostpath.Gone && what != hostpath.Silence
		}
		l.full = i.Status.State == spec.Stopped && i.Status.Disk.Over()
		for _, m := range i.Spec.Workspaces {
			l.Workspaces = append(l.Workspaces, workspaceCell(m))
			if silent[m.Source] != nil {
				l.Silent = true
				continue
			}
			if _, err := os.Stat(m.Source); err != nil {
				l.Missing = true
			}
		}
		out = append(out, l)
	}
	return out
}

// silentWorkspaces returns the workspaces of all sandboxes whose file systems do not answer.
func silentWorkspaces(list []engine.Info) map[string]error {
	var paths []string
	for _, i := range list {
		for _, m := range i.Spec.Workspaces {
			paths = append(paths, m.Source)
		}
	}
	return hostpath.Silent(paths)
}

func workspaceCell(m spec.Mount) string {
	if m.ReadOnly {
		return m.Source + ":ro"
	}
	return m.Source
}

// statusCell also says whether an agent waits for a person, and for how long.
func statusCell(l listed, now time.Time) string {
	if l.full {
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
	for _, l := range listedOf(list) {
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
