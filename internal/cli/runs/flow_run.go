package runs

import (
	"cmp"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/runview"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/notify"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// flowFlags are the flags of a new flow.
type flowFlags struct {
	cmdline.CreateFlags
	plan          flowplan.Plan
	inputs, files []string
	time          time.Duration
	fork          flowFork
	into          string            // parent of the run's directory; empty: the state directory
	given         map[string][]byte // files by their names below inputs/
}

func flowRunCommand(a *app) *cobra.Command {
	f := &flowFlags{}
	c := &cobra.Command{
		Use:   "run [flags] FILE [PATH]",
		Short: "Begin a flow, and carry it on to its end",
		Long: `Carries out the steps of FILE: YAML, or a Markdown workflow of Looplia's. Each agent has a
sandbox of its own, and the commands have one; they work on PATH if there is one, else on
nothing of this host. The exit code is 0 if all is done, 1 if a step failed, 7 if the flow
waits for you, 8 if a limit was reached.`,
		Example: `  bothy flow run --agent claude --file article.md writing-kit.yaml
  bothy flow run --agent codex --input task="fix the parser" implement.yaml .`,
		Args: between(1, 2, "a file, and a path if it works on one"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.startFlow(cmd, f, args) },
	}
	f.addRooms(a, c)
	fs := c.Flags()
	fs.StringVar(&f.plan.Agent, "agent", "", "the agent for steps that name none")
	fs.BoolVar(&f.plan.Remove, "rm", false, "remove the sandboxes when the flow has ended; its outputs are kept (default: what the flow says, else false)")
	fs.StringVar(&f.fork.text, "fork", "", "copies begin with what this sandbox has made of PATH, which waits there for review: SANDBOX is now, SANDBOX@CHECKPOINT then (default: with PATH as it is)")
	cmdline.CompleteFlag(c, "fork", func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return a.OneSandbox(cmd, nil, word)
	})
	fs.StringArrayVar(&f.inputs, "input", nil, "an input that is a text: NAME=VALUE; repeatable")
	fs.StringArrayVarP(&f.files, "file", "f", nil, "an input that is a file: [NAME=]PATH; repeatable")
	fs.IntVar(&f.plan.Parallel, "parallel", 0, "so many steps may be done side by side, each in a place of its own (default: what the flow says, else 1)")
	fs.DurationVar(&f.time, "max-time", 0, "for all of it, e.g. 8h (default: any)")
	fs.Int64Var(&f.plan.Limits.Tokens, "max-tokens", 0, "end when models have taken so many tokens, as the gateway counts, or the agents if they count more (default: any)")
	fs.Float64Var(&f.plan.Limits.USD, "max-cost", 0, "the same in USD (default: any)")
	cmdline.CompleteFlag(c, "file", cmdline.FileNames)
	cmdline.CompleteFlag(c, "agent", a.KnownAgents)
	cmdline.CompleteFlag(c, "secret", a.SecretNames)
	return a.JSONFlag(c)
}

// addRooms adds the flags of create, adapted to several sandboxes, and the flag for the run's directory.
func (f *flowFlags) addRooms(a *app, c *cobra.Command) {
	f.CreateFlags.Add(a.App, c)
	c.Flags().Lookup("name").Usage = "the sandboxes are called NAME-AGENT (default: as the run)"
	f.addInto(c)
}

// startFlow runs a flow from a file.
func (a *app) startFlow(cmd *cobra.Command, f *flowFlags, args []string) error {
	if err := f.checkRemoval("--rm"); err != nil {
		return err
	}
	if cmd.Flags().Changed("parallel") && f.plan.Parallel < 1 {
		return flowplan.TooMany(f.plan.Parallel)
	}
	if err := f.readInputs(a, args[0]); err != nil {
		return err
	}
	if !cmd.Flags().Changed("rm") {
		f.plan.Remove = f.plan.Flow.Remove
	}
	if err := f.checkRemoval("rm: true of the flow"); err != nil {
		return err
	}
	return a.beginFlow(cmd, f, args[1:])
}

// checkRemoval refuses --rm for sandboxes that hold changes for review. what names the setting that asks
// for the removal.
func (f *flowFlags) checkRemoval(what string) error {
	if f.plan.Remove && f.Mode != spec.WorkspaceLive {
		return spec.Errorf(spec.ErrUsage, "%s would throw away what waits in --workspace %s", what, f.Mode).WithHint("--rm=false; use bothy rm when you have taken it")
	}
	return nil
}

