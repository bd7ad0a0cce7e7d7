package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/agent/transcript"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// flowShop works in the sandboxes of a run.
type flowShop struct {
	app       *app
	engine    *engine.Engine
	sandboxes map[string]*spec.Sandbox // by the names of their rooms
	agents    map[string]*spec.Agent

	mu    sync.Mutex
	quiet bool // nothing is left at work of a host that died
}

var _ flow.Shop = (*flowShop)(nil)

// flowRoot is the directory inside below which each try has one of its own: what an
// earlier one left is in nobody's way.
const flowRoot = "/flow"

// Place is the directory of a try.
func (s *flowShop) Place(name string) string { return flowRoot + "/" + name }

// Work does a job in the sandbox of its agent: puts its files there, has it work, ends
// everything that runs, and takes the output out.
func (s *flowShop) Work(ctx context.Context, job flow.Job) (d flow.Done, err error) {
	sb := s.sandboxes[cmp.Or(job.Room, job.Of)]
	if sb == nil {
		return d, spec.Errorf(nil, "there is no sandbox for %s", cmp.Or(job.Room, job.Of))
	}
	if err := s.silence(ctx); err != nil {
		return d, err
	}
	switch {
	case job.Of != "":
		return s.judge(ctx, sb, job)
	case job.Fresh:
		return s.fresh(ctx, sb, job)
	}
	before, err := s.bound(ctx, sb, job.Budget)
	if err != nil {
		return d, err
	}
	began := time.Now()
	if err := s.app.setUp(ctx, s.engine, sb, false); err != nil {
		return d, err
	}
	files := delivery{job.Place, job.Files, job.Drafts, job.Output}
	if err := s.app.deliver(ctx, s.engine, sb, files, false); err != nil {
		return d, fmt.Errorf("put files into %s: %w", sb.Name, err)
	}
	if job.Command != "" {
		d, err = s.command(ctx, sb, job, job.Log)
	} else {
		d, err = s.prompt(ctx, sb, job)
	}
	err = errors.Join(err, s.engine.Stop(context.WithoutCancel(ctx), sb, iterationGrace))
	if err == nil {
		err = s.count(ctx, sb, before, began, &d)
	}
	if err != nil || job.Output == "" {
		return d, err
	}
	d.Output, d.Missing, err = s.app.document(ctx, s.engine, sb, path.Join(job.Place, job.Output), false)
	return d, err
}

// silence ends what a host that died may have left at work in any sandbox, before the
// first job of this one.
func (s *flowShop) silence(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quiet {
		return nil
	}
	for _, sb := range s.sandboxes {
		if err := s.engine.Stop(ctx, sb, iterationGrace); err != nil {
			return err
		}
	}
	s.quiet = true
	return nil
}

// judge has a command judge a copy of the directory in a sandbox that nobody has worked
// in, and that goes with it. Nothing is lent to it, so that no model is paid.
func (s *flowShop) judge(ctx context.Context, of *spec.Sandbox, job flow.Job) (d flow.Done, err error) {
	l := &loopShop{app: s.app, engine: s.engine, sandbox: of}
	p, err := s.engine.Checkpoint(ctx, of, "", "to judge it", false)
	if err != nil {
		return d, err
	}
	err = l.inProof(ctx, p, func(sb *spec.Sandbox) error {
		d, err = s.printed(ctx, sb, job)
		return err
	})
	return d, err
}

// fresh has a command work in a sandbox like another one, that nobody has worked in, and
// that goes with it. Nothing is lent to it, so that no model is paid.
func (s *flowShop) fresh(ctx context.Context, like *spec.Sandbox, job flow.Job) (d flow.Done, err error) {
	sb, err := s.engine.Fresh(ctx, like)
	if err != nil {
		return d, err
	}
	defer (&loopShop{app: s.app, engine: s.engine}).remove(ctx, sb)
	if err := s.app.deliver(ctx, s.engine, sb, delivery{job.Place, job.Files, job.Drafts, ""}, true); err != nil {
		return d, fmt.Errorf("put files into %s: %w", sb.Name, err)
	}
	return s.printed(ctx, sb, job)
}

// printed has a command do it whose output is what it prints.
func (s *flowShop) printed(ctx context.Context, sb *spec.Sandbox, job flow.Job) (flow.Done, error) {
	said := &printout{}
	d, err := s.command(ctx, sb, job, io.MultiWriter(job.Log, said))
	if said.more {
		d.Missing = fmt.Sprintf("it printed more than %d bytes", gate.MaxBytes)
	}
	d.Output = said.text
	return d, err
}

// printout keeps what is written to it, as far as it may be a document.
type printout struct {
	text []byte
	more bool
}

func (d *printout) Write(p []byte) (int, error) {
	part := p[:min(len(p), gate.MaxBytes-len(d.text))]
	d.text, d.more = append(d.text, part...), d.more || len(part) < len(p)
	return len(p), nil
}

// Used tells what models have taken for the sandbox of a room, when nothing runs in it
// any more.
func (s *flowShop) Used(ctx context.Context, room string) (flow.Used, error) {
	sb := s.sandboxes[room]
	if sb == nil {
		return flow.Used{}, spec.Errorf(nil, "there is no sandbox for %s", room)
	}
	err := s.engine.Stop(ctx, sb, iterationGrace)
	if err != nil {
		return flow.Used{}, err
	}
	bill, err := s.engine.Bill(ctx, sb)
	sum := bill.Total()
	return flow.Used{Tokens: sum.Counted(), USD: sum.USD}, err
}

