package document

import (
	"os"
	"time"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/hostdirs"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/spec"
)

// Sandboxes is the document of a list of sandboxes.
type Sandboxes struct {
	Sandboxes []Listed `json:"sandboxes"`
}

// Listed is a sandbox in a list, in the form of docker's ls.
type Listed struct {
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

	Full bool `json:"-"` // stopped because of its disk limit
}

// ListedOf returns the entries of a list of sandboxes.
func ListedOf(list []engine.Info) []Listed {
	out := make([]Listed, 0, len(list))
	silent := silentWorkspaces(list)
	for _, i := range list {
		if i.Spec.Broken != "" {
			i.Status.State = "broken"
		}
		l := Listed{
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
		l.Full = i.Status.State == spec.Stopped && i.Status.Disk.Over()
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
