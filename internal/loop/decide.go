package loop

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// Step is the next action. Exactly one of its fields is set.
type Step struct {
	Baseline bool // run the gates before any work
	Iterate  int  // run the agent: this iteration, perhaps again
	Keep     bool // make a checkpoint
	Confirm  bool // check whether the files are still those of the checkpoint: people may have changed them since
	Judge    bool // ask the gates
	Wait     time.Time
	End      *End

	Guard   bool   // restore protected files
	Restore bool   // restore files, to complete an interrupted rewind
	Take    bool   // claim a task; the current one, if there is one
	Close   bool   // close the current task, which is done
	PutBack string // put the task back, for this reason

	Review *loopplan.Criterion // ask this reviewer, too

	Join    bool // merge a worker's result with that of the others
	Rejudge bool // ask the gates again, of both together
	Settle  bool // copy the merge into the loop's sandbox
	Again   bool // with PutBack: it will be tried again
	Outrun  bool // with Again: because of the others' results
}

// Next decides the next action at a time.
func Next(p *loopplan.Plan, s *State, now time.Time) Step {
	if s.back != nil {
		return Step{Restore: true}
	}
	if s.Baseline == nil {
		return Step{Baseline: true}
	}
	if s.tampered {
		return Step{Guard: true}
	}
	if p.Tasks != nil && !s.held {
		return Step{Take: true}
	}
	switch s.step {
	case Worked:
		if s.Work.Verdict != spec.VerdictLimit {
			return Step{Keep: true}
		}
		if reached(s.SameLimit, p.Stall.SameLimit) {
			return Step{End: sameLimit(s)}
		}
	case Kept:
		return afterKept(s)
	case Judged:
		step := afterJudged(p, s)
		if s.stale && step.decides() {
			return Step{Confirm: true}
		}
		if c := toReview(p, s); c != nil {
			return reviewing(p, s, s, c, now)
		}
		if step != nil {
			return *step
		}
	}
	return iterate(p, s, s, now)
}

// iterate returns the next iteration of a worker, or why there is none, or not yet.
func iterate(p *loopplan.Plan, s, w *State, now time.Time) Step {
	if end := spentEnd(p, s, now); end != nil {
		return Step{End: end}
	}
	if end := crashedTooOften(w); end != nil {
		return Step{End: end}
	}
	if until := w.wakeTime(now); w.step == Worked && until.After(now) { // a reviewer's delay does not count here
		return Step{Wait: until}
	}
	if w.step == Iteration || w.step == Worked { // it was interrupted, or does not count
		return Step{Iterate: w.Iteration}
	}
	if s.Iteration >= p.Limits.MaxIterations {
		return Step{End: tooMany(s)}
	}
	return Step{Iterate: s.Iteration + 1}
}

// foreseen returns the iteration that comes next whatever the gates will say, or as long as they say the
// same as before. It returns 0 if it is another agent's turn, or if the gates may find that the work is
// done.
func foreseen(p *loopplan.Plan, s *State, now time.Time) int {
	if len(p.Agents) > 0 || s.Work == nil || s.Work.Done {
		return 0
	}
	then := *s
	then.step = Judged
	return Next(p, &then, now).Iterate
}

// afterKept returns the step after a checkpoint.
func afterKept(s *State) Step { return Step{Confirm: s.stale, Judge: !s.stale} }

// decides reports whether a step means that work is done, unless a reviewer objects.
func (s *Step) decides() bool {
	return s != nil && (s.Close || s.End != nil && s.End.Status == run.Completed)
}

func sameLimit(s *State) *End {
	return &End{Status: run.Stalled, Reason: "same_limit", Detail: s.denied("the agent")}
}

// denied says how often in a row an agent could not use its model.
func (s *State) denied(who string) string {
	if s.denial.For == run.Overloaded {
		return fmt.Sprintf("%s could do nothing %d times in a row, now because the provider of its model is overloaded", who, s.SameLimit)
	}
	return fmt.Sprintf("%s said %d times in a row that its allowance is used up", who, s.SameLimit)
}

func tooMany(s *State) *End {
	return &End{Status: run.Limited, Reason: "iterations", Detail: "not done after " + countText(s.Iteration, "iteration", "iterations")}
}

// afterJudged returns the step after the gates have judged an iteration; nil for another iteration.
func afterJudged(p *loopplan.Plan, s *State) *Step {
	if p.Tasks != nil {
		return taskJudged(p, s)
	}
	if end := verdict(p, s); end != nil {
		return &Step{End: end}
	}
	return nil
}

// taskJudged is judged for a loop that takes tasks. A stall ends only the work at one task, instead of
// the whole loop. But if an agent asks a question, or does not work at all, the next task would not
// help.
func taskJudged(p *loopplan.Plan, s *State) *Step {
	ok := s.Work.Verdict == spec.VerdictOK
	end := verdict(p, s)
	switch {
	case complete(p, s):
		return &Step{Close: true}
	case ok && s.Work.Abort:
		return &Step{PutBack: "the agent gave up"}
	case agreed(p, s): // a hint waits, however often it was tried
		return nil
	case end != nil && (end.Reason == ReasonQuestion || end.Reason == "same_error"):
		return &Step{End: end}
	case end != nil:
		return &Step{PutBack: end.Detail}
	case s.tries >= p.Tasks.Tries:
		return &Step{PutBack: "it is not done after " + countText(s.tries, "iteration", "iterations")}
	}
	return nil
}

