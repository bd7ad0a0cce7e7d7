package cli

import (
	"encoding/json"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/program"
)

// pluginName is the file name under which docker runs us as "docker sandbox"; pluginMetadata is the
// argument for which it expects metadata.
const (
	pluginName     = "docker-sandbox"
	pluginMetadata = "docker-cli-plugin-metadata"
	pluginCommand  = "docker sandbox" // the command as its user types it
)

// dockerValues are docker's global flags that take a value.
var dockerValues = []string{
	"--config", "-c", "--context", "-H", "--host", "-l", "--log-level", "--tlscacert", "--tlscert", "--tlskey",
}

// asPlugin adapts to a call by the docker command. It returns the arguments as if bothy had been
// called, and reports whether the call is already answered.
func (a *app) asPlugin(args []string) ([]string, bool) {
	if filepath.Base(args[0]) != pluginName {
		return args, false
	}
	a.Command = pluginCommand
	if len(args) > 1 && args[1] == pluginMetadata {
		_ = json.NewEncoder(a.Out).Encode(map[string]string{
			"SchemaVersion":    "0.1.0",
			"Vendor":           "Bothy",
			"Version":          program.Version(),
			"ShortDescription": "Run agents in isolated sandboxes (Bothy)",
		})
		return nil, true
	}
	// docker calls "docker-sandbox sandbox ARGS", with its own global flags,
	// if any, before that. To complete a word it calls
	// "docker-sandbox __complete sandbox WORDS".
	ours := 1
	if len(args) > 1 && args[1] == cobra.ShellCompRequestCmd {
		ours = 2
	}
	for i := ours; i < len(args); i++ {
		switch {
		case args[i] == "sandbox":
			return slices.Concat(args[:ours], args[i+1:]), false
		case slices.Contains(dockerValues, args[i]):
			i++
		}
	}
	return args, false
}
