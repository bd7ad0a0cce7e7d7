package runs

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/launch"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/task"
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
	f := &loopFlags{plan: loopplan.Usual()}
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
	fs.StringVar(&p.Promise, "completion-promise", p.Promise, "the same as --promise")
	fs.IntVar(&p.Workers, "parallel", p.Workers, "so many work at tasks at the same time, each in a sandbox of its own; with --tasks and --workspace review")
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
	fs.StringVar(&p.Promise, "promise", p.Promise, "what the agent says between <promise> and </promise> when it is done")
	fs.StringVar(&p.Abort, "abort-promise", "", "the promise with which it gives up (default: it may not)")
	fs.IntVar(&p.Limits.MinIterations, "min-iterations", p.Limits.MinIterations, "before which it is not done, whatever is said")
	fs.IntVar(&p.Limits.MaxIterations, "max-iterations", p.Limits.MaxIterations, "how often it may try")
	fs.DurationVar(&f.time, "max-time", 0, "for all of it, e.g. 8h (default: any)")
	fs.Int64Var(&p.Limits.Tokens, "max-tokens", 0, "let models be asked until they have taken so many tokens, as the gateway counts or the agent, if that is more (default: any)")
	fs.Float64Var(&p.Limits.USD, "max-cost", 0, "the same in USD (default: any)")
	fs.DurationVar(&f.iteration, "iteration-timeout", time.Duration(p.Limits.Iteration), "for the agent in each iteration; 0: any")
	fs.DurationVar(&f.idle, "activity-timeout", 0, "stop an iteration that is idle for so long: it prints nothing, sends nothing and does not compute; 0: never")
	fs.DurationVar(&f.gate, "gate-timeout", time.Duration(p.Limits.Gate), "for each gate that is not a reviewer")
	fs.IntVar(&p.Stall.Unchanged, "stall-unchanged", p.Stall.Unchanged, "give up when no file was changed in so many iterations; 0: never")
	fs.IntVar(&p.Stall.SameRed, "stall-gates", p.Stall.SameRed, "give up when the same commands have failed with the same output so often; 0: never")
	fs.IntVar(&p.Stall.SameError, "stall-errors", p.Stall.SameError, "give up when the agent has failed in the same way so often; 0: never")
	fs.IntVar(&p.Stall.SameLimit, "stall-limits", p.Stall.SameLimit, "give up when models could not be asked so often in a row, for an allowance that is used up or a provider that is overloaded; 0: never")
	fs.IntVar(&p.Stall.Questions, "stall-questions", p.Stall.Questions, "wait for you when so many iterations in a row have ended with a question; 0: never")
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
	path, err := f.readPlan(a, args)
	if err != nil {
		return err
	}
	e, err := a.Engine()
	if err != nil {
		return err
	}
	req := launch.LoopRequest{Plan: f.plan, Model: f.model, Rotation: f.rotation, Hints: f.hints, Boxes: f.boxes}
	if req.Sandbox, err = f.Request(a.App, "", []string{path}); err != nil {
		return err
	}
	return a.carryOut(cmd, func(ctx context.Context) (*launch.Ended, error) { return a.launcher(e).StartLoop(ctx, req) })
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
	}
	if f.template != "" {
		if f.plan.Template, err = a.readPrompt(f.template); err != nil {
			return "", err
		}
	}
	l := &f.plan.Limits
	l.Time, l.Iteration, l.Gate = spec.Duration(f.time), spec.Duration(f.iteration), spec.Duration(f.gate)
	l.Idle = spec.Duration(f.idle)
	path = "."
	if len(args) > 0 {
		path = args[0]
	}
	return path, f.readGates(a)
}

func (a *app) readPrompt(path string) (string, error) {
	text, err := a.ReadFile(path, maxPrompt)
	if err != nil {
		return "", hostpath.NotOpened(spec.ErrUsage, "read "+path, err)
	}
	return string(text), nil
}
