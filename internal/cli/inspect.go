package cli

import (
	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// inspected is everything that is known about a sandbox.
type inspected struct {
	*spec.Sandbox
	Status    spec.Status    `json:"status"`
	Directory string         `json:"directory"`
	Sessions  []spec.Session `json:"sessions"`
	Usage     *spec.Usage    `json:"usage,omitempty"`
	Processes []wire.Task    `json:"processes,omitempty"`
}

func (a *app) inspectCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "inspect SANDBOX...", Short: "Show everything about sandboxes, as JSON",
		Args: atLeast(1, "a sandbox"), ValidArgsFunction: a.sandboxNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := a.engine()
			if err != nil {
				return err
			}
			var out []inspected
			for _, name := range args {
				sb, err := e.Find(name)
				if err != nil {
					return err
				}
				out = append(out, inspect(cmd, e, sb))
			}
			// One sandbox is one object, as with docker sandbox inspect.
			if len(out) == 1 {
				return a.printJSON(out[0])
			}
			return a.printJSON(out)
		},
	}
	return a.jsonFlag(c)
}

func inspect(cmd *cobra.Command, e *engine.Engine, sb *spec.Sandbox) inspected {
	i := inspected{Sandbox: sb, Status: e.Status(sb), Directory: e.Store.Sandbox(sb.ID).Dir, Sessions: []spec.Session{}}
	if st, err := e.Inside(cmd.Context(), sb); err == nil {
		i.Status, i.Sessions, i.Usage, i.Processes = st.Status, st.Sessions, &st.Usage, st.Tasks
	}
	return i
}