// beginFlow makes everything that a flow needs, and runs it to its end.
func (a *app) beginFlow(cmd *cobra.Command, f *flowFlags, paths []string) error {
	e, err := a.Engine()
	if err != nil {
		return err
	}
	agents, err := flowAgents(e, &f.plan)
	if err == nil {
		agents, err = canonicalAgents(&f.plan, agents)
	}
	if err != nil {
		return err
	}
	req, err := f.Request(a.App, "", paths)
	if err == nil {
		err = a.flowBoundable(e, f, agents, req)
	}
	if err != nil {
		return err
	}
	ctx, release := enduring(cmd.Context())
	defer release()
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		if !cmd.Flags().Changed("agent") || name != f.plan.Agent { // the flow's author chose this agent
			a.Note("%s works in it, with its login and what its preset lets it reach", agents[name].Title)
		}
	}
	if f.into == "" && cmd.Flags().Changed("into") {
		return spec.Errorf(spec.ErrUsage, "--into is empty").WithHint("name a directory, or leave it out")
	}
	if err := a.settleInto(ctx, e, f); err != nil {
		return err
	}
	m := &flowMaking{app: a, engine: e, flags: f, agents: agents, paths: paths, request: req, id: run.NewID(f.nameSource(), time.Now())}
	if err := m.makeRun(ctx, cmd); err != nil {
		m.removeMade(ctx)
		return err
	}
	defer m.host.Close()
	names := map[string]string{}
	for of, sb := range m.IsMade {
		names[of] = sb.Name
	}
	ready, err := m.host.Append(run.Ready, run.ActorHost, flow.Made{Sandboxes: names})
	if err != nil {
		return err
	}
	if f.plan.Flow.Parallel > 1 && f.plan.Most() > 1 && !f.plan.Beside() {
		a.Note("the flow says parallel: %d, and nothing of it could be done side by side%s", f.plan.Flow.Parallel, m.inTheWay())
	}
	a.Note("run %s in %s; from another terminal: bothy flow watch|status|log|stop %s", m.id, m.run.Dir(), m.id)
	works := runner.NewFlow(hosting{a, e}, e, cmdline.Snapshots(e), m.IsMade, agents)
	return a.carryFlow(ctx, e, works, &flow.Carrier{Plan: &f.plan, Run: m.run, Host: m.host, Runner: works}, []run.Event{ready})
}

