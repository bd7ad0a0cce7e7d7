package loop

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// Asking is the beginning of a review.
type Asking struct {
	By
	Iteration int    `json:"iteration"`
	Gate      string `json:"gate"` // its ID
}

// Review is the judgement of a reviewer on a checkpoint.
type Review struct {
	By
	Iteration  int   `json:"iteration"`
	Checkpoint int64 `json:"checkpoint"`
	Gate       Gate  `json:"gate"`
	Well       bool  `json:"well,omitempty"` // it ended well, whatever its judgement is
	Usage
}

// Usage is an agent's usage.
type Usage struct {
	Session string `json:"session,omitempty"`
	Calls   int    `json:"tool_calls"`
	// Tokens and USD are the agent's own figures, or the gateway's count if that is more.
	Tokens int64          `json:"tokens"`
	USD    float64        `json:"usd"`
	Said   *spec.Claimed  `json:"said,omitempty"`
	Seen   *spec.BillItem `json:"seen,omitempty"`
}

// addUsage adds up the usage. The numbers may be the agent's, so negative ones are ignored.
func (u *Usage) addUsage(o Usage) {
	tokens := max(o.Tokens, 0)
	u.Tokens = min(u.Tokens, math.MaxInt64-tokens) + tokens
	u.USD += max(o.USD, 0)
}

// usageOf returns the usage of some work.
func usageOf(w Work) Usage { return Usage{w.Session, w.Calls, w.Tokens, w.USD, w.Said, w.Seen} }

// ReviewJob is a reviewer's task.
type ReviewJob struct {
	Checkpoint int64
	Agent      string
	Model      string // empty: the agent's own choice
	Prompt     string
	Files      map[string][]byte // its input files, by their paths below loopplan.ReviewPlace
	Limit      time.Duration
	Budget     spec.Budget // limits of model usage
}

// Opinion is the reviewer's result.
type Opinion struct {
	Work
	Document []byte // the verdict, if Missing is empty
	Missing  string // why the document is missing
}

// reviewJob returns a reviewer's task for a checkpoint. w is the state of the worker, s that of the
// whole loop.
func reviewJob(p *loopplan.Plan, s, w *State, checkpoint int64, c *loopplan.Criterion) ReviewJob {
	limit := p.JudgeTime(c)
	if rest := timeLeft(p.Limits.Time, s.Took(s.Status, time.Now())); rest != 0 && rest < limit {
		limit = max(rest, time.Millisecond)
	}
	return ReviewJob{
		Checkpoint: checkpoint, Agent: c.Reviewer.Agent, Model: c.Reviewer.Model, Prompt: c.Reviewer.Instructions(), Limit: limit, Budget: budgetLeft(p, s),
		Files: map[string][]byte{loopplan.ReviewTask: []byte(strings.TrimSpace(p.Prompt+"\n\n"+taskOf(w.Task)) + "\n")},
	}
}

// budgetLeft returns the rest of the budget. It is never empty: [spentEnd] ends a loop before.
func budgetLeft(p *loopplan.Plan, s *State) spec.Budget { return budgetLess(p, s.Tokens, s.USD) }

// budgetOf returns the whole budget of the worker's sandbox: the budget less the reviewers' usage.
func budgetOf(p *loopplan.Plan, s *State) spec.Budget {
	return budgetLess(p, s.reviews.Tokens, s.reviews.USD)
}

// budgetLess returns the loop's budget without this usage. A limit does not become zero, which is unlimited.
func budgetLess(p *loopplan.Plan, tokens int64, usd float64) (b spec.Budget) {
	if p.Limits.Tokens > 0 {
		b.Tokens = max(p.Limits.Tokens-tokens, 1)
	}
	if p.Limits.USD > 0 {
		b.USD = max(p.Limits.USD-usd, 0.000001)
	}
	return b
}

// askReviewer asks a reviewer, and records the answer before any other action.
func (l *Loop) askReviewer(ctx context.Context, c *loopplan.Criterion) error {
	s := l.state
	a := Asking{Iteration: s.Iteration, Gate: c.ID}
	if err := l.keepEvent(Reviewing, a); err != nil {
		return err
	}
	kind, what, err := l.reviewFiles(ctx, reviewJob(l.Plan, s, s, s.checked, c), c, a)
	if kind == "" {
		return err
	}
	return cmp.Or(l.keepEvent(kind, what), err)
}

