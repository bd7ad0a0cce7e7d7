package runview

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// deniedText says that a model could not be asked, and when the work continues. known says whether the
// provider told until when.
func deniedText(whose string, overloaded, known bool, until time.Time) string {
	text := whose + " allowance is used up"
	switch {
	case overloaded:
		text = "the provider of " + whose + " model is overloaded"
	case !known:
		text += ", it does not say until when"
	}
	return text + ": waiting until " + until.Local().Format(time.DateTime)
}

// unheardText describes a failed review that is to be repeated; s is the state of its work after the
// event.
func unheardText(ev run.Event, s *loop.State) string {
	var u loop.Unheard
	if json.Unmarshal(ev.Data, &u) != nil {
		return ""
	}
	return "gate " + u.Gate + ": " + deniedText("the reviewer's", u.Overloaded, !u.Until.IsZero(), s.Until)
}

func Rounded(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }

// soFarText formats a loop's usage; unknown usage is not shown as 0.
func soFarText(s *loop.State) string {
	if !s.Metered.Known() && s.Tokens == 0 && s.USD == 0 {
		return "an unknown number of tokens"
	}
	return cmdline.UsedText(s.Tokens, s.USD)
}

// pastLine describes a past event of a loop, including that a process resumed it.
func pastLine(p *loopplan.Plan, ev run.Event, s *loop.State) string {
	if ev.Type == run.Began && s.Iteration > 0 {
		return "resumed, by another process"
	}
	return LoopLine(p, ev, s)
}

// promptText returns the prompt to show.
func promptText(p *loopplan.Plan) string {
	if p.Prompt == runstate.TaskPrompt {
		return "-, but for that of each task"
	}
	return p.Prompt
}

// LoopLine describes an event; s is the loop's state after it.
func LoopLine(p *loopplan.Plan, ev run.Event, s *loop.State) string {
	n, w := s.Of(ev)
	if w == nil {
		if line := eventLine(p, ev, s); line != "" {
			return line
		}
		return iterationLine(p, ev, s, s)
	}
	line := workerLine(p, ev, s, w)
	if line == "" {
		line = iterationLine(p, ev, s, w)
	}
	if line == "" {
		return ""
	}
	return fmt.Sprintf("worker %d: %s", n, line)
}

// iterationLine describes an event of an iteration, which a loop alone and each of its workers have. at is the
// state of the one that it belongs to.
func iterationLine(p *loopplan.Plan, ev run.Event, s, at *loop.State) string {
	line := iterationText(p, ev, s, at)
	if line == "" {
		return ""
	}
	return fmt.Sprintf("iteration %d/%d: %s", at.Iteration, p.Limits.MaxIterations, line)
}

func iterationText(p *loopplan.Plan, ev run.Event, s, at *loop.State) string {
	soFar := fmt.Sprintf("%s and %s so far", soFarText(s), Rounded(time.Duration(s.Elapsed)))
	if at != s {
		soFar = "all: " + soFar
	}
	switch ev.Type {
	case loop.Iteration:
		return beginText(p, s, at)
	case loop.Worked:
		return workText(at)
	case loop.Cut:
		return cutText(ev)
	case loop.Kept:
		return fmt.Sprintf("checkpoint %d, %s changed", at.Keep.Checkpoint, cmdline.Counted(at.Keep.Changes, "path"))
	case loop.Judged:
		return gatesText(p, at.Verdict) + doubtText(p, at) + "; " + soFar
	case loop.Reviewing:
		return "gate " + at.Reviewing + " is asked: " + p.Reviewer(at.Reviewing)
	case loop.ReviewDelayed:
		return unheardText(ev, at)
	case loop.ReviewCut:
		var u loop.Unheard
		if json.Unmarshal(ev.Data, &u) != nil {
			return ""
		}
		return "the review is cut short; it used " + cmdline.UsedText(u.Tokens, u.USD)
	case loop.Reviewed:
		var r loop.Review
		if json.Unmarshal(ev.Data, &r) != nil {
			return ""
		}
		return reviewText(r.Gate) + "; " + soFar
	}
	return ""
}

// beginText says which agent begins an iteration, and with what.
func beginText(p *loopplan.Plan, s, at *loop.State) string {
	works := cmp.Or(at.Agent, p.Agent)
	if at.Model != "" {
		works += " (" + at.Model + ")"
	}
	works += " works"
	if at != s {
		return works + " at " + at.Task.ID
	}
	if n := s.Told(); n > 0 {
		return works + ", with " + cmdline.Counted(n, "hint")
	}
	return works
}

