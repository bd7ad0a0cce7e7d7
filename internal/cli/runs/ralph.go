package runs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/tasks"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/spec"
)

// ralphCommand is the command line of open-ralph, for scripts and users that know it. It translates
// each call to the loop and task commands, which do the work.
func ralphCommand(a *app) *cobra.Command {
	r := &ralphCall{app: a}
	c := &cobra.Command{
		Use:   "ralph --until COMMAND [flags] [PROMPT]",
		Short: "Loops, as open-ralph's command line begins them",
		Long: `Begins a loop here as open-ralph's command line does, or speaks to the newest one of this
directory. There is one thing more to say, when the work is done: --until. Options without
a meaning here are named. bothy loop and bothy task can do more.`,
		Example: `  bothy ralph "make the tests pass" --agent claude-code --max-iterations 20 --until 'make test'
  bothy ralph --status --tasks
  bothy ralph --add-context "the auth module first"`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cmdline.AtMost(1, "a prompt")(cmd, args); err != nil {
				return spec.Errorf(spec.ErrUsage, "there is more than a prompt: %q", args[1]).
					WithHint("arguments after -- do not reach the agent: its description says how it is started, see bothy agent show")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return r.runCommands(cmd, args) },
	}
	r.addFlags(c)
	return c
}

// ralphCall is one call of that command.
type ralphCall struct {
	*app
	cmd                             *cobra.Command // has the flags that are only passed on
	status, tasks, noAllow          bool
	context, addTask, removeTask    string
	config                          string
	initConfig                      bool
	agent, rotation, file, activity string
	most                            int
	until, protect                  []string
	gates                           string
}

// ralphIdle lists flags without effect here, and why.
var ralphIdle = map[string]string{
	"allow-all":     "an agent may do everything in its sandbox",
	"no-stream":     "bothy loop watch shows how it goes on",
	"stream":        "bothy loop watch shows how it goes on",
	"verbose-tools": "bothy logs --agent shows its work",
	"no-plugins":    "an agent has its own home in the sandbox",
	"no-commit":     "files are kept by checkpoints, and nothing is committed for you",
	"questions":     "a loop waits for you when its agent asks",
}

func (r *ralphCall) addFlags(c *cobra.Command) {
	fs := c.Flags()
	r.cmd = c
	fs.BoolVar(&r.status, "status", false, "show how the newest loop of this directory stands; with --tasks its tasks, too, or those of this project")
	fs.StringVar(&r.context, "add-context", "", "tell its next iteration something")
	fs.Bool("clear-context", false, "take back what no iteration was told yet")
	fs.Bool("list-tasks", false, "show the tasks of this project")
	fs.StringVar(&r.addTask, "add-task", "", "write a task down")
	fs.StringVar(&r.removeTask, "remove-task", "", "close the task of this ID: what goes is still known")
	fs.StringVar(&r.agent, "agent", "", "who works (default: the agent whose description says default: [ralph])")
	fs.String("model", "", "the model that works (default: the agent's own choice)")
	fs.StringVar(&r.rotation, "rotation", "", "who takes turns: agent:model,agent:model")
	fs.Int("min-iterations", 1, "before which it is not done")
	fs.IntVar(&r.most, "max-iterations", 0, "how often it may try (default: 30)")
	fs.String("completion-promise", "COMPLETE", "what the agent says when it is done")
	fs.String("abort-promise", "", "the promise with which it gives up")
	fs.BoolVarP(&r.tasks, "tasks", "t", false, "work at the project's tasks, one an iteration")
	fs.String("task-promise", "", "accepted: a task is done when the agent says --completion-promise and --until agrees")
	fs.StringVarP(&r.file, "file", "f", "", "read the prompt from a file")
	fs.StringVar(&r.file, "prompt-file", "", "the same")
	fs.String("prompt-template", "", "read from a file what the agent is told")
	fs.Bool("no-questions", false, "do not wait for you when the agent asks")
	fs.BoolVar(&r.noAllow, "no-allow-all", false, "refused: an agent may do everything in its sandbox")
	fs.StringVar(&r.activity, "last-activity-timeout", "", "end an iteration that is idle for so long: it prints nothing, sends nothing and does not compute")
	fs.StringVar(&r.config, "config", "", "refused: agents are described by files of their own, see bothy agent show")
	fs.BoolVar(&r.initConfig, "init-config", false, "refused likewise")
	for name, why := range ralphIdle {
		fs.Bool(name, false, "accepted: "+why)
	}
	fs.StringArrayVar(&r.until, "until", nil, "a shell command that ends with 0 when the work is done; repeatable, all must")
	fs.StringVar(&r.gates, "gates", "", "read gates from a file")
	fs.Bool("allow-unchanged", false, "believe that it is done although no file was changed, and what checks it was green before")
	fs.StringArrayVar(&r.protect, "protect", nil, "a file or directory that must stay as it is; repeatable")
	fs.String("workspace", "", "live, review or clone")
	cmdline.MayBeEmpty(c, "model", "abort-promise") // as for loop run
	for _, path := range []string{"file", "prompt-file", "prompt-template", "protect", "gates"} {
		cmdline.CompleteFlag(c, path, cmdline.FileNames)
	}
	cmdline.CompleteFlag(c, "agent", r.KnownAgents)
}

