package hostdirs

import (
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// Sharing is a directory of the host that two sandboxes write to.
type Sharing struct {
	Sandbox string // the other one
	Dir     string
}

// Shared finds running sandboxes that write to a directory of the host that sb writes to as well.
// Each has its own locks, and concurrent appends to one file are lost.
func (d Directories) Shared(sb *spec.Sandbox) ([]Sharing, error) {
	mine := writtenLive(sb)
	if len(mine) == 0 {
		return nil, nil
	}
	list, err := d.Keepers.Store.List()
	if err != nil {
		return nil, err
	}
	var found []Sharing
	for _, other := range list {
		if other.ID == sb.ID || other.Broken != "" {
			continue
		}
		if dir, ok := sharedDir(mine, writtenLive(other)); ok && d.Keepers.Status(other).State == spec.Running {
			found = append(found, Sharing{other.Name, dir})
		}
	}
	slices.SortFunc(found, func(a, b Sharing) int { return strings.Compare(a.Sandbox, b.Sandbox) })
	return found, nil
}

// writtenLive lists the directories of the host that a sandbox writes to.
func writtenLive(sb *spec.Sandbox) (dirs []string) {
	for _, m := range hostpath.Live(sb) {
		dirs = append(dirs, m.Source)
	}
	return dirs
}

// sharedDir returns the first directory that both lists have, or the inner one if one directory is
// below the other.
func sharedDir(a, b []string) (string, bool) {
	for _, x := range a {
		for _, y := range b {
			switch {
			case workspace.Within(x, y):
				return y, true
			case workspace.Within(y, x):
				return x, true
			}
		}
	}
	return "", false
}
