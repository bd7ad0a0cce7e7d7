package system

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/program"
)

func (a *app) versionCommand() *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "version", Short: "Print the version", Args: cmdline.Exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version string `json:"version"`
				GVisor  string `json:"gvisor"`
				Go      string `json:"go"`
				OS      string `json:"os"`
				Arch    string `json:"arch"`
			}{program.Version(), program.GVisor, runtime.Version(), runtime.GOOS, runtime.GOARCH}
			return a.Answer(v, fmt.Sprintf("bothy %s (gvisor %s, %s, %s/%s)", v.Version, v.GVisor, v.Go, v.OS, v.Arch))
		},
	})
}