// NextOf decides the next action for one of several workers. An End ends all of them, as soon as every
// worker is idle.
func NextOf(p *loopplan.Plan, s, w *State, now time.Time) Step {
	step := nextOf(p, s, w, now)
	if step.Iterate > 0 && w.tampered {
		return Step{Guard: true}
	}
	return step
}

func nextOf(p *loopplan.Plan, s, w *State, now time.Time) Step {
	if !w.held {
		return Step{Take: true}
	}
	told := *w
	if s.Iteration < p.Limits.MaxIterations && spentEnd(p, s, now) == nil { // otherwise finished work does not wait for the hints
		told.Hints = s.Hints
	}
	switch w.step {
	case Worked:
		if w.Work.Verdict != spec.VerdictLimit {
			return Step{Keep: true}
		}
		if reached(w.SameLimit, p.Stall.SameLimit) {
			return Step{End: sameLimit(w)}
		}
	case Kept:
		return afterKept(w)
	case Judged:
		step := taskJudged(p, &told)
		if w.stale && step.decides() {
			return Step{Confirm: true}
		}
		if step := reviewOf(p, s, &told, now); step != nil {
			return *step
		}
		if step.decides() {
			return Step{Join: true}
		}
		if step != nil {
			return *step
		}
	case Rejudged, Joined, Settled:
		if step := toJoin(p, s, &told, now); step != nil {
			return *step
		}
	}
	return iterate(p, s, w, now)
}

// reviewOf asks the next reviewer of a worker's result, on its own or merged with that of the others. It
// returns nil if no reviewer is left.
func reviewOf(p *loopplan.Plan, s, w *State, now time.Time) *Step {
	c := toReview(p, w)
	if c == nil {
		return nil
	}
	step := reviewing(p, s, w, c, now)
	return &step
}

// toJoin returns the step after a merge, or after the result is in the loop's sandbox. It returns nil if
// a hint must be delivered first: then the merge is put off.
func toJoin(p *loopplan.Plan, s, w *State, now time.Time) *Step {
	if w.step == Rejudged {
		if step := reviewOf(p, s, w, now); step != nil {
			return step
		}
	}
	step := afterJoined(p, s, w)
	if w.Urged() && (step.Rejudge || step.Settle) {
		return nil
	}
	return &step
}

// afterJoined returns the step for a task whose own result is done.
func afterJoined(p *loopplan.Plan, s, w *State) Step {
	again := func(why string) Step {
		switch s.outrun[w.Task.ID] {
		case maxOutrun - 1:
			why += "; it is done next while no other worker has a task"
			fallthrough
		case 0:
			return Step{PutBack: why, Again: true, Outrun: true}
		}
		if w.tries >= p.Tasks.Tries {
			return Step{PutBack: why + ", and it is not done after " + countText(w.tries, "iteration", "iterations")}
		}
		return Step{PutBack: why, Again: true}
	}
	switch {
	case w.step == Settled:
		return Step{Close: true}
	case len(w.Join.Conflicts) > 0:
		return again("what others have done meanwhile is in conflict with it: " + run.Tail(run.Few(w.Join.Conflicts), 1000))
	case w.step == Rejudged && len(w.Verdict.Red()) > 0:
		return again("it is green by itself, and red together with what others have done meanwhile: " + run.Tail(redNames(w.Verdict), 1000))
	case w.step == Rejudged || w.Join.Alone:
		return Step{Settle: true}
	}
	return Step{Rejudge: true}
}

// redNames lists the red gates.
func redNames(v *Verdict) string {
	var names []string
	for _, g := range v.Red() {
		why := g.Why
		if g.Review && g.Output != "" { // a reviewer's text lists the remaining work
			why += ": " + strings.Join(strings.Fields(g.Output), " ")
		}
		names = append(names, fmt.Sprintf("%s (%s)", g.Name, why))
	}
	return run.Few(names)
}

// outOfTasks ends a loop without ready tasks, with a status that depends on its results.
func outOfTasks(s *State) End {
	green := len(s.LastVerdict().Red()) == 0
	failed := len(s.Left)
	came := doneTasks(s) + ", " + countText(failed, "was put back", "were put back")
	switch {
	case green && slices.ContainsFunc(s.Left, func(l Left) bool { return l.Objected }):
		return End{Status: run.Stalled, Reason: reasonTasksFailed, Detail: came + ", and a reviewer objects to their files"}
	case failed > 0 && green:
		return End{Status: run.Completed, Reason: reasonTasksFailed, Detail: came}
	case failed > 0:
		return End{Status: run.Stalled, Reason: reasonTasksFailed, Detail: came + ", and checks are red"}
	case !green:
		return End{Status: run.Stalled, Reason: "no_tasks", Detail: "no task is ready, and checks are red"}
	}
	return End{Status: run.Completed, Reason: reasonDone, Detail: doneTasks(s) + ", and no other is open"}
}

