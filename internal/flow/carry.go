// Package flow carries a flow on. Each step's document is judged where no sandbox can write.
//
// The package decides and does nothing itself. The state of a flow is a fold over its events (see
// package run), the next action is a function of that state, and an interface runs agents and commands.
// So after a crash a flow continues with the first step without a result, and all of it can be tested
// without a sandbox.
package flow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Runner does the work of a flow. It keeps no state that a crash could lose. Several goroutines call its
// methods, but only one at a time for a room.
type Runner interface {
	// Place returns the directory inside for the files of a try, by its name.
	Place(name string) string
	// Work runs an agent or a command for a job, and then ends all processes in the sandbox. An error
	// means that the job could not even begin; later failures are in Done. Done has the usage in any
	// case, as far as the agent reported it.
	Work(ctx context.Context, job Job) (Done, error)
	// Used ends a job that a dead host may have left running in a room. It returns the usage of models
	// by that sandbox since it was made.
	Used(ctx context.Context, room string) (Used, error)
}

// Job is one try of a step.
type Job struct {
	Agent   string // Shell for a command
	Room    string // the room of the work, see [Plan.Rooms]; empty: a copy, see Of
	Of      string // the room whose copy of the directory is judged, in a room of its own; its stdout is its output
	Fresh   bool   // it runs in a new sandbox like that of the room; its stdout is its output
	Model   string
	Prompt  string
	Command string // for /bin/sh
	Env     []string
	Place   string            // the directory inside for its files
	Files   map[string][]byte // its read-only files, by their paths below Place
	Drafts  map[string][]byte // likewise, but writable
	Output  string            // path below Place of the expected document; empty: none
	Limit   time.Duration
	Budget  spec.Budget // limits of its model usage
	Log     io.Writer   // its messages
}

// Done is the result of a job.
type Done struct {
	Verdict string // ok, failed or limit
	// Overloaded goes with limit: the provider is overloaded.
	Overloaded bool
	Error      string    // why it failed
	Until      time.Time // models cannot be asked until then, if known
	Message    string
	Tokens     int64
	USD        float64
	Said       *spec.Claimed  // as in Work
	Seen       *spec.BillItem // as in Work
	Unlisted   bool           // as in Work
	Output     []byte
	Missing    string // why the output is missing; empty if it exists
}

// Carrier carries one flow on. One goroutine makes and records all decisions; each running try has
// another goroutine.
type Carrier struct {
	Plan   *flowplan.Plan
	Run    *run.Run
	Host   *run.Host
	Runner Runner
	Tell   func(run.Event, *State) // called after each event; may be nil
	// Call tells a person of a question while other steps are running, once for each question, in a
	// goroutine of its own. An interrupted call is repeated. It may be nil.
	Call func(context.Context, Asking)
	// Rest finishes what runs beside the flow, such as notices, when the flow waits or has ended, while
	// this process still has it. It may be nil. It returns soon once a person has answered: then the flow
	// continues.
	Rest func(answered func() bool)

	state   *State
	aloft   map[string]*flight // running tries, by their nodes
	landed  chan landing
	calling bool
	heard   chan hearing
}

// Carry carries the flow on from its last event until it ends, and returns its state then. It also
// accepts answers that arrive while the flow starts to wait. If ctx is done, the flow is interrupted by
// the signal in the cause ([spec.Exited]). An error means that an event could not be kept: the state on
// disk is then the one before that event.
func (c *Carrier) Carry(ctx context.Context, events []run.Event) (*State, error) {
	for {
		s, err := c.carryOnce(ctx, events)
		answered := func() bool { return err == nil && ctx.Err() == nil && c.isAnswered() }
		if c.Rest != nil {
			c.Rest(answered)
		}
		if !answered() {
			return s, err
		}
		if events, err = c.Run.Events(); err != nil {
			return s, err
		}
	}
}

// carryOnce carries the flow on until its first end.
func (c *Carrier) carryOnce(ctx context.Context, events []run.Event) (*State, error) {
	var err error
	if c.state, err = Fold(c.Plan, events); err != nil {
		return nil, err
	}
	c.aloft, c.landed, c.heard = map[string]*flight{}, make(chan landing), make(chan hearing)
	signalled := ctx
	err = c.Run.Carry(ctx, run.Work{
		Begin:   func() error { return c.appendEvent(run.Began, run.ActorHost, nil) },
		Running: func() bool { return c.state.Status == run.Running },
		Hear:    c.hearPerson,
		Step: func(ctx context.Context) error {
			if c.Run.Gone() {
				return run.Unkept(c.endRun(run.ActorHost, Removed(c.Run)))
			}
			if err := c.Run.Away(); err != nil {
				return err
			}
			d := Next(c.state, time.Now())
			if d.goesOn() {
				c.callPerson(signalled)
			}
			err := c.carryOut(ctx, d)
			c.cancelStale()
			return err
		},
		End: func(actor string, r run.Result) error {
			if r.Status == run.Failed && c.Run.Gone() {
				return c.endRun(actor, Removed(c.Run))
			}
			return c.endRun(actor, End(r))
		},
	})
	grounded := c.stopTries() // all work has stopped, even if a result could not be recorded
	return c.state, cmp.Or(err, grounded)
}

