package runs

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/checkpoints"
	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/runview"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/notify"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/internal/task/book"
	"github.com/bothy-dev/bothy/spec"
)

// loopFlags are the flags of a new loop.
type loopFlags struct {
	cmdline.CreateFlags
	plan                  loopplan.Plan
	file, template, gates string
	model, rotation       string
	takeTasks             bool
	labels                []string
	tries                 int
	from                  string
	hints                 []string
	boxes                 []*task.Task // of the open-ralph loop that this one continues
	time, iteration, gate time.Duration
	idle                  time.Duration
}

func loopRunCommand(a *app) *cobra.Command {
	f := &loopFlags{}
	c := &cobra.Command{
		Use:   "run --agent NAME --until COMMAND [flags] [PROMPT] [PATH]",
		Short: "Begin a loop, and carry it on to its end",
		Long: `Has an agent work at PROMPT in PATH (default: here) until it is done: it says so on the
last line of its last message, and every COMMAND of --until ends with 0 in a copy of the
files that the agent cannot reach. The sandbox is a new one, and stays. The exit code is
0 if it is done, 6 if the agent gave up, 7 if it waits for you, 8 if a limit was reached,
9 if nothing moved any more.`,
		Example: `  bothy loop run --agent claude --until 'make test' "make the tests pass"
  bothy loop run --agent claude --until 'make test' --tasks
  bothy loop run --agent codex --workspace review --protect test --until 'make test' -f TASK.md .`,
		Args: cmdline.AtMost(2, "a prompt and a path"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.startLoop(cmd, f, args) },
	}
	f.CreateFlags.Add(a.App, c)
	f.addLoop(c)
	cmdline.CompleteFlag(c, "agent", a.KnownAgents)
	cmdline.CompleteFlag(c, "secret", a.SecretNames)
	return a.JSONFlag(c)
}

func (f *loopFlags) addLoop(c *cobra.Command) {
	fs := c.Flags()
	p := &f.plan
	fs.StringVar(&p.Agent, "agent", "", "who works")
	fs.StringVar(&f.model, "model", "", "the model that works (default: the agent's own choice)")
	fs.StringVar(&f.rotation, "rotation", "", "agents and models that take turns, one an iteration: agent:model,agent:model")
	fs.StringVar(&f.file, "prompt-file", "", "the same as --file")
	fs.StringVar(&f.from, "from", "", "take prompt, promises, limits, agent and tasks over from the directory of an open-ralph loop, .ralph")
	fs.StringArrayVar(&f.hints, "add-context", nil, "tell the first iteration something; repeatable")
	fs.StringVar(&p.Promise, "completion-promise", "COMPLETE", "the same as --promise")
	fs.IntVar(&p.Workers, "parallel", 1, "so many work at tasks at the same time, each in a sandbox of its own; with --tasks and --workspace review")
	fs.BoolVar(&f.takeTasks, "tasks", false, "work at the project's tasks that are ready, one after the other; see bothy task")
	fs.StringArrayVar(&f.labels, "task-label", nil, "only at tasks with this label; repeatable, all of them; implies --tasks")
	fs.IntVar(&f.tries, "task-iterations", 5, "how often one task may be tried, before it is put back with a note")
	fs.BoolVar(&p.Resume, "resume-session", false, "have the agent go on with the session of its last iteration, instead of a fresh memory each time")
	fs.StringVarP(&f.file, "file", "f", "", "read the prompt from a file")
	fs.StringVar(&f.template, "prompt-template", "", "read from a file what the agent is told about the prompt, the iteration and the checks")
	fs.StringArrayVar(&p.Until, "until", nil, "a shell command that ends with 0 when the work is done; repeatable, all must")
	fs.StringVar(&f.gates, "gates", "", "read gates from a file: commands, documents, reviewers; they go with those of --until")
	fs.BoolVar(&p.AllowUnchanged, "allow-unchanged", false, "believe that it is done although no file was changed, and what checks it was green before: for work that changes none")
	fs.StringArrayVar(&p.Protect, "protect", nil, "a file or directory of PATH that must stay as it is; repeatable")
	fs.StringVar(&p.Promise, "promise", "COMPLETE", "what the agent says between <promise> and </promise> when it is done")
	fs.StringVar(&p.Abort, "abort-promise", "", "the promise with which it gives up (default: it may not)")
	fs.IntVar(&p.Limits.MinIterations, "min-iterations", 1, "before which it is not done, whatever is said")
	fs.IntVar(&p.Limits.MaxIterations, "max-iterations", 30, "how often it may try")
	fs.DurationVar(&f.time, "max-time", 0, "for all of it, e.g. 8h (default: any)")
	fs.Int64Var(&p.Limits.Tokens, "max-tokens", 0, "let models be asked until they have taken so many tokens, as the gateway counts or the agent, if that is more (default: any)")
	fs.Float64Var(&p.Limits.USD, "max-cost", 0, "the same in USD (default: any)")
	fs.DurationVar(&f.iteration, "iteration-timeout", time.Hour, "for the agent in each iteration; 0: any")
	fs.DurationVar(&f.idle, "activity-timeout", 0, "stop an iteration that is idle for so long: it prints nothing, sends nothing and does not compute; 0: never")
	fs.DurationVar(&f.gate, "gate-timeout", 10*time.Minute, "for each gate that is not a reviewer")
	fs.IntVar(&p.Stall.Unchanged, "stall-unchanged", loopplan.UsualStall.Unchanged, "give up when no file was changed in so many iterations; 0: never")
	fs.IntVar(&p.Stall.SameRed, "stall-gates", loopplan.UsualStall.SameRed, "give up when the same commands have failed with the same output so often; 0: never")
	fs.IntVar(&p.Stall.SameError, "stall-errors", loopplan.UsualStall.SameError, "give up when the agent has failed in the same way so often; 0: never")
	fs.IntVar(&p.Stall.SameLimit, "stall-limits", loopplan.UsualStall.SameLimit, "give up when models could not be asked so often in a row, for an allowance that is used up or a provider that is overloaded; 0: never")
	fs.IntVar(&p.Stall.Questions, "stall-questions", loopplan.UsualStall.Questions, "wait for you when so many iterations in a row have ended with a question; 0: never")
	cmdline.MayBeEmpty(c, "model", "abort-promise") // with --from: do not take over that loop's value
	for _, path := range []string{"file", "prompt-file", "from", "prompt-template", "protect", "gates"} {
		cmdline.CompleteFlag(c, path, cmdline.FileNames)
	}
}

