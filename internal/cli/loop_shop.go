package cli

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/agent/transcript"
	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/guest"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// loopShop works in the sandbox of a run, and judges in copies of it.
type loopShop struct {
	app     *app
	engine  *engine.Engine
	sandbox *spec.Sandbox
	agent   *spec.Agent
	plan    *loop.Plan
	places  *places // of who works elsewhere; nil if nobody does
}

var _ loop.Shop = (*loopShop)(nil)

// iterationGrace is how long what still runs when an iteration is over may take to
// end: the agent has ended, so that it is nothing that has to save anything.
const iterationGrace = time.Second

// Work has the agent work, and then stops the sandbox: servers that it left running
// would hold ports, and write while the files are judged.
func (s *loopShop) Work(ctx context.Context, job loop.Job) (w loop.Work, err error) {
	at, err := s.at(job.Seat)
	if err != nil {
		return w, err
	}
	rules, err := transcript.ForOutput(at.agent.Headless)
	if err != nil {
		return w, err
	}
	argv, stdin := agent.Headless(at.agent, job.Prompt, job.Model, job.Session)
	if err := fitsArguments(argv); err != nil { // it was seen to that it does
		return w, err
	}
	if err := s.engine.Stop(ctx, at.sandbox, iterationGrace); err != nil { // a host that died may have left an agent at work
		return w, err
	}
	before, err := s.engine.Bill(ctx, at.sandbox)
	if err == nil {
		err = s.allow(ctx, at, before, job)
	}
	if err == nil {
		err = s.app.setUp(ctx, s.engine, at.sandbox, false)
	}
	if err != nil {
		return w, err
	}
	began := time.Now()
	defer func() { // also of what was cut short
		after, berr := s.engine.Bill(context.WithoutCancel(ctx), at.sandbox)
		if berr == nil {
			if job.Session != "" && after.Since(before).Answers > 0 {
				w.Tokens, w.USD, w.Said = 0, 0, nil // what it says may be that of all of the session
			}
			meter(&w, before, after, began)
		}
		err = errors.Join(err, berr)
	}()
	var d transcript.Digest
	r := transcript.NewReader(rules, func(ev spec.TranscriptEvent) error { d.Add(ev); return nil })
	q := wire.Command{Args: argv, Timeout: spec.Duration(job.Limit)}
	status, said, err := s.command(ctx, at.sandbox, q, stdin, io.MultiWriter(job.Output.Stdout, r), job.Output.Stderr)
	stopped := s.engine.Stop(context.WithoutCancel(ctx), at.sandbox, iterationGrace)
	if began := (*cutShort)(nil); errors.As(err, &began) {
		if stopped == nil && ctx.Err() == nil && s.fell(at.sandbox, began) {
			return usedOf(&d), fmt.Errorf("%w: %w", loop.ErrFell, began)
		}
		d.End, status, said, err = nil, spec.ExitError, began.Error(), nil
	}
	if err = errors.Join(err, stopped, r.Close()); err != nil {
		return usedOf(&d), err
	}
	return workOf(&d, status, said), nil
}

// fell tells whether a command was cut short because the sandbox crashed, or was killed. One
// that was stopped, for what it did or by a person, or removed, did not.
func (s *loopShop) fell(sb *spec.Sandbox, why *cutShort) bool {
	if !errors.Is(why, spec.ErrSandbox) {
		return false
	}
	_, err := s.engine.Find(sb.ID)
	return err == nil && s.engine.Status(sb).Crashed
}

// usedOf is what the agent says it has used.
func usedOf(d *transcript.Digest) loop.Work {
	w := loop.Work{Session: d.Session, Calls: d.Calls, Tokens: d.Usage.Input + d.Usage.CacheWrite + d.Usage.Output, USD: d.Usage.USD}
	if d.Usage != (spec.TranscriptUsage{}) {
		w.Said = &spec.Claimed{Tokens: w.Tokens, USD: w.USD}
	}
	return w
}

// workOf judges by what the agent said of itself.
func workOf(d *transcript.Digest, status int, said string) loop.Work {
	w := usedOf(d)
	w.Verdict, w.Message = d.Verdict(status), d.Message
	if w.Verdict == spec.VerdictOK {
		return w
	}
	if d.Limit != nil && (w.Verdict == spec.VerdictLimit || d.Limit.Until.After(time.Now())) {
		w.Verdict, w.Until = spec.VerdictLimit, d.Limit.Until
	}
	switch {
	case d.End != nil:
		w.Error = cmp.Or(d.End.Text, said, fmt.Sprintf("it ended with status %d", status))
	default:
		w.Error = cmp.Or(said, fmt.Sprintf("it ended with status %d, and did not say how", status))
	}
	return w
}

// takesAll sees that what an agent is told in every iteration leaves room for what is
// told in some.
func takesAll(of *spec.Agent, p *loop.Plan) error {
	if n := p.Fixed(); !of.Headless.Prompt.Stdin && n > loop.MaxTask {
		return spec.Errorf(spec.ErrUsage, "the prompt has %d KiB: %s takes it as an argument, of which Linux takes 128 KiB, and %d KiB are for what the checks find", n>>10, of.Title, 128-loop.MaxTask>>10).
			WithHint("put the task into a file of the project, and name that in the prompt")
	}
	return nil
}

