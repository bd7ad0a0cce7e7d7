package runstate

import (
	"errors"
	"fmt"
	"sync"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// claimsOf maps the IDs of sandboxes to the runs that need them: those that a process runs, or that
// can be resumed. The error is about unreadable runs.
func claimsOf(e *engine.Engine) (map[string]Run, error) {
	list, err := run.ListOf(e.Store.Runs(), "")
	if err != nil {
		return nil, err
	}
	by := map[string]Run{}
	var errs []error
	for _, r := range list {
		l, err := Read(e, r)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, id := range l.NeededSandboxes() {
			by[id] = l
		}
	}
	return by, errors.Join(errs...)
}

// ClaimIDs is claimsOf with the IDs of the runs.
func ClaimIDs(e *engine.Engine) (map[string]string, error) {
	by, err := claimsOf(e)
	if by == nil {
		return nil, err
	}
	ids := map[string]string{}
	for id, l := range by {
		ids[id] = l.Recorded().Run.ID
	}
	return ids, err
}

// Needing returns a function that finds the run that would end with a sandbox, or nil. An unreadable
// run is not known to need one. A run that has ended, or stopped at a limit, may lose its sandbox.
func Needing(e *engine.Engine) func(sb *spec.Sandbox) Run {
	claims := sync.OnceValue(func() map[string]Run {
		by, _ := claimsOf(e)
		return by
	})
	return func(sb *spec.Sandbox) Run {
		l := claims()[sb.ID]
		if l == nil || !l.Recorded().Hosted && (l.Progress().Final() || l.Result().Status == run.Completed) {
			return nil
		}
		return l
	}
}

// RunNeeds describes a run that would end with a sandbox: in words for a question, and as the error
// against the removal.
func RunNeeds(l Run, sb *spec.Sandbox) (string, error) {
	r, now := l.Recorded().Run, l.Standing()
	return fmt.Sprintf(", which the %s %s needs to go on (%s)", r.Kind, r.ID, now.Status),
		spec.Errorf(spec.ErrConflict, "the %s %s needs sandbox %s to go on: it is %s", r.Kind, r.ID, sb.Name, now.Status).
			WithHint("end the %s first: bothy %s stop %s; or remove the sandbox with what the %s needs: bothy rm -f %s", r.Kind, r.Kind, r.ID, r.Kind, sb.Name)
}