func doneTasks(s *State) string { return countText(len(s.Closed), "task is done", "tasks are done") }

// countText formats a number with a singular or a plural text.
func countText(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// reasonDone is the reason of a loop that has reached its goal.
const reasonDone = "done"

// reasonTasksFailed is the reason of a loop whose checks agree, although not all tasks are done: a task
// that cannot be done does not keep the loop from ending.
const reasonTasksFailed = "tasks_failed"

// agreed reports whether the agent says that it is done, has something to show for it, and all
// checks agree.
func agreed(p *loopplan.Plan, s *State) bool {
	return s.Work.Verdict == spec.VerdictOK && s.Work.Done && len(s.Verdict.Red()) == 0 && !Unproven(p, s)
}

// Unproven reports whether the agent says that it is done without proof: no file was changed since the
// task was taken (without tasks, since before the first iteration), and all gates were green at that
// time already. Reviewers were not asked then, so their agreement is proof.
func Unproven(p *loopplan.Plan, s *State) bool {
	if p.AllowUnchanged || s.changed || !s.claims || len(s.Verdict.Red()) > 0 || len(p.Reviewers()) > 0 {
		return false
	}
	before := s.Baseline
	if s.Task != nil {
		before = s.before
	}
	return before != nil && len(before.Red()) == 0
}

// unproven explains why the loop does not believe the agent.
const unproven = "what checks it was green before already, so that nothing shows that it is done"

// wanted reports whether one more iteration is wanted although the work is done. An undelivered hint is
// more work.
func wanted(p *loopplan.Plan, s *State) bool {
	if s.Task != nil && s.Task.Closed { // too late for more work
		return false
	}
	return s.Urged() || s.Iteration < p.Limits.MinIterations
}

// complete reports whether a task, or without tasks the loop, is done, and no further iteration is
// wanted.
func complete(p *loopplan.Plan, s *State) bool { return agreed(p, s) && !wanted(p, s) }

// verdict decides whether the result of an iteration ends the loop.
func verdict(p *loopplan.Plan, s *State) *End {
	ok := s.Work.Verdict == spec.VerdictOK
	switch {
	case complete(p, s):
		return &End{Status: run.Completed, Reason: reasonDone}
	case ok && s.Work.Abort:
		return &End{Status: run.Aborted, Reason: "abort_promise", Detail: "the agent gave up"}
	case agreed(p, s):
		return nil
	case reached(s.Asked, p.Stall.Questions):
		return &End{Status: run.Waiting, Reason: ReasonQuestion, Detail: "the agent asks: " + run.Tail(s.Work.Question(), 200)}
	case reached(s.Unchanged, p.Stall.Unchanged):
		return &End{Status: run.Stalled, Reason: "unchanged", Detail: "no file was changed in " + countText(s.Unchanged, "iteration", "iterations") + s.failure() + s.doubtText(p)}
	case reached(s.SameError, p.Stall.SameError):
		return &End{Status: run.Stalled, Reason: "same_error", Detail: fmt.Sprintf("the agent failed %d times in the same way", s.SameError) + s.failure()}
	case reached(s.SameRed, p.Stall.SameRed):
		return &End{Status: run.Stalled, Reason: "same_red", Detail: fmt.Sprintf("the same gates said the same %d times", s.SameRed)}
	}
	return nil
}

// failure describes the agent's last failure, to append to its consequence; empty if it did not fail.
func (s *State) failure() string {
	if s.Work.Verdict == spec.VerdictOK || s.Work.Error == "" {
		return ""
	}
	first, _, _ := strings.Cut(strings.TrimSpace(s.Work.Error), "\n")
	return "; the agent failed: " + strings.TrimSpace(run.Beginning(run.Plain(first), 200))
}

// doubtText explains why the agent is not believed, to append to the consequence; empty if it is believed.
func (s *State) doubtText(p *loopplan.Plan) string {
	if !Unproven(p, s) {
		return ""
	}
	return "; " + unproven
}

func reached(n, limit int) bool { return limit > 0 && n >= limit }

// spentEnd ends a loop whose budget is used up.
func spentEnd(p *loopplan.Plan, s *State, now time.Time) *End {
	r := s.Usage.Spent(p.Budget(), time.Duration(p.Limits.Time), s.Took(s.Status, now), s.unmetered)
	if r == nil {
		return nil
	}
	end := endEvent(*r)
	return &end
}

// ExitCode returns the exit code of the command that carried a loop on.
func (s *State) ExitCode() int { return s.Result.ExitCode(s.Reason == reasonTasksFailed) }

// ReasonQuestion is the reason of a loop that waits because its agent asks a person a question.
const ReasonQuestion = "question"

// timeLeft returns the rest of a time limit: 0 if it is unlimited, negative if it is exceeded.
func timeLeft(limit spec.Duration, used time.Duration) time.Duration {
	if limit == 0 {
		return 0
	}
	if rest := time.Duration(limit) - used; rest > 0 {
		return rest
	}
	return -1
}