// runCommands translates a line to our commands, and runs them.
func (r *ralphCall) runCommands(cmd *cobra.Command, args []string) error {
	if r.config != "" || r.initConfig {
		name := "config"
		if r.initConfig {
			name = "init-config"
		}
		return spec.Errorf(spec.ErrUsage, "--%s: an agent is described by a file of its own here, and by no agents.json", name).
			WithHint("bothy agent show NAME prints one to begin with; docs/guide/own-agent.md tells where it belongs")
	}
	words, err := r.translateFlags(args)
	if err != nil {
		return err
	}
	lines := [][]string{words}
	if words[0] == "loop" && words[1] != "run" {
		here, err := r.loopHere(words[1] == "hint")
		if err != nil {
			return err
		}
		lines = r.addressLoop(words, here)
	}
	root := cmd.Root()
	root.AddCommand(loopCommand(r.app), tasks.Task(r.App))
	for i, words := range lines {
		if i > 0 {
			fmt.Fprintln(r.Out)
		}
		if err := r.Execute(cmd.Context(), root, words); err != nil {
			return err
		}
	}
	return nil
}

// addressLoop adds a loop's ID to words. For --status --tasks of a loop without tasks, it also lists the
// directory's tasks.
func (r *ralphCall) addressLoop(words []string, here *run.Run) [][]string {
	var p loopplan.Plan
	if _, err := here.Plan(&p); err == nil && r.status && r.tasks && p.Tasks == nil {
		return [][]string{{"loop", "status", here.ID}, {"task", "ls"}}
	}
	words = append(words, here.ID)
	if r.context != "" {
		words = append(words, "--", r.context)
	}
	return [][]string{words}
}

// translateFlags translates a line to words of loop and task. The caller adds the ID of an existing loop.
func (r *ralphCall) translateFlags(args []string) ([]string, error) {
	asks := map[string][]string{
		"status":        {"loop", "status"},
		"add-context":   {"loop", "hint"},
		"clear-context": {"loop", "hint", "--clear"},
		"list-tasks":    {"task", "ls"},
		"add-task":      {"task", "add", "--", r.addTask},
		"remove-task":   {"task", "close", "--reason", "removed", "--", r.removeTask},
	}
	var asked []string
	var also string
	for _, f := range r.givenFlags() {
		switch {
		case asks[f.Name] != nil:
			asked = append(asked, f.Name)
		case f.Name != "tasks":
			also = f.Name
		}
	}
	switch {
	case len(asked) == 0:
		return r.loopRunWords(args)
	case len(asked) > 1:
		return nil, spec.Errorf(spec.ErrUsage, "--%s and --%s exclude each other", asked[0], asked[1])
	case len(args) > 0:
		return nil, spec.Errorf(spec.ErrUsage, "--%s takes no prompt", asked[0])
	case also != "":
		return nil, spec.Errorf(spec.ErrUsage, "--%s and --%s exclude each other", asked[0], also)
	case r.tasks && !r.status:
		return nil, spec.Errorf(spec.ErrUsage, "--tasks goes with --status, or with a loop that begins")
	case asked[0] == "add-context" && strings.TrimSpace(r.context) == "":
		return nil, spec.Errorf(spec.ErrUsage, "--add-context: there is nothing to tell")
	}
	words := asks[asked[0]]
	if r.tasks {
		words = append(words, "--tasks")
	}
	return words, nil
}