// maxArgument is what Linux lets an argument be, in bytes, with the zero behind it.
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

// cutShort is why a command ended that had begun, if not by itself.
type cutShort struct{ error }

func (c *cutShort) Unwrap() error { return c.error }

// command runs a command in a sandbox to its end, and gives the end of what it said on
// standard error. Unlike a person's it gets no signals: it is given up with ctx.
func (s *loopShop) command(ctx context.Context, sb *spec.Sandbox, q wire.Command, stdin string, stdout, stderr io.Writer) (status int, said string, err error) {
	last := &ending{}
	status, err = inside(ctx, session{engine: s.engine, sandbox: sb}, wire.Ask{Op: wire.OpExec, Command: q}, stdin, stdout, io.MultiWriter(stderr, last))
	if ctx.Err() != nil {
		return 0, "", err
	}
	return status, last.String(), err
}

// inside runs a command in a sandbox to its end, with nobody at it. Both writers are
// used at the same time.
func inside(ctx context.Context, s session, q wire.Ask, stdin string, stdout, stderr io.Writer) (status int, err error) {
	pipes, err := openPipes()
	if err != nil {
		return 0, err
	}
	defer pipes.close()
	conn, _, err := ask(ctx, s, q, pipes.theirs[:]...)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	ended := pipes.copy(stdin, stdout, stderr)
	f, err := conn.Receive()
	var notes []byte // for the end: who copies what is said writes to stderr until then
	for err == nil && f.Kind == wire.Note {
		notes = fmt.Appendf(notes, "%s\n", f.Payload)
		f, err = conn.Receive()
	}
	select {
	case <-ended:
	case <-ctx.Done():
	case <-time.After(outputPatience): // some child holds them open
	}
	pipes.close()
	<-ended
	_, _ = stderr.Write(notes)
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return endOf(f, err)
}

// endOf tells how a command ended that had begun.
func endOf(f wire.Frame, err error) (int, error) {
	switch {
	case err != nil:
		return 0, &cutShort{lost(err)}
	case f.Kind == wire.Failure:
		err := f.Failure()
		if errors.Is(err, spec.ErrTimeout) || errors.Is(err, spec.ErrSandbox) {
			err = &cutShort{err}
		}
		return 0, err
	}
	e, err := f.Ended()
	return e.Status(), err
}

// outputPatience is how long output may come after the end of who is waited for.
const outputPatience = 2 * time.Second

// Keep makes a checkpoint.
func (s *loopShop) Keep(ctx context.Context, seat loop.Seat, cause string, since int64) (int64, int, error) {
	p, err := s.point(ctx, seat, cause)
	if err != nil {
		return 0, 0, err
	}
	from := checkpoint.Point{}
	if since > 0 {
		if from, err = s.engine.Checkpoints(s.sandbox).Find(strconv.FormatInt(since, 10)); errors.Is(err, spec.ErrNotFound) {
			from, err = checkpoint.Point{}, nil // a person removed it
		}
	}
	if err != nil {
		return 0, 0, err
	}
	list, err := s.engine.CheckpointChanges(s.sandbox, from, p)
	n := 0
	for _, c := range list {
		if engine.IsWork(c.Tree) && placeOf(s.sandbox, c) != "" {
			n++
		}
	}
	return p.Number, n, err
}

// Restore puts the sandbox's files back.
func (s *loopShop) Restore(ctx context.Context, number int64) error {
	p, err := s.engine.Checkpoints(s.sandbox).Find(strconv.FormatInt(number, 10))
	if err != nil {
		return err
	}
	r, err := s.engine.Restore(ctx, s.sandbox, p, engine.RestoreOptions{})
	if r.Before != nil {
		s.app.note("what there was is checkpoint %s", r.Before.Name)
	}
	for _, path := range r.Skipped {
		s.app.note("not put back: %s", review.Quote(path))
	}
	return err
}

// Judge asks every gate in a copy of its own: what one runs was written by the agent,
// and could change what the next one finds.
func (s *loopShop) Judge(ctx context.Context, number int64, baseline map[string]string) ([]loop.Gate, map[string]string, error) {
	p, err := s.engine.Checkpoints(s.sandbox).Find(strconv.FormatInt(number, 10))
	if err != nil {
		return nil, nil, err
	}
	var gates []loop.Gate
	hashes := map[string]string{}
	for _, path := range s.plan.Protect {
		g := s.gate("protected "+path, func() (string, string, error) {
			sum, err := s.hash(ctx, p, path)
			if err != nil {
				return "", "", err
			}
			hashes[path] = sum
			if baseline != nil && baseline[path] != sum {
				return "it is not what it was before the first iteration", "", nil
			}
			return "", "", nil
		})
		if baseline == nil && hashes[path] == "" && ctx.Err() == nil {
			return nil, nil, spec.Errorf(nil, "%s cannot be protected: %s", path, g.Why)
		}
		if _, err := os.Lstat(filepath.Join(s.plan.Directory, path)); baseline == nil && hashes[path] == absent && err == nil {
			return nil, nil, spec.Errorf(nil, "%s cannot be protected: it is here, but not in what the sandbox works on", path)
		}
		gates = append(gates, g)
	}
	for _, line := range s.plan.Until {
		gates = append(gates, s.gate(line, func() (string, string, error) { return s.try(ctx, p, line, s.plan.Limits.Gate) }))
	}
	gates = append(gates, s.criteria(ctx, p)...)
	return gates, hashes, ctx.Err()
}

