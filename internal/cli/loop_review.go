package cli

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/agent/transcript"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// loopReviewers finds the agents of a loop that judge, by their names.
func loopReviewers(e *engine.Engine, p *loop.Plan) (map[string]*spec.Agent, error) {
	found := map[string]*spec.Agent{}
	for _, c := range p.Reviewers() {
		of, err := loopAgent(e, c.Reviewer.Agent)
		if err == nil && c.Reviewer.Model != "" && len(of.Headless.Model) == 0 {
			err = spec.Errorf(spec.ErrUsage, "the description of %s does not say how it is given a model", of.Title).
				WithHint("headless: model is what it lacks, see docs/agents.md")
		}
		if err != nil {
			return nil, &spec.Error{Op: "gate " + c.ID, Err: err, Hint: spec.Hint(err)}
		}
		found[of.Name] = of
	}
	return found, nil
}

// houseReviewers sees that those who judge can do so beside a sandbox that is to be
// made: better now than after hours.
func (f *loopFlags) houseReviewers(ctx context.Context, a *app, e *engine.Engine, sb *spec.Sandbox) error {
	found, err := loopReviewers(e, &f.plan)
	if err == nil && len(found) > 0 {
		err = reviewPlaceFree(sb)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if err == nil {
			err = a.houseReviewer(ctx, e, sb, found[name])
		}
	}
	return err
}

// reviewPlaceFree refuses a sandbox that shows something of the host where reviewers have
// their files: who works could have written a verdict there before.
func reviewPlaceFree(sb *spec.Sandbox) error {
	for _, m := range slices.Concat(sb.Workspaces, sb.Volumes) {
		if strings.HasPrefix(path.Clean(m.Target)+"/", loop.ReviewPlace+"/") {
			return spec.Errorf(spec.ErrUsage, "%s would be in the sandbox where reviewers have their files, %s", m.Target, loop.ReviewPlace).
				WithHint("move it, or show it at another path: -v")
		}
	}
	return nil
}

func (a *app) houseReviewer(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, of *spec.Agent) error {
	if _, err := a.house(ctx, e, &lodger{name: of.Name, spec: of}, sb, ""); err != nil {
		return err
	}
	if sb.Mock != nil {
		return engine.Playable(of)
	}
	c, err := e.FindCredential(of)
	if err == nil && c.Secret == "" && len(of.Credentials) > 0 {
		a.note("%s, who reviews, has no credential: %s", of.Title, strings.Join(waysToLogIn(of), ", or "))
	}
	if err == nil {
		a.note("%s reviews in sandboxes of its own, with its login and what its preset lets it reach", of.Title)
	}
	return err
}

// Review has a reviewer look at a copy of the work.
func (s *loopShop) Review(ctx context.Context, job loop.ReviewJob) (o loop.Opinion, err error) {
	of, err := loopAgent(s.engine, job.Agent)
	if err != nil {
		return o, err
	}
	p, err := s.engine.Checkpoints(s.sandbox).Find(strconv.FormatInt(job.Checkpoint, 10))
	if err != nil {
		return o, err
	}
	program, err := s.app.house(ctx, s.engine, &lodger{name: of.Name, spec: of}, s.sandbox, "")
	if err != nil {
		return o, err
	}
	sb, err := s.engine.Review(ctx, s.sandbox, p, engine.Reviewer{Agent: of, Program: program, Budget: job.Budget})
	if err != nil {
		return o, err
	}
	defer s.remove(ctx, sb)
	began := time.Now()
	o, err = s.read(ctx, sb, of, job)
	// What others inside have asked models for counts too, to the end.
	bill, berr := s.engine.Bill(context.WithoutCancel(ctx), sb)
	if berr == nil {
		meter(&o.Work, spec.Bill{}, bill, began)
	}
	return o, errors.Join(err, berr)
}

// read has the reviewer read the work, and takes its verdict out. Its sandbox runs on
// meanwhile: whoever runs in it could have written the verdict before, too.
func (s *loopShop) read(ctx context.Context, sb *spec.Sandbox, of *spec.Agent, job loop.ReviewJob) (o loop.Opinion, err error) {
	files := delivery{place: loop.ReviewPlace, files: job.Files, output: loop.ReviewOutput}
	if err := s.app.deliver(ctx, s.engine, sb, files, true); err != nil {
		return o, err
	}
	if o.Work, err = s.have(ctx, sb, of, job); err != nil || o.Verdict != spec.VerdictOK {
		return o, err
	}
	o.Document, o.Missing, err = s.app.document(ctx, s.engine, sb, path.Join(loop.ReviewPlace, loop.ReviewOutput), true)
	return o, err
}

// have has the reviewer work.
func (s *loopShop) have(ctx context.Context, sb *spec.Sandbox, of *spec.Agent, job loop.ReviewJob) (w loop.Work, err error) {
	rules, err := transcript.ForOutput(of.Headless)
	if err != nil {
		return w, err
	}
	argv, stdin := agent.Headless(of, job.Prompt, job.Model, "")
	if err := fitsArguments(argv); err != nil {
		return w, err
	}
	var d transcript.Digest
	r := transcript.NewReader(rules, func(ev spec.TranscriptEvent) error { d.Add(ev); return nil })
	said := &ending{}
	q := wire.Ask{Op: wire.OpExec, Prepares: true, Command: wire.Command{Args: argv, Timeout: spec.Duration(job.Limit)}}
	status, err := inside(ctx, session{engine: s.engine, sandbox: sb}, q, stdin, r, said)
	last := said.String()
	if short := (*cutShort)(nil); errors.As(err, &short) && ctx.Err() == nil {
		d.End, status, last, err = nil, spec.ExitError, short.Error(), nil
	}
	if err = errors.Join(err, r.Close()); err != nil {
		return usedOf(&d), err
	}
	return workOf(&d, status, last), nil
}

// lower has the gateway hold a budget, unless it holds a smaller one: somebody may have
// set that.
func (s *loopShop) lower(ctx context.Context, sb *spec.Sandbox, b spec.Budget) error {
	now, err := s.engine.Find(sb.ID)
	if err != nil {
		return err
	}
	has := now.Budget
	if has.Tokens > 0 && (b.Tokens == 0 || has.Tokens < b.Tokens) {
		b.Tokens = has.Tokens
	}
	if has.USD > 0 && (b.USD == 0 || has.USD < b.USD) {
		b.USD = has.USD
	}
	if b == has {
		return nil
	}
	return s.engine.SetBudget(ctx, sb, b)
}
