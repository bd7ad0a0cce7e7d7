package runner

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

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/reconfigure"
	"github.com/bothy-dev/bothy/internal/records"
	"github.com/bothy-dev/bothy/internal/snapshot"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Flow works in the sandboxes of a run.
type Flow struct {
	base
	sandboxes map[string]*spec.Sandbox // by the names of their rooms
	agents    map[string]*spec.Agent

	mu    sync.Mutex
	quiet bool // all work that a crashed host left has ended
}

var _ flow.Runner = (*Flow)(nil)

// NewFlow returns the runner of a flow with these sandboxes, by the names of their rooms, and these
// agents, by their names.
func NewFlow(h Host, e *engine.Engine, s *snapshot.Snapshots, sandboxes map[string]*spec.Sandbox, agents map[string]*spec.Agent) *Flow {
	return &Flow{base: base{host: h, engine: e, snapshots: s}, sandboxes: sandboxes, agents: agents}
}

// flowRoot is the directory inside that contains a directory for each try, so the files of earlier tries
// are not in the way.
const flowRoot = "/flow"

// Place returns the directory of a try.
func (s *Flow) Place(name string) string { return flowRoot + "/" + name }

// Work does a job in the sandbox of its agent: it puts the files there, runs the agent or the command,
// ends all processes, and takes the output out.
func (s *Flow) Work(ctx context.Context, job flow.Job) (d flow.Done, err error) {
	sb := s.sandboxes[cmp.Or(job.Room, job.Of)]
	if sb == nil {
		return d, spec.Errorf(nil, "no sandbox was made for %s", cmp.Or(job.Room, job.Of))
	}
	if err := s.quiesce(ctx); err != nil {
		return d, err
	}
	switch {
	case job.Of != "":
		return s.judgeCopy(ctx, sb, job)
	case job.Fresh:
		return s.runFresh(ctx, sb, job)
	}
	before, err := s.setBudget(ctx, sb, job.Budget)
	if err != nil {
		return d, err
	}
	began := time.Now()
	if err := s.host.SetUp(ctx, sb); err != nil {
		return d, err
	}
	in := s.sessionIn(sb)
	files := headless.Delivery{Place: job.Place, Files: job.Files, Drafts: job.Drafts, Output: job.Output}
	if err := in.Put(ctx, files); err != nil {
		return d, fmt.Errorf("put files into %s: %w", sb.Name, err)
	}
	if job.Command != "" {
		d, err = s.runShell(ctx, sb, job, job.Log)
	} else {
		d, err = s.runAgent(ctx, sb, job)
	}
	err = errors.Join(err, s.engine.Stop(context.WithoutCancel(ctx), sb, Grace))
	if err == nil {
		err = s.countUse(ctx, sb, before, began, &d)
	}
	if err != nil || job.Output == "" {
		return d, err
	}
	d.Output, d.Missing, err = in.Take(ctx, path.Join(job.Place, job.Output))
	return d, err
}

// quiesce ends the work that a crashed host may have left in any sandbox, before the first job.
func (s *Flow) quiesce(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quiet {
		return nil
	}
	for _, sb := range s.sandboxes {
		if err := s.engine.Stop(ctx, sb, Grace); err != nil {
			return err
		}
	}
	s.quiet = true
	return nil
}

// judgeCopy runs a command that judges a copy of the directory, in a fresh sandbox that is removed
// afterwards. The sandbox gets no credentials, so it cannot pay for a model.
func (s *Flow) judgeCopy(ctx context.Context, of *spec.Sandbox, job flow.Job) (d flow.Done, err error) {
	p, err := s.snapshots.Checkpoint(ctx, of, "", "to judge it", false)
	if err != nil {
		return d, err
	}
	err = s.inProof(ctx, of, p, func(sb *spec.Sandbox) error {
		d, err = s.runPrinted(ctx, sb, job)
		return err
	})
	return d, err
}

// runFresh runs a command in a fresh sandbox that is like another one and removed afterwards. The
// sandbox gets no credentials, so it cannot pay for a model.
func (s *Flow) runFresh(ctx context.Context, like *spec.Sandbox, job flow.Job) (d flow.Done, err error) {
	sb, err := s.engine.Fresh(ctx, like)
	if err != nil {
		return d, err
	}
	defer s.removeCopy(ctx, sb)
	if err := s.preparedSession(sb).Put(ctx, headless.Delivery{Place: job.Place, Files: job.Files, Drafts: job.Drafts}); err != nil {
		return d, fmt.Errorf("put files into %s: %w", sb.Name, err)
	}
	return s.runPrinted(ctx, sb, job)
}

