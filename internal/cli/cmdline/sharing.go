package cmdline

import (
	"fmt"
	"strings"

	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/spec"
)

// WarnShared warns about running sandboxes that write to the same directory as one that is created
// or about to start.
func (a *App) WarnShared(e *engine.Engine, sb *spec.Sandbox) {
	if e.Status(sb).State == spec.Running {
		return
	}
	found, err := e.Directories().Shared(sb)
	if err != nil {
		return // starting it reports that
	}
	if len(found) == 0 {
		return
	}
	var dirs []string
	by := map[string][]string{}
	for _, s := range found {
		if by[s.Dir] == nil {
			dirs = append(dirs, s.Dir)
		}
		by[s.Dir] = append(by[s.Dir], console.Printable(s.Sandbox))
	}
	others := make([]string, len(dirs))
	for i, dir := range dirs {
		others[i] = fmt.Sprintf("to %s as well: %s", console.Printable(dir), strings.Join(by[dir], ", "))
	}
	a.Note("running and writing %s. Locks hold within one sandbox only: databases can be damaged, and lines lost that both append to one file. "+
		"A sandbox has a tree of its own with --workspace clone or --workspace review", strings.Join(others, "; "))
}