// flowBoundable checks that the limits of a flow would limit its agents.
func (a *app) flowBoundable(e *engine.Engine, f *flowFlags, agents map[string]*spec.Agent, req spec.Request) error {
	if f.plan.Budget() == (spec.Budget{}) {
		return nil
	}
	p := a.Provisioner(e)
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		m, err := p.MeteringOf(&req, agents[name])
		if err == nil {
			err = a.budgetable(agents[name], f.plan.Budget(), m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// nameSource returns the name to derive the run's ID from: the first file given, as with Looplia, or else
// the flow.
func (f *flowFlags) nameSource() string {
	if len(f.files) > 0 {
		_, path := f.fileArg(f.files[0])
		base := filepath.Base(path)
		if slug := run.Slug(strings.TrimSuffix(base, filepath.Ext(base))); slug != "" {
			return slug
		}
	}
	return f.plan.Flow.Name
}

// fileArg splits a file input: [NAME=]PATH.
func (f *flowFlags) fileArg(word string) (name, path string) {
	name, path, ok := strings.Cut(word, "=")
	if _, err := os.Stat(word); !ok || err == nil { // a path may contain a =
		return "", word
	}
	return name, path
}

// readInputs reads the flow and its inputs.
func (f *flowFlags) readInputs(a *app, path string) (err error) {
	p := &f.plan
	if p.Flow, err = a.readFlowFile(path); err != nil {
		return err
	}
	if p.File, err = filepath.Abs(path); err != nil {
		return err
	}
	p.Values, p.Files, p.Sandboxes, f.given = map[string]string{}, []string{}, map[string]string{}, map[string][]byte{}
	p.Limits.Time = spec.Duration(f.time)
	for _, word := range f.inputs {
		name, value, ok := strings.Cut(word, "=")
		if _, twice := p.Values[name]; !ok || twice {
			return spec.Errorf(spec.ErrUsage, "--input %q is not NAME=VALUE, or is given twice", word)
		}
		p.Values[name] = value
	}
	for _, word := range f.files {
		if err := f.readFile(a, word); err != nil {
			return err
		}
	}
	return p.Check(f.given)
}

// readFile reads one input file.
func (f *flowFlags) readFile(a *app, word string) error {
	name, path := f.fileArg(word)
	as, err := f.plan.Flow.FileInput(name)
	if err != nil {
		return err
	}
	if f.given[as] != nil {
		return spec.Errorf(spec.ErrUsage, "--file: %s is given twice", as)
	}
	data, err := a.ReadFile(path, gate.MaxBytes)
	if err != nil {
		return hostpath.NotOpened(spec.ErrUsage, "read "+path, err)
	}
	f.given[as] = append([]byte{}, data...) // not nil
	f.plan.Files = append(f.plan.Files, as)
	return nil
}

// flowAgents finds the agents that do the steps, without the shell.
func flowAgents(e *engine.Engine, p *flowplan.Plan) (map[string]*spec.Agent, error) {
	agents := map[string]*spec.Agent{}
	for _, n := range p.Nodes() {
		if n.Step.Prompt == "" || p.Never(n) {
			continue
		}
		of, err := runner.Worker(e.Agents, p.AgentOf(n))
		if err != nil {
			return nil, err
		}
		if p.ModelOf(n) != "" && len(of.Headless.Model) == 0 {
			return nil, spec.Errorf(spec.ErrUsage, "step %s: it is not known how %s is told a model", n.ID, of.Title).WithHint("add model below headless to its description, see docs/guide/own-agent.md")
		}
		agents[p.AgentOf(n)] = of
	}
	return agents, nil
}

// canonicalAgents returns the agents by their own names, and replaces the names that the flow uses for them.
func canonicalAgents(p *flowplan.Plan, agents map[string]*spec.Agent) (map[string]*spec.Agent, error) {
	list, called := map[string]*spec.Agent{}, map[string]string{}
	for as, of := range agents {
		list[of.Name] = of
		if as != of.Name {
			called[as] = of.Name
		}
	}
	return list, p.Name(called)
}

// carryFlow runs a flow, prints its progress, and returns its result.
func (a *app) carryFlow(ctx context.Context, e *engine.Engine, works *runner.Flow, c *flow.Carrier, events []run.Event) error {
	n := notify.Notice{Run: c.Run.ID, Kind: c.Run.Kind, Directory: c.Plan.Directory}
	h := &herald{app: a, engine: e, notice: n, before: events}
	c.Tell = func(ev run.Event, s *flow.State) { h.handleEvent(ctx, ev, runview.FlowLine(ev, s), s) }
	if len(a.Settings.Notify) > 0 {
		c.Call = func(ctx context.Context, q flow.Asking) {
			n := n
			n.Event = notify.Asks
			n.Status, n.Reason, n.Detail, n.Step = string(run.Running), q.Reason, term.Line(q.Detail), q.Step
			<-h.Tell(ctx, n)
		}
	}
	c.Rest = func(answered func() bool) {
		h.endUnless(answered)
		works.Stop(ctx)
	}
	s, err := c.Carry(ctx, events)
	if err != nil {
		return err
	}
	if s.Over() {
		for _, room := range c.Plan.Copies() {
			a.Note("what %s changed waits: bothy diff %[2]s, bothy apply %[2]s", room, s.Sandboxes[room])
		}
	}
	if err := runstate.RemoveEnded(ctx, e, c.Plan, s); err != nil { // the flow's result stays the same
		a.Note("%v; bothy flow rm %s removes it", err, c.Run.ID)
	}
	a.noteNext(e, c, s)
	if s.Raisable() {
		a.Note("to go on, with more than is used: %s", runstate.RaiseCommand(c.Run.Kind, c.Run.ID, s.Reason))
	}
	ended := a.carried(ctx, e, c.Run, c.Host, runstate.NoticeOfEnd(n, &s.Result), s.ExitCode())
	if ended == nil {
		ended = a.writeDraft(c.Plan, c.Run, s)
	}
	if c.Call != nil && s.Status == run.Waiting {
		return cmp.Or(c.Heard(), ended)
	}
	return ended
}

// noteNext prints how a person can proceed with a flow that has ended.
func (a *app) noteNext(e *engine.Engine, c *flow.Carrier, s *flow.State) {
	next, lost := runstate.NextAtEnd(e, c.Run, c.Plan, s)
	switch {
	case next == "":
	case lost:
		a.Note("a sandbox of it was removed, and there is nothing to go on with: %s", next)
	default:
		a.Note("to go on: %s", next)
		if s.Status == run.Completed {
			a.Note("to leave it at that: bothy flow stop %s", c.Run.ID)
		}
	}
}