// startLoop runs a new loop.
func (a *app) startLoop(cmd *cobra.Command, f *loopFlags, args []string) error {
	if err := f.takeOver(a, cmd); err != nil {
		return err
	}
	e, err := a.Engine()
	if err != nil {
		return err
	}
	if err := f.chooseAgents(e); err != nil {
		return err
	}
	path, err := f.readPlan(a, args)
	if err != nil {
		return err
	}
	if f.plan.Agent == "" {
		return spec.Errorf(spec.ErrUsage, "--agent is missing").WithHint("usage: %s", cmd.UseLine())
	}
	agents, err := capable(e, &f.plan)
	if err != nil {
		return err
	}
	reviewers, err := loopReviewers(e, &f.plan)
	if err != nil {
		return err
	}
	req, err := f.Request(a.App, agents[0].Name, []string{path})
	if err != nil {
		return err
	}
	if f.plan.Budget() != (spec.Budget{}) {
		w, err := a.Provisioner(e).MeteringOf(&req, agents[0])
		if err == nil {
			err = a.loopBudgetable(&f.plan, w, agents, slices.Collect(maps.Values(reviewers)))
		}
		if err != nil {
			return err
		}
	}
	of, invited := agents[0], &guests{a, e, req, agents[1:]}
	ctx, release := enduring(cmd.Context())
	defer release()
	var r *run.Run
	var h *run.Host
	sb, err := a.MakeSandbox(ctx, cmd, e, req, func(sb *spec.Sandbox) (err error) {
		sb.Budget = f.plan.Budget()
		if err = f.checkSandbox(sb); err == nil {
			err = f.checkTasks(ctx, e)
		}
		if err == nil {
			err = f.houseReviewers(ctx, a, e, sb)
		}
		if err == nil {
			err = invited.checkReady(ctx, of, sb)
		}
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if r, err = run.Named(f.nameSource(), time.Now(), func(id string) (*run.Run, error) { return run.Create(e.Store.Runs(), id, &f.plan) }); err == nil {
			sb.Loop = r.ID
			h, _, err = r.Host()
		}
		if err == nil {
			err = f.leaveHints(r)
		}
		return err
	})
	if h != nil {
		defer h.Close()
	}
	if err != nil {
		if r != nil { // nothing could be resumed
			if h != nil {
				h.Close() // a held run could not be removed
			}
			_ = r.Remove()
		}
		return err
	}
	made := loop.Made{Sandbox: sb.Name}
	noted := func(at loop.Place) error {
		_, err := h.Append(loop.Placing, run.ActorHost, loop.Made{Sandbox: sb.Name, Places: []loop.Place{at}})
		return err
	}
	if made.Places, err = invited.makeSandboxes(ctx, cmd, sb, f.plan.Workers, noted); err == nil {
		var hired []loop.Place
		hired, err = makeWorkers(ctx, e, &f.plan, sb, noted)
		made.Places = append(made.Places, hired...)
	}
	var others *runner.Places
	if err == nil {
		others, err = placesOf(e, &f.plan, made.Places)
	}
	var ready run.Event
	if err == nil {
		ready, err = h.Append(run.Ready, run.ActorHost, made)
	}
	if err != nil {
		h.Close()
		return errors.Join(err, runner.Unmake(e, append(made.Places, loop.Place{ID: sb.ID})), r.Remove())
	}
	a.warnBeside(e, r.ID, sb)
	a.Note("run %s in sandbox %s; from another terminal: bothy loop watch|status|log|hint|pause|stop %s", r.ID, sb.Name, r.ID)
	return a.carryLoop(ctx, e, &crew{&f.plan, r, h, runner.NewLoop(hosting{a, e}, e, cmdline.Snapshots(e), sb, of, &f.plan, others, r.Originals()), runstate.TaskQueueOf(e, &f.plan, r)}, []run.Event{ready})
}