// reviewFiles asks a reviewer, and returns the type and data of the event to record, or an empty type
// without one. An error means that the review was interrupted.
func (l *Loop) reviewFiles(ctx context.Context, job ReviewJob, c *loopplan.Criterion, a Asking) (kind string, what any, err error) {
	began := time.Now()
	done, err := l.Runner.Review(ctx, job)
	used := usageOf(done.Work)
	if ctx.Err() != nil { // even with a result
		if !done.hasUsage() {
			return "", nil, ctx.Err()
		}
		return ReviewCut, Unheard{By: a.By, Iteration: a.Iteration, Gate: a.Gate, Usage: used}, ctx.Err()
	}
	if err == nil && done.Verdict == spec.VerdictLimit {
		return ReviewDelayed, Unheard{a.By, a.Iteration, a.Gate, done.Overloaded, done.Until, oneLine(done.Error), used}, nil
	}
	g := verdictOf(done)
	if err != nil {
		g = Gate{Why: "it cannot be judged: " + oneLine(err.Error())}
	}
	g.Name, g.Seconds, g.Review = c.ID, time.Since(began).Seconds(), true
	return Reviewed, Review{a.By, a.Iteration, job.Checkpoint, g, err == nil && done.Verdict == spec.VerdictOK, used}, nil
}

// reviews returns the number of reviewers that have judged.
func (v *Verdict) reviews() (n int) {
	if v == nil {
		return 0
	}
	for _, g := range v.Gates {
		if g.Review {
			n++
		}
	}
	return n
}

// verdictOf judges a reviewer's answer. It is green in only one case: the reviewer ended well, and
// its document conforms to the schema and says pass.
func verdictOf(r Opinion) Gate {
	red := func(why string) Gate { return Gate{Why: oneLine(why)} }
	switch {
	case r.Verdict != spec.VerdictOK:
		return red(reviewFailed + ": " + r.Error)
	case r.Missing != "":
		return red("the reviewer gave no verdict: " + r.Missing)
	}
	passed, reasons, err := loopplan.ReadVerdict(r.Document)
	if err != nil {
		return red("the reviewer's verdict " + err.Error())
	}
	g := Gate{Green: passed, Output: reasonsOf(reasons)}
	if !g.Green {
		g.Why = "the reviewer does not agree"
	}
	return g
}

// maxReasoned bounds all reasons that are kept, in bytes.
const maxReasoned = 8 << 10

// reasonsOf formats the reasons for the agent, a line each: they are data.
func reasonsOf(list []string) string {
	var b strings.Builder
	for _, r := range list {
		fmt.Fprintf(&b, "- %s\n", oneLine(r))
	}
	return strings.TrimSuffix(run.Beginning(b.String(), maxReasoned), "\n")
}

// oneLine turns a foreign text into one line, so that it cannot contain a heading.
func oneLine(text string) string {
	return strings.TrimSuffix(run.Beginning(strings.Join(strings.Fields(run.Plain(text)), " "), maxMessage), "\n")
}

// toReview returns the next reviewer to ask. It returns nil if the work is not done anyway, or if
// all have been asked.
func toReview(p *loopplan.Plan, s *State) *loopplan.Criterion {
	if !complete(p, s) {
		return nil
	}
	list := p.Reviewers()
	if s.reviewed >= len(list) {
		return nil
	}
	return &list[s.reviewed]
}

// addReview adds a reviewer's answer to the verdict.
func (s *State) addReview(r Review) {
	s.Reviewing = ""
	s.useReview(r.Usage)
	if r.Well {
		s.unmetered.Note("the reviewer "+r.Gate.Name, r.Tokens, r.USD, r.Said, r.Seen)
	}
	s.endReviewWait()
	if s.Verdict == nil {
		return
	}
	v := *s.Verdict
	v.Gates = append(slices.Clone(v.Gates), r.Gate)
	s.Verdict = &v
	s.reviewed++
	s.SameRed, s.red = countSame(s.wasSame, s.wasRed, fingerprint(v.Gates))
	s.objections = slices.DeleteFunc(slices.Clone(s.objections), func(g Gate) bool { return g.Name == r.Gate.Name })
	if !r.Gate.Green {
		s.objections = append(s.objections, r.Gate)
	}
}

// useReview counts a reviewer's usage: it reduces the worker's budget.
func (s *State) useReview(u Usage) {
	s.addUsage(Work{Tokens: u.Tokens, USD: u.USD, Said: u.Said, Seen: u.Seen})
	s.reviews.addUsage(u)
}

// lasting returns the part of a verdict that does not belong to one task.
func (v *Verdict) lasting() *Verdict {
	if v == nil {
		return nil
	}
	of := *v
	of.Gates = slices.DeleteFunc(slices.Clone(v.Gates), func(g Gate) bool { return g.Review })
	return &of
}

// findings returns the results of the last iteration for the agent: its flaws, or why it is not
// believed.
func findings(p *loopplan.Plan, s *State) []Gate {
	if !Unproven(p, s) {
		return s.listFlaws()
	}
	return append(s.listFlaws(), Gate{Name: "that it is done", Why: "you have said so, and no file of the project was changed; " + unproven})
}

// listFlaws returns the flaws for the agent: the red gates, and the last objection of each reviewer.
func (s *State) listFlaws() []Gate {
	red := s.LastVerdict().Red()
	for _, g := range s.objections {
		if !slices.ContainsFunc(red, func(o Gate) bool { return o.Name == g.Name }) {
			red = append(red, g)
		}
	}
	return red
}
