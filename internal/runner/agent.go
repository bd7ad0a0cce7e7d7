package runner

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/agent/transcript"
	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Worker returns the agent with this name, if it can work without a terminal and its output can be
// judged.
func Worker(list agent.Catalog, name string) (*spec.Agent, error) {
	of, err := list.Called(name)
	if err != nil {
		return nil, err
	}
	what, lacks := "how it works without a terminal", "headless"
	if of.Headless != nil {
		what, lacks = "how to read its output without a terminal, so its work could not be judged", "events, below headless"
	}
	if of.Headless == nil || of.Headless.Events == nil {
		return nil, spec.Errorf(spec.ErrUsage, "the description of %s does not say %s", of.Title, what).
			WithHint("have another agent do it, or write a description of your own: bothy agent show %s prints this one, which lacks %s (docs/guide/own-agent.md)", of.Name, lacks)
	}
	return of, nil
}

// turn is one task for an agent.
type turn struct {
	prompt, model, session string
	env                    []string
	dir                    string
	limit                  time.Duration
}

// request is a turn that an agent can take.
type request struct {
	rules  *transcript.Rules
	q      wire.Command
	stdin  string
	linger time.Duration // from its reported end to its exit
}

// prepareRequest checks that an agent can be asked, before any sandbox is touched.
func prepareRequest(of *spec.Agent, t turn) (*request, error) {
	rules, err := transcript.ForOutput(of.Headless)
	if err != nil {
		return nil, err
	}
	argv, stdin := agent.Headless(of, t.prompt, t.model, t.session)
	q := wire.Command{Args: argv, Env: t.env, Dir: t.dir, Timeout: spec.Duration(t.limit)}
	return &request{rules, q, stdin, cmp.Or(time.Duration(of.Headless.Linger), spec.UsualLinger)}, fitsArguments(argv)
}

// report is an agent's report on its work, and how its process ended.
type report struct {
	digest transcript.Digest
	status int
	said   string // the end of its standard error
	ended  int    // the line with its end report; 0 if it has not ended, or has continued since
	stayed string // how it was stopped after that, if it did not exit by itself
}

// askAgent runs an agent. Both writers get its output. If its work was [shortened], its report until
// then counts.
func (p *request) askAgent(ctx context.Context, in *headless.Session, stdout, stderr io.Writer) (*report, error) {
	a := &report{}
	var r *transcript.Reader
	r = transcript.NewReader(p.rules, func(ev spec.TranscriptEvent) error { a.hearEvent(ev, r.Lines()); return nil })
	enough := make(chan struct{})
	l := newLinger(p.linger, func() bool { return a.ended > 0 }, enough)
	defer l.giveUp.Stop()
	var err error
	a.status, a.said, err = runCommand(ctx, enough, in, p.q, p.stdin, io.MultiWriter(stdout, r, l), stderr)
	select {
	case <-enough:
		err = cmp.Or[error](err, &lingerError{p.linger})
	default:
	}
	if cerr := r.Close(); cerr != nil { // unread output cannot be judged
		return a, cerr
	}
	return a, err
}

// answerPrompt is askAgent for callers that do not care why the work was cut short.
func (p *request) answerPrompt(ctx context.Context, in *headless.Session, stdout, stderr io.Writer) (*report, error) {
	a, err := p.askAgent(ctx, in, stdout, stderr)
	if ctx.Err() == nil {
		err = a.endEarly(err)
	}
	return a, err
}

// hearEvent takes the next event of the agent. A line may hold several events.
func (a *report) hearEvent(ev spec.TranscriptEvent, line int) {
	a.digest.Add(ev)
	switch {
	case ev.Kind == spec.TalkEnd:
		a.ended = line
	case goesOn(ev.Kind) && a.ended != line:
		a.ended = 0
	}
}

// endEarly treats shortened work as over. An agent that had reported its end is judged by that report,
// as if it had exited then; any other has failed. Other errors stay errors.
func (a *report) endEarly(err error) error {
	why := shortened(err)
	switch {
	case why == nil:
		return err
	case a.ended > 0:
		a.status, a.stayed = spec.ExitOK, "after it had said how it ended: "+why.Error()
	default:
		a.digest.End, a.status, a.said = nil, spec.ExitError, why.Error()
	}
	return nil
}

// agentUsage returns the agent's own figures of its use.
func (a *report) agentUsage() loop.Work {
	d := &a.digest
	w := loop.Work{Session: d.Session, Calls: d.Calls, Tokens: d.Usage.Input + d.Usage.CacheWrite + d.Usage.Output, USD: d.Usage.USD}
	if d.Usage != (spec.TranscriptUsage{}) {
		w.Said = &spec.Claimed{Tokens: w.Tokens, USD: w.USD}
	}
	return w
}

// judgeWork judges the agent by its own report.
func (a *report) judgeWork() loop.Work {
	w, d := a.agentUsage(), &a.digest
	w.Verdict, w.Message, w.Stayed = d.Verdict(a.status), d.Message(), a.stayed
	if w.Verdict == spec.VerdictOK {
		return w
	}
	if d.Limit != nil && (w.Verdict == spec.VerdictLimit || d.Limit.Until.After(time.Now())) {
		w.Verdict, w.Until = spec.VerdictLimit, d.Limit.Until
	}
	switch {
	case d.End != nil && d.End.Verdict == spec.VerdictOK && a.status == spec.ExitOK:
		w.Error = strings.TrimSuffix("it ended well, and said and did nothing: "+a.said, ": ")
	case d.End != nil:
		w.Error = cmp.Or(d.End.Text, a.said, fmt.Sprintf("it ended with status %d", a.status))
	default:
		w.Error = cmp.Or(a.said, fmt.Sprintf("it ended with status %d, and did not say how", a.status))
	}
	return w
}

// TakesAll checks that the fixed part of an agent's prompt leaves room for the rest.
func TakesAll(of *spec.Agent, p *loopplan.Plan) error {
	if n := loop.FixedSize(p); !of.Headless.Prompt.Stdin && n > loop.MaxTask {
		return spec.Errorf(spec.ErrUsage, "the prompt has %d KiB: %s takes it as an argument, of which Linux takes 128 KiB, and %d KiB are for what the checks find", n>>10, of.Title, 128-loop.MaxTask>>10).
			WithHint("put the task into a file of the project, and name that in the prompt")
	}
	return nil
}

// maxArgument is Linux's limit for an argument, in bytes, with the zero at its end.
const maxArgument = 128 << 10

func fitsArguments(argv []string) error {
	for _, arg := range argv {
		if len(arg) >= maxArgument {
			return spec.Errorf(spec.ErrUsage, "the prompt has %d KiB: this agent takes it as an argument, of which Linux takes 128 KiB", len(arg)>>10).
				WithHint("put the task into a file of the project, and name that in the prompt")
		}
	}
	return nil
}