// eventLine describes an event of the loop itself.
func eventLine(p *loopplan.Plan, ev run.Event, s *loop.State) string {
	switch ev.Type {
	case loop.Baseline:
		return "before the first iteration: " + gatesText(p, s.Baseline)
	case loop.Guarded:
		return guardText(ev)
	case loop.Took:
		return "task " + s.Task.ID + ": " + term.Opening(s.Task.Title)
	case loop.Closed:
		return "task " + s.Closed[len(s.Closed)-1].Task + " is closed"
	case loop.PutBack:
		last := s.Left[len(s.Left)-1]
		line := "task " + last.Task + " is put back: " + term.Opening(last.Why)
		if last.Checkpoint > 0 {
			line += fmt.Sprintf("; the files are put back to checkpoint %d", last.Checkpoint)
		}
		return line
	case loop.Lost:
		last := s.Left[len(s.Left)-1]
		return "task " + last.Task + " is another's: " + term.Opening(last.Why)
	case loop.Hinted:
		return "a hint from " + ev.Actor
	case run.Raised:
		return RaisedText(ev)
	case loop.Cleared:
		return "unread hints are taken back, by " + ev.Actor
	case loop.Replaced:
		if s.Again() {
			return replacedText(ev) + fmt.Sprintf("; iteration %d is begun again", s.Iteration)
		}
		return replacedText(ev)
	case loop.Rewound:
		return "back " + s.Detail + ", by " + ev.Actor
	case run.Ended:
		return strings.TrimSuffix(fmt.Sprintf("%s (%s): %s", s.Status, s.Reason, s.Detail), ": ")
	}
	return ""
}

// workerLine describes an event that only one of several workers has; s is the loop's state after it, w the
// worker's.
func workerLine(p *loopplan.Plan, ev run.Event, s, w *loop.State) string {
	switch ev.Type {
	case loop.Took:
		return "task " + w.Task.ID + ": " + term.Opening(w.Task.Title)
	case loop.Joined:
		if n := len(w.Join.Conflicts); n > 0 {
			return fmt.Sprintf("task %s: in conflict with what others have done: %s", w.Task.ID, cmdline.Counted(n, "path"))
		}
		if n := len(w.Join.Texts); n > 0 {
			return fmt.Sprintf("task %s: lines of %s are brought together with what others have done", w.Task.ID, cmdline.Counted(n, "file"))
		}
		return ""
	case loop.Guarded:
		return guardText(ev)
	case loop.Rejudged:
		return "task " + w.Task.ID + ", together with what others have done: " + gatesText(p, w.Verdict)
	case loop.Closed:
		return "task " + s.Closed[len(s.Closed)-1].Task + " is closed"
	case loop.PutBack, loop.Lost:
		return leftText(ev)
	case loop.Replaced:
		return replacedText(ev)
	}
	return ""
}

func replacedText(ev run.Event) string {
	var at loop.Place
	if json.Unmarshal(ev.Data, &at) != nil {
		return ""
	}
	return "the sandbox " + at.Sandbox + " was removed, and is made anew"
}

// guardText lists the protected paths that were restored.
func guardText(ev run.Event) string {
	var g loop.Guard
	if json.Unmarshal(ev.Data, &g) != nil {
		return ""
	}
	var parts []string
	if list := slices.Clone(g.Paths); len(list) > 0 {
		for i := range list {
			list[i] = quote.Path(list[i])
		}
		if g.More > 0 {
			list = append(list, fmt.Sprintf("%d more", g.More))
		}
		parts = append(parts, "put back: "+strings.Join(list, ", "))
	}
	for _, left := range g.Left {
		parts = append(parts, "not put back: "+term.Opening(left))
	}
	return strings.Join(parts, "; ")
}

func cutText(ev run.Event) string {
	var w loop.Work
	if json.Unmarshal(ev.Data, &w) != nil {
		return "cut short"
	}
	if w.Crashed != "" {
		return w.Crashed + "; it is done again, and used " + cmdline.UsedText(w.Tokens, w.USD)
	}
	return "cut short; it used " + cmdline.UsedText(w.Tokens, w.USD)
}

// leftText describes a task that a worker gave up or lost.
func leftText(ev run.Event) string {
	var l loop.Left
	switch {
	case json.Unmarshal(ev.Data, &l) != nil:
		return ""
	case ev.Type == loop.Lost:
		return "task " + l.Task + " is another's: " + term.Opening(l.Why)
	case l.Again:
		return "task " + l.Task + " is tried again: " + l.Why
	}
	return "task " + l.Task + " is put back: " + term.Opening(l.Why)
}

// workText describes how the agent's work ended; s is its state after that.
func workText(s *loop.State) string {
	text := verdictText(s)
	if stayed := s.Work.Stayed; stayed != "" {
		text += " (" + term.Line(stayed) + ")"
	}
	return text
}

// verdictText is workText by the agent's own account.
func verdictText(s *loop.State) string {
	w := s.Work
	took := Rounded(time.Duration(w.Seconds * float64(time.Second)))
	switch {
	case w.Verdict == spec.VerdictLimit:
		return deniedText("its", w.Overloaded, !w.Until.IsZero(), s.Until)
	case w.Verdict != spec.VerdictOK:
		return "the agent failed after " + took + ": " + term.Opening(w.Error)
	case w.Abort:
		return "the agent gives up after " + took
	case w.Asks:
		return "the agent asks, after " + took + ": " + term.Opening(w.Question())
	case w.Done:
		return "the agent says that it is done, after " + took
	}
	return "the agent ended after " + took + ", and " + unsaidText(w)
}

// unsaidText describes an agent that did not say that it is done. That does not mean that it is not.
func unsaidText(w *loop.Work) string {
	if strings.TrimSpace(w.Message) == "" {
		return "said nothing"
	}
	return "said nothing of being done"
}

// doubtText says why the agent's promise is not believed, to follow the gates' verdict. It is empty
// if the promise is believed.
func doubtText(p *loopplan.Plan, s *loop.State) string {
	if !loop.Unproven(p, s) {
		return ""
	}
	return " as before, and no file was changed: its claim to be done is ignored"
}