// runPrinted runs a command whose stdout is its output.
func (s *Flow) runPrinted(ctx context.Context, sb *spec.Sandbox, job flow.Job) (flow.Done, error) {
	said := &printout{}
	d, err := s.runShell(ctx, sb, job, io.MultiWriter(job.Log, said))
	if said.more {
		d.Missing = fmt.Sprintf("it printed more than %d bytes", gate.MaxBytes)
	}
	d.Output = said.text
	return d, err
}

// printout keeps the written bytes, up to the size of a document.
type printout struct {
	text []byte
	more bool
}

func (d *printout) Write(p []byte) (int, error) {
	part := p[:min(len(p), gate.MaxBytes-len(d.text))]
	d.text, d.more = append(d.text, part...), d.more || len(part) < len(p)
	return len(p), nil
}

// Used stops the sandbox of a room, and returns its model usage.
func (s *Flow) Used(ctx context.Context, room string) (flow.Used, error) {
	sb := s.sandboxes[room]
	if sb == nil {
		return flow.Used{}, spec.Errorf(nil, "no sandbox was made for %s", room)
	}
	err := s.engine.Stop(ctx, sb, Grace)
	if err != nil {
		return flow.Used{}, err
	}
	bill, err := records.Bill(ctx, s.engine.Keepers(), sb)
	sum := bill.Total()
	return flow.Used{Tokens: sum.Counted(), USD: sum.USD}, err
}

// setBudget sets the gateway's budget to the rest for a job. It returns the sandbox's bill before the
// job.
func (s *Flow) setBudget(ctx context.Context, sb *spec.Sandbox, left spec.Budget) (spec.Bill, error) {
	before, err := records.Bill(ctx, s.engine.Keepers(), sb)
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
	return before, reconfigure.Budget(ctx, s.engine, sb, left)
}

// countUse sets a job's use: the gateway's count, or the agent's figure if that is more, because the
// gateway does not see all traffic in every configuration. A report of a used-up allowance or an
// overloaded provider counts only if the gateway has seen it.
func (s *Flow) countUse(ctx context.Context, sb *spec.Sandbox, before spec.Bill, began time.Time, d *flow.Done) error {
	after, err := records.Bill(ctx, s.engine.Keepers(), sb)
	if err != nil {
		return err
	}
	w := loop.Work{Verdict: d.Verdict, Error: d.Error, Until: d.Until, Tokens: d.Tokens, USD: d.USD}
	meterWork(&w, before, after, began)
	d.Verdict, d.Overloaded, d.Error, d.Until, d.Tokens, d.USD = w.Verdict, w.Overloaded, w.Error, w.Until, w.Tokens, w.USD
	d.Seen, d.Unlisted = w.Seen, w.Unlisted
	return nil
}

// Stop stops the sandboxes when no process runs the flow any more.
func (s *Flow) Stop(ctx context.Context) {
	defer s.going.Wait()
	for _, sb := range s.sandboxes {
		if err := s.engine.Stop(context.WithoutCancel(ctx), sb, Grace); err != nil {
			s.host.Note("%s was not stopped: %v", sb.Name, err)
		}
	}
}

// runShell runs a job's command in a shell.
func (s *Flow) runShell(ctx context.Context, sb *spec.Sandbox, job flow.Job, stdout io.Writer) (flow.Done, error) {
	out := &headless.Ending{}
	q := wire.Command{Args: []string{"/bin/sh", "-c", job.Command}, Env: job.Env, Dir: s.workDir(sb, job), Timeout: spec.Duration(job.Limit)}
	status, said, err := runCommand(ctx, nil, s.sessionIn(sb), q, "", io.MultiWriter(stdout, out), io.Discard)
	if short := shortened(err); short != nil && ctx.Err() == nil {
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

// workDir returns the working directory of a job: the project if the sandbox has one.
func (s *Flow) workDir(sb *spec.Sandbox, job flow.Job) string {
	if sb.Primary() != "" {
		return ""
	}
	return job.Place
}

// runAgent runs a job's agent.
func (s *Flow) runAgent(ctx context.Context, sb *spec.Sandbox, job flow.Job) (flow.Done, error) {
	t := turn{prompt: job.Prompt, model: job.Model, env: job.Env, dir: s.workDir(sb, job), limit: job.Limit}
	q, err := prepareRequest(s.agents[job.Agent], t)
	if err != nil {
		return flow.Done{}, err
	}
	a, err := q.answerPrompt(ctx, s.sessionIn(sb), job.Log, io.Discard)
	if err != nil {
		used := a.agentUsage()
		return flow.Done{Tokens: used.Tokens, USD: used.USD, Said: used.Said}, err
	}
	_, _ = io.WriteString(job.Log, a.said)
	if a.stayed != "" {
		s.host.Note("%s: %s", job.Agent, a.stayed)
	}
	w := a.judgeWork()
	return flow.Done{Verdict: w.Verdict, Error: w.Error, Until: w.Until, Message: w.Message, Tokens: w.Tokens, USD: w.USD, Said: w.Said}, nil
}
