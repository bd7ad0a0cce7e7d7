package cli

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// This file has which loop is meant by those who do something to one.

// loopMeant finds the loop that something is to be done to; if none is named, the newest.
// While somebody carries another one on, that may be the one that is meant: it must be
// named then.
func (a *app) loopMeant(named []string) (*looping, error) {
	if len(named) > 0 {
		return a.loopCalled(named[0])
	}
	l, err := a.loopCalled("")
	if err != nil {
		return nil, err
	}
	list, err := run.ListOf(l.engine.Store.Runs(), run.Loops)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(list, func(r *run.Run) bool { return r.ID != l.run.ID && r.Hosted() }); i >= 0 {
		return nil, spec.Errorf(spec.ErrUsage, "it may be %s that is meant, which is carried on just now, or %s, which is the newest", list[i].ID, l.run.ID).
			WithHint("name the run")
	}
	return l, nil
}

// iterationArg is the number of an iteration.
func iterationArg(cmd *cobra.Command, arg string) (int, error) {
	n, err := strconv.Atoi(arg)
	if err != nil || n < 0 {
		return 0, spec.Errorf(spec.ErrUsage, "%q is no number of an iteration", arg).WithHint("usage: %s", cmd.UseLine())
	}
	return n, nil
}

// runID is what every ID looks like that a run is given.
var runID = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9-]+-\d{4}-\d{2}-\d{2}-[0-9a-f]{4}$`)
})

// notARun refuses a text that stands alone, for which a run may be named by usage, and is the name
// of one of that kind, or looks so: what was to be told is missing then.
func (a *app) notARun(kind, text, usage string) error {
	e, err := a.engine()
	if err != nil {
		return err
	}
	switch _, err := run.FindOf(e.Store.Runs(), kind, text); {
	case err == nil, errors.Is(err, spec.ErrUsage): // one, or the beginning of several
		return spec.Errorf(spec.ErrUsage, "%q is a run: there is nothing to tell it", text).
			WithHint("%s; RUN may only be left out if TEXT is not how the name of a run begins", usage)
	case !errors.Is(err, spec.ErrNotFound) || runID().MatchString(text):
		return err
	}
	return nil
}
