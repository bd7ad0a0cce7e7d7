package agent

import (
	"path"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

const versionParts = 3

func checkTold(a *spec.Agent) error {
	t := a.Told
	switch {
	case t == nil:
		return nil
	case !a.Runtime:
		return spec.Errorf(spec.ErrUsage, "told is for runtimes")
	case t.File == "" || path.IsAbs(t.File) || path.Clean(t.File) != t.File:
		return spec.Errorf(spec.ErrUsage, "told: %q is not a path from the directory of the program", t.File)
	case len(t.Lines) != versionParts || slices.Contains(t.Lines, ""):
		return spec.Errorf(spec.ErrUsage, "told: lines must name the places of the %d parts of the version", versionParts)
	}
	return nil
}

// VersionTold returns the version in a file, or "" if it has none or more than one.
func VersionTold(t *spec.AgentTold, text string) string {
	parts := make([]string, len(t.Lines))
	for line := range strings.Lines(text) {
		for i, begin := range t.Lines {
			part, ok := strings.CutPrefix(line, begin)
			if !ok {
				continue
			}
			if parts[i] != "" {
				return ""
			}
			parts[i] = strings.TrimSpace(part)
		}
	}
	if v := strings.Join(parts, "."); Exact(v) {
		return v
	}
	return ""
}
