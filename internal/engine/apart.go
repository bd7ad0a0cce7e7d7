package engine

import (
	"slices"

	runs "github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// This file keeps the files of runs that are in directories of the user's apart from sandboxes: what
// writes there while Bothy does could have it write anywhere.

// rulesOver are what a mount of a sandbox is seen by. What is written to a reviewed one is in a
// layer, and not where it would be.
func (e *Engine) rulesOver(sb *spec.Sandbox, m spec.Mount) workspace.Rules {
	r := workspace.Rules{State: e.Store.Path()}
	if !sb.Reviews(m) {
		r.Runs = e.RunsElsewhere()
	}
	return r
}

// RunsElsewhere are the directories of runs that are not in the state directory.
func (e *Engine) RunsElsewhere() []string { return runs.Elsewhere(e.Store.Runs()) }

// Apart refuses a directory for the files of runs, by its real path, if a sandbox that runs could
// write there. Those that are started later do not see it ([workspace.Rules]).
func (e *Engine) Apart(dir string) error {
	if workspace.Within(e.Store.Path(), dir) {
		return spec.Errorf(spec.ErrUsage, "%s lies in the state directory", dir).WithHint("runs are there anyway: leave --into out")
	}
	list, err := e.Store.List()
	if err != nil {
		return err
	}
	known := slices.ContainsFunc(e.RunsElsewhere(), func(d string) bool { return workspace.Within(dir, d) })
	for _, sb := range list {
		for _, m := range Live(sb) {
			covered := known && m.Source != dir
			if workspace.Within(m.Source, dir) && !covered && e.Status(sb).State != spec.Stopped {
				return spec.Errorf(spec.ErrConflict, "the sandbox %s, which runs, can write to %s", sb.Name, dir).WithHint("bothy stop %s; it does not see it when it is started again", sb.Name)
			}
		}
	}
	return nil
}

// Live are the mounts of a sandbox in which it writes to files of the host at once.
func Live(sb *spec.Sandbox) (list []spec.Mount) {
	for _, m := range slices.Concat(sb.Workspaces, sb.Volumes) {
		if !m.ReadOnly && !sb.Reviews(m) && !sb.Clones(m) {
			list = append(list, m)
		}
	}
	return list
}