// nameSource returns the text to derive the run's ID from.
func (f *loopFlags) nameSource() string {
	if f.plan.Prompt == runstate.TaskPrompt {
		return "tasks of " + filepath.Base(f.plan.Directory)
	}
	return f.plan.Prompt
}

// chooseAgents determines which agent works with which models.
func (f *loopFlags) chooseAgents(e *engine.Engine) error {
	name := func(called string) (string, error) {
		of, err := e.Agents.Called(called)
		if err != nil {
			return "", err
		}
		return of.Name, nil
	}
	if err := f.plan.Name(name); err != nil {
		return err
	}
	switch {
	case f.rotation == "":
		if f.model != "" {
			f.plan.Models = []string{f.model}
		}
		return nil
	case f.model != "":
		return spec.Errorf(spec.ErrUsage, "--model and --rotation exclude each other")
	}
	turns, err := loopplan.Rotate(f.rotation)
	if err != nil {
		return err
	}
	given := f.plan.Agent
	f.plan.Rotate(turns)
	if err := f.plan.Name(name); err != nil {
		return err
	}
	if first := f.plan.Agent; given != "" && given != first {
		return spec.Errorf(spec.ErrUsage, "--agent is %s, and the rotation begins with %s", given, first).
			WithHint("leave --agent out: the rotation says who works")
	}
	return nil
}

// maxPrompt bounds a prompt and a template, in bytes.
const maxPrompt = 1 << 20

// readPlan splits PROMPT and PATH, and reads the files.
func (f *loopFlags) readPlan(a *app, args []string) (path string, err error) {
	if f.file != "" {
		if len(args) > 1 {
			return "", spec.Errorf(spec.ErrUsage, "there is a prompt in --file, and one in words")
		}
		if f.plan.Prompt, err = a.readPrompt(f.file); err != nil {
			return "", err
		}
	} else if len(args) > 1 || len(args) > 0 && f.from == "" {
		f.plan.Prompt, args = args[0], args[1:]
	}
	if f.takeTasks || len(f.labels) > 0 {
		f.plan.Tasks = &loopplan.Tasks{Labels: f.labels, Tries: f.tries}
		f.plan.Prompt = cmp.Or(f.plan.Prompt, runstate.TaskPrompt)
	}
	f.plan.Template = loopplan.DefaultTemplate
	if f.template != "" {
		if f.plan.Template, err = a.readPrompt(f.template); err != nil {
			return "", err
		}
	}
	l := &f.plan.Limits
	l.Time, l.Iteration, l.Gate = spec.Duration(f.time), spec.Duration(f.iteration), spec.Duration(f.gate)
	l.Idle = spec.Duration(f.idle)
	if f.plan.Workers < 1 { // 0 stands for one in plans from before workers existed
		return "", loopplan.TooMany(f.plan.Workers)
	}
	if strings.TrimSpace(f.plan.Prompt) == "" {
		return "", spec.Errorf(spec.ErrUsage, "the prompt is empty").
			WithHint("give the prompt in words or in a file (-f), or have tasks be done: --tasks")
	}
	path = "."
	if len(args) > 0 {
		path = args[0]
	}
	if err := f.readGates(a); err != nil {
		return "", err
	}
	return path, f.plan.Check()
}