// bound has the gateway hold what is left to a job. It gives what models have taken for
// the sandbox before.
func (s *flowShop) bound(ctx context.Context, sb *spec.Sandbox, left spec.Budget) (spec.Bill, error) {
	before, err := s.engine.Bill(ctx, sb)
	if err != nil || left == (spec.Budget{}) {
		return before, err
	}
	sum := before.Total()
	if left.Tokens > 0 {
		left.Tokens += sum.Counted()
	}
	if left.USD > 0 {
		left.USD += sum.USD
	}
	return before, s.engine.SetBudget(ctx, sb, left)
}

// count says what a job took: as the gateway saw it, or as the agent says if that is
// more, for the gateway does not see all of it everywhere.
// That an allowance is used up, or a provider overloaded, is believed if it has seen that.
func (s *flowShop) count(ctx context.Context, sb *spec.Sandbox, before spec.Bill, began time.Time, d *flow.Done) error {
	after, err := s.engine.Bill(ctx, sb)
	if err != nil {
		return err
	}
	w := loop.Work{Verdict: d.Verdict, Error: d.Error, Until: d.Until, Tokens: d.Tokens, USD: d.USD}
	meter(&w, before, after, began)
	d.Verdict, d.Overloaded, d.Error, d.Until, d.Tokens, d.USD = w.Verdict, w.Overloaded, w.Error, w.Until, w.Tokens, w.USD
	d.Seen = w.Seen
	return nil
}

// stop ends the sandboxes, when nobody carries the flow on any more.
func (s *flowShop) stop(ctx context.Context) {
	for _, sb := range s.sandboxes {
		if err := s.engine.Stop(context.WithoutCancel(ctx), sb, iterationGrace); err != nil {
			s.app.note("%s was not stopped: %v", sb.Name, err)
		}
	}
}

// command has a shell do it.
func (s *flowShop) command(ctx context.Context, sb *spec.Sandbox, job flow.Job, stdout io.Writer) (flow.Done, error) {
	out := &ending{}
	q := wire.Command{Args: []string{"/bin/sh", "-c", job.Command}, Env: job.Env, Dir: s.dir(sb, job), Timeout: spec.Duration(job.Limit)}
	status, said, err := s.talk(ctx, sb, q, "", io.MultiWriter(stdout, out))
	if short := (*cutShort)(nil); errors.As(err, &short) && ctx.Err() == nil {
		return flow.Done{Verdict: spec.VerdictFailed, Error: short.Error()}, nil
	}
	if err != nil {
		return flow.Done{}, err
	}
	_, _ = io.WriteString(job.Log, said)
	d := flow.Done{Verdict: spec.VerdictOK, Message: strings.ToValidUTF8(out.String(), "")}
	if status != 0 {
		d.Verdict = spec.VerdictFailed
		d.Error = strings.TrimSuffix(fmt.Sprintf("exit code %d: %s", status, strings.ToValidUTF8(strings.TrimSpace(out.String()+"\n"+said), "")), ": ")
	}
	return d, nil
}

// dir is where a job works: in the project if there is one.
func (s *flowShop) dir(sb *spec.Sandbox, job flow.Job) string {
	if sb.Primary() != "" {
		return ""
	}
	return job.Place
}

// prompt has an agent do it.
func (s *flowShop) prompt(ctx context.Context, sb *spec.Sandbox, job flow.Job) (flow.Done, error) {
	of := s.agents[job.Agent]
	rules, err := transcript.ForOutput(of.Headless)
	if err != nil {
		return flow.Done{}, err
	}
	argv, stdin := agent.Headless(of, job.Prompt, job.Model, "")
	if err := fitsArguments(argv); err != nil {
		return flow.Done{}, err
	}
	var d transcript.Digest
	r := transcript.NewReader(rules, func(ev spec.TranscriptEvent) error { d.Add(ev); return nil })
	q := wire.Command{Args: argv, Env: job.Env, Dir: s.dir(sb, job), Timeout: spec.Duration(job.Limit)}
	status, said, err := s.talk(ctx, sb, q, stdin, io.MultiWriter(job.Log, r))
	if short := (*cutShort)(nil); errors.As(err, &short) && ctx.Err() == nil {
		d.End, status, said, err = nil, spec.ExitError, short.Error(), nil
	}
	if err = errors.Join(err, r.Close()); err != nil {
		used := usedOf(&d)
		return flow.Done{Tokens: used.Tokens, USD: used.USD, Said: used.Said}, err
	}
	_, _ = io.WriteString(job.Log, said)
	w := workOf(&d, status, said)
	return flow.Done{Verdict: w.Verdict, Error: w.Error, Until: w.Until, Message: w.Message, Tokens: w.Tokens, USD: w.USD, Said: w.Said}, nil
}

// talk runs a command to its end.
func (s *flowShop) talk(ctx context.Context, sb *spec.Sandbox, q wire.Command, stdin string, stdout io.Writer) (int, string, error) {
	return (&loopShop{app: s.app, engine: s.engine}).command(ctx, sb, q, stdin, stdout, io.Discard)
}
