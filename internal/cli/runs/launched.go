package runs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/cli/runview"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/launch"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/spec"
)

// launcher returns what starts runs and carries them on. It shows them here.
func (a *app) launcher(e *engine.Engine) *launch.Launcher {
	l := &launch.Launcher{Provisioner: a.Provisioner(e), Host: host{a}}
	if a.CanAsk() {
		l.Ask = func(question string) bool { return a.Ask("bothy: %s", question) }
	}
	return l
}

// carryOut has the launcher do what may take hours, and prints how the run ended.
func (a *app) carryOut(cmd *cobra.Command, do func(context.Context) (*launch.Ended, error)) error {
	ctx, release := enduring(cmd.Context())
	defer release()
	end, err := do(ctx)
	if end == nil {
		return err
	}
	ended := a.printEnd(end)
	if err != nil {
		return err
	}
	return ended
}

// printEnd prints a run that has ended, and returns its exit code.
func (a *app) printEnd(end *launch.Ended) error {
	if a.JSON {
		err := end.Unread
		if err == nil {
			err = a.PrintJSON(end.View)
		}
		if err != nil && !errors.Is(err, unix.EPIPE) { // the reader is gone
			return err
		}
	} else {
		fmt.Fprintln(a.Out, end.Run.ID)
	}
	if name := end.Draft; name != "" {
		if here, err := filepath.Abs("."); err == nil && filepath.Dir(name) == here {
			name = filepath.Base(name)
		}
		a.Note("wrote %s after %s; bothy flow show %s shows its steps", name, runview.Rounded(end.Elapsed), name)
	}
	if end.Code != spec.ExitOK {
		return &spec.Exited{Code: end.Code}
	}
	return nil
}

// host makes the command line the host of launched runs.
type host struct{ *app }

var _ launch.Host = host{}

func (h host) ShowLoop(p *loopplan.Plan, ev run.Event, s *loop.State) {
	h.NoteEvent(runview.LoopLine(p, ev, s))
}

func (h host) ShowFlow(ev run.Event, s *flow.State) { h.NoteEvent(runview.FlowLine(ev, s)) }

func (h host) EndLoop(end launch.LoopEnd) {
	if end.Sandbox == nil {
		h.Note("its sandbox was removed, with all that was in no directory of yours: bothy loop rm %s", end.Run.ID)
		return
	}
	for _, line := range runview.NextSteps(end.Run.ID, end.Sandbox, end.Plan, end.State) {
		h.Note("%s", line)
	}
}

func (h host) EndFlow(end launch.FlowEnd) {
	id, s := end.Run.ID, end.State
	if s.Over() {
		for _, room := range end.Plan.Copies() {
			h.Note("what %s changed waits: bothy diff %[2]s, bothy apply %[2]s", room, s.Sandboxes[room])
		}
	}
	if end.Left != nil {
		h.Note("%v; bothy flow rm %s removes it", end.Left, id)
	}
	switch {
	case end.Next == "":
	case end.Lost:
		h.Note("a sandbox of it was removed, and there is nothing to go on with: %s", end.Next)
	default:
		h.Note("to go on: %s", end.Next)
		if s.Status == run.Completed {
			h.Note("to leave it at that: bothy flow stop %s", id)
		}
	}
	if s.Raisable() {
		h.Note("to go on, with more than is used: %s", runstate.RaiseCommand(end.Run.Kind, id, s.Reason))
	}
}