// checkTasks refuses a loop over tasks if none is ready, and notes the project of the tasks.
func (f *loopFlags) checkTasks(ctx context.Context, e *engine.Engine) error {
	t := f.plan.Tasks
	if t == nil {
		return nil
	}
	b, err := book.NearestTo(ctx, e.Store.Tasks(), f.plan.Directory)
	if err != nil {
		return err
	}
	defer b.Close()
	t.Project = b.Project()
	if err := f.addBoxes(ctx, b); err != nil {
		return err
	}
	g, err := b.View(ctx)
	if err == nil && len(g.Ready(&task.Filter{Labels: t.Labels}, task.ByPriority, time.Now().UTC())) == 0 {
		err = spec.Errorf(spec.ErrNotFound, "no task of %s is ready", t.Project).
			WithHint("bothy task add writes one down, bothy task ls tells what the others wait for")
	}
	return err
}

func (a *app) readPrompt(path string) (string, error) {
	text, err := a.ReadFile(path, maxPrompt)
	if err != nil {
		return "", hostpath.NotOpened(spec.ErrUsage, "read "+path, err)
	}
	return string(text), nil
}

// checkSandbox checks that the plan fits a sandbox to create.
func (f *loopFlags) checkSandbox(sb *spec.Sandbox) error {
	m := sb.Workspaces[0]
	if info, err := os.Stat(m.Source); err != nil || !info.IsDir() {
		return errors.Join(err, spec.Errorf(spec.ErrUsage, "%s is not a directory", m.Source))
	}
	root, err := hostpath.OpenRealRoot(m.Source)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, v := range sb.Volumes {
		if !v.ReadOnly {
			return spec.Errorf(spec.ErrUsage, "-v %s: what the agent writes there would count for the gates, and what they write would stay", v).
				WithHint("share it read-only (:ro), or give the sandbox a directory of its own: --private")
		}
	}
	if f.plan.Tasks != nil && sb.Tasks == spec.TasksWrite {
		return spec.Errorf(spec.ErrUsage, "--share-tasks write: the agent could close tasks itself, done or not").
			WithHint("have it see them, or add what it finds: --share-tasks add")
	}
	for _, path := range f.plan.Protect {
		if err := protectable(root, path); err != nil {
			return &spec.Error{Class: spec.ErrUsage, Op: "--protect " + path, Err: err}
		}
	}
	f.plan.Directory, f.plan.Sandbox = m.Source, sb.ID
	if f.plan.Tasks != nil {
		f.plan.Tasks.Restore = len(checkpoints.Shared(sb)) == 0 // do not restore files that others share
	}
	return joinable(&f.plan, sb)
}

// protectable refuses a path that contains a link, which the agent could point elsewhere. A missing
// path is protected from being created.
func protectable(root *os.Root, path string) error {
	at := ""
	for name := range strings.SplitSeq(filepath.Clean(path), "/") {
		at = filepath.Join(at, name)
		info, err := root.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return spec.Errorf(spec.ErrUsage, "%s is a symbolic link", at).WithHint("protect what it leads to")
		}
	}
	return nil
}

// carryLoop runs a loop, prints its progress, and returns its result.
func (a *app) carryLoop(ctx context.Context, e *engine.Engine, c *crew, events []run.Event) error {
	n := notify.Notice{Run: c.run.ID, Kind: c.run.Kind, Directory: c.plan.Directory}
	h := &herald{app: a, engine: e, notice: n, before: events}
	s, err := c.carryLoop(ctx, events, func(ev run.Event, s *loop.State) { h.handleEvent(ctx, ev, runview.LoopLine(c.plan, ev, s), s) })
	h.waitForNotices()
	c.works.Close(ctx)
	if err != nil {
		return err
	}
	a.dismiss(e, s)
	if _, err := e.Find(c.plan.Sandbox); errors.Is(err, spec.ErrNotFound) {
		a.Note("its sandbox was removed, with all that was in no directory of yours: bothy loop rm %s", c.run.ID)
	} else {
		for _, line := range runview.NextSteps(c.run.ID, c.works.Sandbox, c.plan, s) {
			a.Note("%s", line)
		}
	}
	return a.carried(ctx, e, c.run, c.host, runstate.NoticeOfEnd(n, &s.Result), s.ExitCode())
}