// endRun ends the flow, and cancels running work.
func (c *Carrier) endRun(actor string, end End) error {
	if err := c.stopTries(); err != nil {
		return err
	}
	return c.appendEvent(run.Ended, actor, end)
}

// Stop ends a flow for good that no process carries on, after its last event. The usage of an
// interrupted try counts, if its sandbox still exists.
func (c *Carrier) Stop(ctx context.Context, events []run.Event, actor string) (*State, error) {
	var err error
	if c.state, err = Fold(c.Plan, events); err != nil {
		return nil, err
	}
	for _, n := range c.state.nodes {
		if c.state.byID[n.ID].Status != run.Running {
			continue
		}
		if err := c.countUse(ctx, n); run.IsUnkept(err) {
			return nil, err
		}
	}
	return c.state, c.appendEvent(run.Ended, actor, End(run.Stopped()))
}

// appendEvent keeps an event, and reports it.
func (c *Carrier) appendEvent(kind, actor string, data any) error {
	ev, err := c.Host.Append(kind, actor, data)
	if err == nil {
		err = c.state.Add(ev)
	}
	if err == nil && kind != run.Began && kind != Started { // an unfinished step has no record
		err = writeRecord(c.Run.Dir(), c.Run.ID, c.state)
		if c.Run.Lacks() { // the next step will end the flow
			err = nil
		}
	}
	if err == nil && c.Tell != nil {
		c.Tell(ev, c.state)
	}
	return err
}

func (c *Carrier) keepEvent(kind string, data any) error {
	return run.Unkept(c.appendEvent(kind, run.ActorHost, data))
}

// hearPerson handles a message of a person.
func (c *Carrier) hearPerson(m run.Message) (taken bool, err error) {
	switch m.Kind {
	case run.Reply:
		err = c.keepReply(m)
	case run.Told:
		err = c.keepTold(m)
	}
	return true, err
}

func (c *Carrier) carryOut(ctx context.Context, d Decision) error {
	switch {
	case d.Count != nil:
		return c.countUse(ctx, d.Count)
	case d.Look:
		return c.lookAtFiles()
	case d.Again != nil:
		return c.keepEvent(Recheck, Again{d.Again.ID})
	case d.Skip != nil:
		return c.keepEvent(Skipped, Skip{d.Skip.ID, d.Hash, d.Why})
	case d.Ask != nil:
		text, err := c.state.expandWords(d.Ask, d.Ask.Step.QuestionText(), place(c.Run.Dir()))
		if err != nil {
			return err
		}
		return c.keepEvent(Asked, Ask{d.Ask.ID, d.Hash, text})
	case d.Work != nil:
		return c.beginTry(ctx, d)
	case d.Join || !d.Wait.IsZero():
		return c.awaitTry(ctx, d.Wait)
	case c.calling && d.End.Status == run.Waiting:
		return c.awaitTry(ctx, time.Time{})
	}
	return c.keepEvent(run.Ended, *d.End)
}

// judgeOutput judges a document, and keeps it. A good one goes to the outputs.
func (c *Carrier) judgeOutput(n *flowplan.Node, name string, done Done, w *Work) error {
	r := gate.Missing(done.Missing)
	if done.Missing == "" {
		r = n.Step.Checks().Judge(done.Output)
		if c.Plan.Drafts {
			flowplan.JudgeDraft(&r, done.Output)
		}
	}
	w.Checks = r.Checks
	if !r.Passed || w.Verdict != spec.VerdictOK {
		if done.Missing != "" || len(done.Output) > gate.MaxBytes {
			return nil
		}
		return keepFile(filepath.Join(c.Run.Dir(), LogsDir), name+rejected, done.Output)
	}
	w.Output = &Artefact{Path: n.Output, SHA256: flowplan.HashOf(done.Output), Size: int64(len(done.Output)), At: time.Now().UTC()}
	return keepFile(filepath.Join(c.Run.Dir(), flowplan.OutputsDir), n.Output, done.Output)
}

// rejected ends the name of a document that did not pass, in logs/.
const rejected = ".rejected"

