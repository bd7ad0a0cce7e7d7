package runview

import (
	"fmt"
	"time"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// NextSteps lists what a person can do once no process runs a loop any more.
func NextSteps(id string, sb *spec.Sandbox, p *loopplan.Plan, s *loop.State) (lines []string) {
	held := s.Status == run.Waiting && s.Reason == loop.ReasonTasksOpen
	over := s.Final() || held
	switch {
	case !over:
	case s.Keep == nil && len(s.Workers) == 0: // no work was done
	case len(sb.Workspaces) == 0:
	case sb.Reviews(sb.Workspaces[0]):
		lines = append(lines, fmt.Sprintf("the work waits in the sandbox: bothy diff %s, bothy apply %s", sb.Name, sb.Name))
	case sb.Clones(sb.Workspaces[0]):
		lines = append(lines, fmt.Sprintf("the commits wait in the sandbox: bothy fetch %s", sb.Name))
	}
	switch {
	case s.Status == run.Limited:
		lines = append(lines, "to go on, with more than is used: "+runstate.RaiseCommand(run.Loops, id, s.Reason))
	case s.Final():
	case s.Status == run.Waiting && s.Reason == loop.ReasonQuestion:
		lines = append(lines, fmt.Sprintf("to answer and go on: bothy loop hint %s 'TEXT', bothy loop resume %s", id, id))
	case held:
		lines = append(lines, "what the open tasks wait for: "+runstate.ShowTask(p, s.HeldUp[0].Task))
		lines = append(lines, fmt.Sprintf("to go on when they are closed, or can be taken: bothy loop resume %s", id))
	default:
		lines = append(lines, fmt.Sprintf("to go on: bothy loop resume %s", id))
	}
	if text := UntoldText(id, s); text != "" && s.Status != run.Waiting { // a waiting loop still delivers them
		lines = append(lines, text)
	}
	return lines
}

// UntoldText describes hints that no iteration got, and how they are used later. It is empty without
// any.
func UntoldText(id string, s *loop.State) string {
	text := cmdline.Counted(len(s.Hints), "hint") + " that no iteration was told: "
	switch {
	case len(s.Hints) == 0:
		return ""
	case !s.Final(), s.Status == run.Limited:
		return text + "for the next one, if you go on"
	case s.Status == run.Cancelled || len(s.Workers) > 0:
		return text + "bothy loop run --add-context 'TEXT' has another loop hear it"
	}
	return text + fmt.Sprintf("bothy loop rewind %s N goes on from an earlier one, and the next is told", id)
}

// WhyText says why a run of the list of all runs has its status.
func WhyText(v runstate.Summary) string {
	if d, waits := v.Waits(); waits {
		return "waits until " + delayText(d)
	}
	return v.Why()
}

// delayText says until when a run waits and why, for a row.
func delayText(d run.Delay) string {
	return d.Until.Local().Format(time.DateTime) + ", " + runstate.DelayReason(d)
}

// workerText describes a worker for a row.
func workerText(v runstate.Worker) string {
	if v.Task == nil {
		return v.Step
	}
	text := v.Task.ID + " " + term.Opening(v.Task.Title)
	if v.Iteration > 0 {
		text += fmt.Sprintf(", iteration %d", v.Iteration)
	}
	return text + ": " + v.Step
}
