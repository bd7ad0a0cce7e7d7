package system

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/document"
)

func (a *app) versionCommand() *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "version", Short: "Print the version", Args: cmdline.Exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			v := document.ThisVersion()
			return a.Answer(v, fmt.Sprintf("bothy %s (gvisor %s, %s, %s/%s)", v.Version, v.GVisor, v.Go, v.OS, v.Arch))
		},
	})
}
