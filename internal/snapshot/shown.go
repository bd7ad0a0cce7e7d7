package snapshot

import (
	"fmt"
	"strings"

	"github.com/bothy-dev/bothy/internal/checkpoint/merge"
	"github.com/bothy-dev/bothy/spec"
)

// PlaceOf returns a path in a checkpoint as users know it, or the empty string for Bothy's own
// files.
func PlaceOf(sb *spec.Sandbox, c merge.Change) string {
	var n int
	above, isAbove := strings.CutPrefix(c.Path, "up/")
	switch {
	case c.Tree == "home":
		return "~/" + c.Path
	case scanTree(c.Tree, "private/%d", &n) && n < len(sb.Private):
		return sb.Private[n] + "/" + c.Path
	case scanTree(c.Tree, "review/%d", &n) && n < len(sb.Workspaces):
		if !isAbove {
			return ""
		}
		return sb.Workspaces[n].Target + "/" + above
	case (scanTree(c.Tree, "workspace/%d", &n) || scanTree(c.Tree, "clone/%d", &n)) && n < len(sb.Workspaces):
		return sb.Workspaces[n].Target + "/" + c.Path
	}
	return c.Tree + "/" + c.Path
}

func scanTree(name, format string, n *int) bool {
	_, err := fmt.Sscanf(name, format, n)
	return err == nil && *n >= 0
}
