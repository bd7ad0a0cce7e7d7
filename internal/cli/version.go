package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/bothy-dev/bothy/internal/cli/command"
)

// version is that of the module, or of the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	rev, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			rev = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if rev == "" {
		return "devel"
	}
	return "devel-" + rev + dirty
}

// moduleVersion is the version of a linked module.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == path {
				return d.Version
			}
		}
	}
	return "unknown"
}

func (a *app) versionCommand() *command.Command {
	return a.jsonFlag(&command.Command{
		Use: "version", Short: "Print the version", Args: exactly(0, "no arguments"),
		RunE: func(*command.Command, []string) error {
			v := struct {
				Version string `json:"version"`
				GVisor  string `json:"gvisor"`
				Go      string `json:"go"`
				OS      string `json:"os"`
				Arch    string `json:"arch"`
			}{version(), moduleVersion("gvisor.dev/gvisor"), runtime.Version(), runtime.GOOS, runtime.GOARCH}
			if a.json {
				return a.printJSON(v)
			}
			fmt.Fprintf(a.stdout, "bothy %s (gvisor %s, %s, %s/%s)\n", v.Version, v.GVisor, v.Go, v.OS, v.Arch)
			return nil
		},
	})
}
