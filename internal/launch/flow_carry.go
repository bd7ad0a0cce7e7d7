package launch

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/notify"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// carryFlow runs a flow that this process holds.
func (l *Launcher) carryFlow(ctx context.Context, p *flowplan.Plan, r *run.Run, h *run.Host, works *runner.Flow, events []run.Event) (*Ended, error) {
	n := notify.Notice{Run: r.ID, Kind: r.Kind, Directory: p.Directory}
	t := &herald{launcher: l, notice: n, before: events}
	c := &flow.Carrier{Plan: p, Run: r, Host: h, Runner: works}
	c.Tell = func(ev run.Event, s *flow.State) {
		l.Host.ShowFlow(ev, s)
		t.handleEvent(ctx, ev, s)
	}
	if len(l.Settings.Notify) > 0 {
		c.Call = func(ctx context.Context, q flow.Asking) {
			n := n
			n.Event = notify.Asks
			n.Status, n.Reason, n.Detail, n.Step = string(run.Running), q.Reason, term.Line(q.Detail), q.Step
			<-t.Tell(ctx, n)
		}
	}
	c.Rest = func(answered func() bool) {
		t.endUnless(answered)
		works.Stop(ctx)
	}
	s, err := c.Carry(ctx, events)
	if err != nil {
		return nil, err
	}
	fin := FlowEnd{Run: r, Plan: p, State: s}
	fin.Left = runstate.RemoveEnded(ctx, l.Engine, p, s) // the flow's result stays the same
	fin.Next, fin.Lost = runstate.NextAtEnd(l.Engine, r, p, s)
	l.Host.EndFlow(fin)
	end := l.finish(ctx, r, h, runstate.NoticeOfEnd(n, &s.Result), s.ExitCode())
	if err := l.writeDraft(end, p, s); err != nil {
		return end, err
	}
	if c.Call != nil && s.Status == run.Waiting {
		return end, c.Heard()
	}
	return end, nil
}

// DraftFlow has an agent draft a flow from a description. The request names the agent and the sandbox; its flow
// is the one that drafts. The file must not exist.
func (l *Launcher) DraftFlow(ctx context.Context, description, file string, req FlowRequest) (*Ended, error) {
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, spec.Errorf(spec.ErrConflict, "there is a file %s already", file).WithHint("name another one behind the description"))
	}
	p := &req.Plan
	var err error
	if p.Flow, req.Given, err = flowplan.Builder(); err != nil {
		return nil, err
	}
	p.Values, p.Drafts = map[string]string{"description": description}, true
	req.Remove = new(true) // its sandbox holds nothing that the run does not have
	if p.DraftTo, err = filepath.Abs(file); err != nil {
		return nil, err
	}
	return l.StartFlow(ctx, req)
}

// writeDraft writes the drafted flow of a run that ended well to the file that was named at the start. The file
// must not exist, except with the very content from an earlier attempt.
func (l *Launcher) writeDraft(end *Ended, p *flowplan.Plan, s *flow.State) error {
	if s.Draft() == "" || end.Code != spec.ExitOK {
		return nil
	}
	at := filepath.Join(end.Run.Dir(), s.Draft())
	if p.DraftTo == "" { // recorded by a bothy that did not keep the name
		l.Note("the draft is in %s", at)
		return nil
	}
	text, err := store.ReadFile(at, 0, gate.MaxBytes)
	var paths *hostpath.Guard
	if err == nil {
		paths, err = l.Engine.Paths()
	}
	if err == nil {
		err = paths.WriteNew(p.DraftTo, text)
	}
	if errors.Is(err, fs.ErrExist) {
		if there, unread := paths.ReadFile(p.DraftTo, gate.MaxBytes); unread == nil && bytes.Equal(there, text) {
			return nil
		}
	}
	if err != nil {
		return (&spec.Error{Op: "write " + p.DraftTo, Err: err}).WithHint("it is in %s", at)
	}
	end.Draft, end.Elapsed = p.DraftTo, time.Duration(s.Elapsed)
	return nil
}
