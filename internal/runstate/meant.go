package runstate

import (
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// Decides which run a person means who names none.

// maxNamed is how many runs an error lists.
const maxNamed = 10

// OnlyFlow returns the only flow for which can returns true. what describes such flows in errors.
func OnlyFlow(e *engine.Engine, can func(*Flow) bool, what string, unread Unread) (*Flow, error) {
	list, err := List(e, run.Flows, ReadFlow, unread)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(l *Flow) bool { return !can(l) })
	switch len(list) {
	case 0:
		return nil, spec.Errorf(spec.ErrNotFound, "no flow %s", what).WithHint("bothy flow ls lists all")
	case 1:
		return list[0], nil
	}
	var names []string
	for _, l := range list {
		names = append(names, l.Run.ID)
	}
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], "...")
	}
	return nil, spec.Errorf(spec.ErrUsage, "any of these may be meant, for it %s: %s", what, strings.Join(names, ", ")).WithHint("name the run")
}

// CheckMeant refuses a loop that no person named, the newest, if a process carries on another one: that may be
// the one that they mean.
func (l *Loop) CheckMeant() error {
	list, err := run.ListOf(l.Engine.Store.Runs(), run.Loops)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(list, func(r *run.Run) bool { return r.ID != l.Run.ID && r.Hosted() }); i >= 0 {
		return spec.Errorf(spec.ErrUsage, "it may be %s that is meant, which is carried on just now, or %s, which is the newest", list[i].ID, l.Run.ID).
			WithHint("name the run")
	}
	return nil
}