// loopRunWords returns the words that start a loop.
func (r *ralphCall) loopRunWords(args []string) ([]string, error) {
	switch {
	case r.noAllow:
		return nil, spec.Errorf(spec.ErrUsage, "--no-allow-all: an agent may do everything in its sandbox, and asks no one").
			WithHint("bothy policy tells what leaves the sandbox; bothy run AGENT . is for working together")
	case len(r.until) == 0 && r.gates == "":
		return nil, spec.Errorf(spec.ErrUsage, "nothing says when the work is done, but the agent").
			WithHint("--until COMMAND, e.g. --until 'make test': the loop ends when it agrees with the agent")
	}
	words := []string{"loop", "run"}
	for _, f := range r.givenFlags() {
		why, idle := ralphIdle[f.Name]
		switch {
		case slices.Contains([]string{"agent", "until", "protect", "task-promise"}, f.Name): // handled below, or ignored
		case idle:
			r.Note("--%s changes nothing: %s", f.Name, why)
		case f.Name == "model" && r.rotation != "":
			r.Note("--model changes nothing: --rotation says who works")
		case f.Name == "max-iterations" && r.most == 0:
			r.Note("--max-iterations 0: a loop has an end here, after 30 iterations if nothing else is said")
		case f.Name == "last-activity-timeout":
			words = append(words, "--activity-timeout="+r.activity)
		case f.Name == "no-questions":
			words = append(words, "--stall-questions=0")
		default:
			words = append(words, "--"+f.Name+"="+f.Value.String())
		}
	}
	if r.rotation == "" { // open-ralph ignores agent and model beside a rotation
		who, err := r.worker()
		if err != nil {
			return nil, err
		}
		words = append(words, "--agent="+who)
	}
	for _, command := range r.until {
		words = append(words, "--until="+command)
	}
	for _, path := range r.protect {
		words = append(words, "--protect="+path)
	}
	words = append(words, "--")
	if r.file != "" && len(args) > 0 {
		return nil, spec.Errorf(spec.ErrUsage, "there is a prompt in --file, and one in words")
	}
	if r.file == "" && len(args) == 0 && !r.tasks {
		return nil, spec.Errorf(spec.ErrUsage, "a prompt is missing").WithHint(`bothy ralph --until 'make test' "make the tests pass"`)
	}
	return append(words, args...), nil
}

// worker returns the agent to use without a rotation.
func (r *ralphCall) worker() (string, error) {
	if r.agent != "" {
		return r.agent, nil
	}
	e, err := r.Engine()
	if err != nil {
		return "", err
	}
	a, err := e.Agents.Default(agent.Ralph)
	if err != nil {
		return "", err
	}
	return a.Name, nil
}

// givenFlags returns the flags of the line, except those set to false.
func (r *ralphCall) givenFlags() (flags []*pflag.Flag) {
	r.cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() != "bool" || f.Value.String() != "false" {
			flags = append(flags, f)
		}
	})
	return flags
}

// loopHere returns the newest loop of this directory. For a message it prefers the newest loop that
// can still read one.
func (r *ralphCall) loopHere(hears bool) (*run.Run, error) {
	e, err := r.Engine()
	if err != nil {
		return nil, err
	}
	here, err := os.Getwd()
	if err == nil {
		here, err = filepath.EvalSymlinks(here)
	}
	if err != nil {
		return nil, err
	}
	list, err := run.ListOf(e.Store.Runs(), run.Loops)
	if err != nil {
		return nil, err
	}
	var found []*run.Run
	for _, one := range list {
		var p loopplan.Plan
		if _, err := one.Plan(&p); err != nil { // it may belong to this directory, and be newer
			r.Note("%s: %v", one.ID, err)
		} else if p.Directory == here {
			found = append(found, one)
		}
	}
	for _, one := range found {
		if !hears {
			break
		}
		if l, err := runstate.ReadLoop(e, one); err != nil || !l.State.Final() { // the command reports the error
			return one, nil
		}
	}
	if len(found) > 0 {
		return found[0], nil
	}
	return nil, spec.Errorf(spec.ErrNotFound, "no loop works, or has worked, in %s", here).WithHint("bothy loop ls lists all")
}
