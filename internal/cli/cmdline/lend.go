package cmdline

import (
	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/hostcreds"
	"github.com/bothy-dev/bothy/internal/provision"
)

// toolNames completes --lend.
func toolNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	names := []string{provision.LendNothing + "\tnot even what the settings lend"}
	for _, t := range hostcreds.Tools {
		names = append(names, t.Name+"\t"+t.Title)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
