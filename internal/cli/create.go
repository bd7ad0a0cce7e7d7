package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func newID() string { return store.NewID() }

func (a *app) createCommand() *cobra.Command {
	f := &createFlags{}
	c := &cobra.Command{
		Use:   "create [flags] AGENT [PATH[:ro]]...",
		Short: "Create a sandbox without starting it",
		Long:  "Creates a sandbox. Without PATH it has no project of the host in it.",
		Args:  atLeast(1, `an agent: in this version "shell"`),
		RunE: func(_ *cobra.Command, args []string) error {
			if args[0] != shellAgent {
				return spec.Errorf(spec.ErrNotFound, "no agent named %q", args[0]).WithHint(`the agent of this version is "shell"`)
			}
			e, err := a.engine()
			if err != nil {
				return err
			}
			sb, err := a.sandbox(e, f, args[0], args[1:])
			if err != nil {
				return err
			}
			if err := e.Create(sb); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(sb)
			}
			fmt.Fprintln(a.stdout, sb.Name)
			if !f.quiet {
				a.note("created; start it with: bothy run --name %s", sb.Name)
			}
			return nil
		},
	}
	f.add(c.Flags())
	return a.jsonFlag(c)
}
