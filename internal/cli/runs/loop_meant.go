package runs

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/spec"
)

// Selects the loop that a subcommand acts on.

// loopMeant finds the loop that a subcommand acts on, by default the newest. If a process is running
// another loop, that may be the one the user means: then a name is required.
func (a *app) loopMeant(named []string) (*runstate.Loop, error) {
	l, err := openRun(a, loops, strings.Join(named, ""), runstate.ReadLoop)
	if err != nil || len(named) > 0 {
		return l, err
	}
	return l, l.CheckMeant()
}

// iterationArg parses the number of an iteration.
func iterationArg(cmd *cobra.Command, arg string) (int, error) {
	n, err := strconv.Atoi(arg)
	if err != nil || n < 0 {
		return 0, spec.Errorf(spec.ErrUsage, "%q is not the number of an iteration", arg).WithHint("usage: %s", cmd.UseLine())
	}
	return n, nil
}

// runID matches every ID that a run is given.
var runID = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9-]+-\d{4}-\d{2}-\d{2}-[0-9a-f]{4}$`)
})

// notARun refuses a lone text that names a run of this kind, or looks like the ID of one. The user
// probably named RUN and left the text out; usage shows the right form.
func (a *app) notARun(kind, text, usage string) error {
	e, err := a.Engine()
	if err != nil {
		return err
	}
	switch _, err := run.FindOf(e.Store.Runs(), kind, text); {
	case err == nil, errors.Is(err, spec.ErrUsage): // one, or a prefix of several
		return spec.Errorf(spec.ErrUsage, "%q is a run: there is nothing to tell it", text).
			WithHint("%s; RUN may only be left out if TEXT is not how the name of a run begins", usage)
	case !errors.Is(err, spec.ErrNotFound) || runID().MatchString(text):
		return err
	}
	return nil
}
