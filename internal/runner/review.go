package runner

import (
	"context"
	"errors"
	"io"
	"path"
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/spec"
)

// Review has a reviewer look at a copy of the work.
func (s *Loop) Review(ctx context.Context, job loop.ReviewJob) (o loop.Opinion, err error) {
	of, err := Worker(s.engine.Agents, job.Agent)
	if err != nil {
		return o, err
	}
	p, err := s.checkpoint(job.Checkpoint)
	if err != nil {
		return o, err
	}
	program, err := s.host.House(ctx, of, s.Sandbox)
	if err != nil {
		return o, err
	}
	sb, err := s.engine.Review(ctx, s.Sandbox, p, engine.Reviewer{Agent: of, Program: program, Budget: job.Budget})
	if err != nil {
		return o, err
	}
	defer s.remove(ctx, sb)
	began := time.Now()
	o, err = s.read(ctx, sb, of, job)
	// The use of other processes inside counts too, to the end.
	bill, berr := s.engine.Bill(context.WithoutCancel(ctx), sb)
	if berr == nil {
		meter(&o.Work, spec.Bill{}, bill, began)
	}
	return o, errors.Join(err, berr)
}

// read has the reviewer read the work, and takes its verdict out. Its sandbox runs on meanwhile: a
// process in it could have written the verdict before, too.
func (s *Loop) read(ctx context.Context, sb *spec.Sandbox, of *spec.Agent, job loop.ReviewJob) (o loop.Opinion, err error) {
	q, err := ready(of, turn{prompt: job.Prompt, model: job.Model, limit: job.Limit})
	if err != nil {
		return o, err
	}
	in := s.preparing(sb)
	files := headless.Delivery{Place: loop.ReviewPlace, Files: job.Files, Output: loop.ReviewOutput}
	if err := in.Put(ctx, files); err != nil {
		return o, err
	}
	a, err := q.answer(ctx, in, io.Discard, io.Discard)
	if err != nil {
		o.Work = a.used()
		return o, err
	}
	if a.stayed != "" {
		s.host.Note("%s: %s", job.Agent, a.stayed)
	}
	if o.Work = a.work(); o.Verdict != spec.VerdictOK {
		return o, nil
	}
	o.Document, o.Missing, err = in.Take(ctx, path.Join(loop.ReviewPlace, loop.ReviewOutput))
	return o, err
}