// gate asks one. One that cannot be asked is red; if that is because its sandbox did not
// come to it, it is asked once more: what was done is not done again for that.
func (s *loopShop) gate(name string, check func() (why, output string, err error)) loop.Gate {
	began := time.Now()
	why, output, err := check()
	if errors.Is(err, spec.ErrSandbox) {
		why, output, err = check()
	}
	if err != nil {
		why = "it cannot be judged: " + err.Error()
	}
	return loop.Gate{Name: name, Green: why == "", Why: why, Output: output, Seconds: time.Since(began).Seconds()}
}

// try runs a command in a copy of the work, for so long at most.
func (s *loopShop) try(ctx context.Context, p checkpoint.Point, line string, limit spec.Duration) (why, output string, err error) {
	err = s.inProof(ctx, p, func(sb *spec.Sandbox) error {
		out := &ending{}
		q := wire.Command{Args: []string{"/bin/sh", "-c", line}, Timeout: limit}
		status, said, err := s.command(ctx, sb, q, "", out, io.Discard)
		output = strings.TrimSpace(out.String() + "\n" + said)
		if short := (*cutShort)(nil); errors.As(err, &short) && ctx.Err() == nil {
			why, err = short.Error(), nil
		}
		if err == nil && why == "" && status != 0 {
			why = fmt.Sprintf("exit code %d", status)
		}
		return err
	})
	return why, strings.ToValidUTF8(output, ""), err
}

// absent is the hash of what is not there.
const absent = "absent"

// hash hashes a file or a tree of the work. It is read inside a copy in which nothing
// of the agent's has run, by a program of ours, and hashed out here.
func (s *loopShop) hash(ctx context.Context, p checkpoint.Point, path string) (sum string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.plan.Limits.Gate))
	defer cancel()
	err = s.inProof(ctx, p, func(sb *spec.Sandbox) error {
		full := filepath.Join(sb.Workspaces[0].Target, path)
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		defer r.Close()
		defer context.AfterFunc(ctx, func() { r.Close() })()
		job, err := s.app.helper(ctx, s.engine, sb, "", nil, w, guest.Path, guest.CopyName, "out", full, "straight")
		w.Close()
		if err != nil {
			return err
		}
		sum, err = hashTree(r)
		r.Close() // who goes on writing what cannot be read would wait for ever
		if jerr := job(); errors.Is(jerr, spec.ErrNotFound) {
			sum, err = absent, nil
		} else if jerr != nil {
			err = jerr
		}
		return err
	})
	return sum, err
}

// hashTree hashes what an archive holds: names, kinds, permissions, contents. Owners
// and times are not of interest.
func hashTree(r io.Reader) (string, error) {
	all := sha256.New()
	in := tar.NewReader(r)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, r)
			return hex.EncodeToString(all.Sum(nil)), err
		}
		if err == nil {
			err = hashEntry(all, h, in)
		}
		if err != nil {
			return "", fmt.Errorf("read what is protected: %w", err)
		}
	}
}

// hashEntry adds an entry. What is of variable length has its length before it.
func hashEntry(all hash.Hash, h *tar.Header, in io.Reader) error {
	fmt.Fprintf(all, "%c %o %d %q %q\n", h.Typeflag, h.Mode&0o7777, h.Size, h.Name, h.Linkname)
	if h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
		fmt.Fprintf(all, "%d %d\n", h.Devmajor, h.Devminor)
	}
	_, err := io.Copy(all, in)
	return err
}

// inProof does something in a copy of the work, which is gone afterwards.
func (s *loopShop) inProof(ctx context.Context, p checkpoint.Point, f func(*spec.Sandbox) error) error {
	sb, err := s.engine.Proof(ctx, s.sandbox, p)
	if err != nil {
		return err
	}
	defer s.remove(ctx, sb)
	return f(sb)
}

// remove removes a copy, whatever has ended what was done in it.
func (s *loopShop) remove(ctx context.Context, sb *spec.Sandbox) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := s.engine.Remove(ctx, sb, true); err != nil {
		s.app.note("%s was not removed: %v", sb.Name, err)
	}
}

// ending keeps the end of what is written to it.
type ending struct{ text []byte }

// maxEnding is how much of what a command prints is kept, in bytes.
const maxEnding = 4 << 10

func (e *ending) Write(p []byte) (int, error) {
	e.text = append(e.text, p[max(0, len(p)-maxEnding):]...)
	e.text = e.text[max(0, len(e.text)-maxEnding):]
	return len(p), nil
}

func (e *ending) String() string { return strings.TrimSpace(string(e.text)) }
