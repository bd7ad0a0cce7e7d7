package runner

import (
	"context"
	"errors"
	"io"
	"path"
	"time"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/otheragent"
	"github.com/bothy-dev/bothy/internal/records"
	"github.com/bothy-dev/bothy/spec"
)

// Review runs a reviewer on a copy of the work.
func (s *Loop) Review(ctx context.Context, job loop.ReviewJob) (o loop.Opinion, err error) {
	of, err := Worker(s.engine.Agents, job.Agent)
	if err != nil {
		return o, err
	}
	p, err := s.checkpoint(job.Checkpoint)
	if err != nil {
		return o, err
	}
	program, err := s.host.InstallAgent(ctx, of, s.Sandbox)
	if err != nil {
		return o, err
	}
	sb, err := s.proofFor(ctx, p, of, program, job.Budget)
	if err != nil {
		return o, &spec.Error{Op: "make a copy of " + s.Sandbox.Name + " to have it reviewed", Err: err}
	}
	defer s.removeCopy(ctx, sb)
	began := time.Now()
	o, err = s.readWork(ctx, sb, of, job)
	// The use of other processes inside counts too, to the end.
	bill, berr := records.Bill(context.WithoutCancel(ctx), s.engine.Keepers(), sb)
	if berr == nil {
		meterWork(&o.Work, spec.Bill{}, bill, began)
	}
	return o, errors.Join(err, berr)
}

// proofFor makes a copy of the work for a reviewer: with its program, its variables and, unless its
// model is a mock, its login. Its presets replace those of the agent whose work is judged. budget limits
// its model usage.
func (s *Loop) proofFor(ctx context.Context, p checkpoint.Point, of *spec.Agent, program *spec.Program, budget spec.Budget) (*spec.Sandbox, error) {
	as, err := otheragent.ReplaceAgent(s.engine, s.Sandbox, of, program)
	if err != nil {
		return nil, err
	}
	describe := func(sb *spec.Sandbox) {
		as.Describe(sb)
		sb.Budget = budget
	}
	sb, err := s.snapshots.ProofAs(ctx, s.Sandbox, p, describe, as.WriteRules)
	if err != nil || sb.Mock != nil {
		return sb, err
	}
	if err := s.engine.Credentials().LogIn(ctx, sb, of); err != nil {
		_ = s.engine.Remove(context.WithoutCancel(ctx), sb, true)
		return nil, err
	}
	return sb, nil
}

// readWork runs the reviewer on the work, and takes out its verdict. Stopping the sandbox in between
// would not help: a process in it could have written the verdict earlier.
func (s *Loop) readWork(ctx context.Context, sb *spec.Sandbox, of *spec.Agent, job loop.ReviewJob) (o loop.Opinion, err error) {
	q, err := prepareRequest(of, turn{prompt: job.Prompt, model: job.Model, limit: job.Limit})
	if err != nil {
		return o, err
	}
	in := s.preparedSession(sb)
	files := headless.Delivery{Place: loopplan.ReviewPlace, Files: job.Files, Output: loopplan.ReviewOutput}
	if err := in.Put(ctx, files); err != nil {
		return o, err
	}
	a, err := q.answerPrompt(ctx, in, io.Discard, io.Discard)
	if err != nil {
		o.Work = a.agentUsage()
		return o, err
	}
	if a.stayed != "" {
		s.host.Note("%s: %s", job.Agent, a.stayed)
	}
	if o.Work = a.judgeWork(); o.Verdict != spec.VerdictOK {
		return o, nil
	}
	o.Document, o.Missing, err = in.Take(ctx, path.Join(loopplan.ReviewPlace, loopplan.ReviewOutput))
	return o, err
}