// makeJob returns a try with its files. The result is stale if a file has changed since it was last
// read.
func (c *Carrier) makeJob(d Decision, name string) (job Job, stale bool, err error) {
	s, n := c.state, d.Work
	at := place(c.Runner.Place(name))
	job = Job{
		Agent: c.Plan.AgentOf(n), Room: cmp.Or(d.Room, c.Plan.RoomOf(n)), Of: n.Judges(), Fresh: n.Step.Fresh, Model: c.Plan.ModelOf(n), Command: n.Step.Command, Place: string(at),
		Files: map[string][]byte{}, Drafts: map[string][]byte{}, Limit: c.timeLimit(n), Budget: d.Share,
	}
	var names []string
	files, nodes := s.plan.Sources(n, s.nodes)
	add := func(kind, name, hash string, data []byte) {
		stale = stale || data == nil || flowplan.HashOf(data) != hash
		job.Files[kind+"/"+name] = data
		names = append(names, kind+"/"+name)
	}
	for _, file := range files {
		if s.files[file] == "" {
			return job, false, spec.Errorf(nil, "inputs/%s of the run is gone", file)
		}
		data, unread := readFile(c.Run.Dir(), flowplan.InputsDir, file)
		if unread != nil && !errors.Is(unread, os.ErrNotExist) {
			err = errors.Join(err, unread)
		}
		add(flowplan.InputsDir, file, s.files[file], data)
	}
	for _, id := range nodes {
		if a := s.byID[id].Output; a != nil {
			data, _, unread := readOutput(c.Run.Dir(), a.Path)
			err = errors.Join(err, unread)
			add(flowplan.OutputsDir, a.Path, a.SHA256, data)
		}
	}
	if err != nil || stale {
		return job, stale, err
	}
	if n.Output != "" {
		job.Output = flowplan.OutputsDir + "/" + n.Output
		c.addDraft(n, &job)
	}
	if n.Step.Prompt != "" {
		if job.Prompt, err = s.prompt(n, at, names); err != nil {
			return job, false, err
		}
	}
	job.Env, err = s.envOf(n, at)
	return job, false, err
}

// timeLimit returns how long a try may take.
func (c *Carrier) timeLimit(n *flowplan.Node) time.Duration {
	limit := n.Step.TimeLimit()
	if all := time.Duration(c.Plan.Limits.Time); all > 0 {
		limit = max(min(limit, all-c.state.Took(c.state.Status, time.Now())), time.Millisecond)
	}
	return limit
}

// addDraft adds a document to start a new try from: the rejected one of the last try, or the output
// of a step that a later one sent back.
func (c *Carrier) addDraft(n *flowplan.Node, job *Job) {
	st := c.state.byID[n.ID]
	if len(st.Missing) == 0 {
		return
	}
	data, err := c.lastRejected(st)
	if err != nil && st.Rounds > 0 {
		data, err = readFile(c.Run.Dir(), flowplan.OutputsDir, n.Output)
	}
	if err == nil { // without one the try starts from scratch
		job.Drafts[job.Output] = data
	}
}

// lastRejected returns the last rejected document of a step: that of the try whose result it has to fix,
// or of a later one. Interrupted tries left none.
func (c *Carrier) lastRejected(st *StepState) (data []byte, err error) {
	err = fs.ErrNotExist
	for try := st.Attempts; err != nil && try >= st.flawed; try-- {
		data, err = readFile(c.Run.Dir(), LogsDir, fmt.Sprintf("%s.%d%s", st.ID, try, rejected))
	}
	return data, err
}

// envOf returns the variables of a node: its own, and the paths of its files.
func (s *State) envOf(n *flowplan.Node, at place) ([]string, error) {
	var list []string
	if n.Step.Of == "" { // a judge of a copy gets no files
		list = append(list, "BOTHY_INPUTS="+string(at)+"/"+flowplan.InputsDir, "BOTHY_OUTPUTS="+string(at)+"/"+flowplan.OutputsDir)
	}
	if n.Output != "" && n.Step.Of == "" && !n.Step.Fresh {
		list = append(list, "BOTHY_OUTPUT="+at.outputPath(n.Output))
	}
	for name, text := range n.Step.Env {
		value, err := s.expandWords(n, string(text), at)
		if err != nil {
			return nil, err
		}
		if strings.ContainsRune(value, 0) {
			return nil, spec.Errorf(spec.ErrUsage, "the variable %s of the step %s would have a zero byte", name, n.ID)
		}
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list, nil
}

// maxLog bounds the log of a try, in bytes. The log keeps the beginning, and a note that the rest was
// cut off.
const maxLog = 4 << 20

// stepLog is the log of one try.
type stepLog struct {
	f    *os.File
	left int
	err  error
}

func openLog(path string) (*stepLog, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &stepLog{f: f, left: maxLog}, store.SyncDir(filepath.Dir(path))
}

// Write keeps as much as fits, and accepts everything: too much output does not stop a job.
func (l *stepLog) Write(p []byte) (int, error) {
	part := p[:min(len(p), l.left)]
	if l.err == nil && len(part) > 0 {
		_, l.err = l.f.Write(part)
		if l.left -= len(part); l.left == 0 {
			_, l.err = l.f.WriteString("\n... there was more\n")
		}
	}
	return len(p), nil
}
