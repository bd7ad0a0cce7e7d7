package cli

import (
	"strings"

	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/spec"
)

// warnShared tells of sandboxes that run and write to the same directory as one that is
// created, or about to start.
func (a *app) warnShared(e *engine.Engine, sb *spec.Sandbox) {
	if e.Status(sb).State == spec.Running {
		return
	}
	found, err := e.SharedLive(sb)
	if err != nil {
		return // whoever starts it hears of that
	}
	if len(found) == 0 {
		return
	}
	names := make([]string, len(found))
	for i, s := range found {
		names[i] = console.Printable(s.Sandbox)
	}
	a.Note("running and writing to %s as well: %s. Locks hold within one sandbox only: databases can be damaged, and lines lost that both append to one file. "+
		"A sandbox has a tree of its own with --workspace clone or --workspace review", console.Printable(found[0].Dir), strings.Join(names, ", "))
}
