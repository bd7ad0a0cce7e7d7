package runs

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/launch"
	"github.com/bothy-dev/bothy/spec"
)

// flowFlags are the flags of a new flow.
type flowFlags struct {
	cmdline.CreateFlags
	req           launch.FlowRequest
	inputs, files []string
	time          time.Duration
	remove        bool
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
	fs.StringVar(&f.req.Plan.Agent, "agent", "", "the agent for steps that name none")
	fs.BoolVar(&f.remove, "rm", false, "remove the sandboxes when the flow has ended; its outputs are kept (default: what the flow says, else false)")
	fs.StringVar(&f.req.Fork, "fork", "", "copies begin with what this sandbox has made of PATH, which waits there for review: SANDBOX is now, SANDBOX@CHECKPOINT then (default: with PATH as it is)")
	cmdline.CompleteFlag(c, "fork", func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return a.OneSandbox(cmd, nil, word)
	})
	fs.StringArrayVar(&f.inputs, "input", nil, "an input that is a text: NAME=VALUE; repeatable")
	fs.StringArrayVarP(&f.files, "file", "f", nil, "an input that is a file: [NAME=]PATH; repeatable")
	fs.IntVar(&f.req.Plan.Parallel, "parallel", 0, "so many steps may be done side by side, each in a place of its own (default: what the flow says, else 1)")
	fs.DurationVar(&f.time, "max-time", 0, "for all of it, e.g. 8h (default: any)")
	fs.Int64Var(&f.req.Plan.Limits.Tokens, "max-tokens", 0, "end when models have taken so many tokens, as the gateway counts, or the agents if they count more (default: any)")
	fs.Float64Var(&f.req.Plan.Limits.USD, "max-cost", 0, "the same in USD (default: any)")
	cmdline.CompleteFlag(c, "file", cmdline.FileNames)
	cmdline.CompleteFlag(c, "agent", a.KnownAgents)
	cmdline.CompleteFlag(c, "secret", a.SecretNames)
	return a.JSONFlag(c)
}

// addRooms adds the flags of create, adapted to several sandboxes, and the flag for the run's directory.
func (f *flowFlags) addRooms(a *app, c *cobra.Command) {
	f.CreateFlags.Add(a.App, c)
	c.Flags().Lookup("name").Usage = "the sandboxes are called NAME-AGENT (default: as the run)"
	c.Flags().StringVar(&f.req.Into, "into", "", "make the run's directory, with inputs/ outputs/ logs/ validation.json, in DIR, where rm -rf removes it (default: in the state directory)")
	cmdline.CompleteFlag(c, "into", cmdline.FileNames)
}

// startFlow runs a flow from a file.
func (a *app) startFlow(cmd *cobra.Command, f *flowFlags, args []string) (err error) {
	p := &f.req.Plan
	if cmd.Flags().Changed("parallel") && p.Parallel < 1 {
		return flowplan.TooMany(p.Parallel)
	}
	if cmd.Flags().Changed("rm") {
		f.req.Remove = &f.remove
	}
	if p.Flow, err = a.readFlowFile(args[0]); err != nil {
		return err
	}
	if p.File, err = filepath.Abs(args[0]); err != nil {
		return err
	}
	if err := f.readInputs(a); err != nil {
		return err
	}
	return a.carryFlow(cmd, f, args[1:], func(ctx context.Context, l *launch.Launcher) (*launch.Ended, error) { return l.StartFlow(ctx, f.req) })
}

// carryFlow completes the request of the flags, and has it carried out.
func (a *app) carryFlow(cmd *cobra.Command, f *flowFlags, paths []string, do func(context.Context, *launch.Launcher) (*launch.Ended, error)) error {
	e, err := a.Engine()
	if err != nil {
		return err
	}
	f.req.Plan.Limits.Time = spec.Duration(f.time)
	if f.req.Sandbox, err = f.Request(a.App, "", paths); err != nil {
		return err
	}
	return a.carryOut(cmd, func(ctx context.Context) (*launch.Ended, error) { return do(ctx, a.launcher(e)) })
}

// fileArg splits a file input: [NAME=]PATH.
func fileArg(word string) (name, path string) {
	name, path, ok := strings.Cut(word, "=")
	if _, err := os.Stat(word); !ok || err == nil { // a path may contain a =
		return "", word
	}
	return name, path
}

// readInputs reads the inputs of the flow.
func (f *flowFlags) readInputs(a *app) error {
	values := map[string]string{}
	for _, word := range f.inputs {
		name, value, ok := strings.Cut(word, "=")
		if _, twice := values[name]; !ok || twice {
			return spec.Errorf(spec.ErrUsage, "--input %q is not NAME=VALUE, or is given twice", word)
		}
		values[name] = value
	}
	f.req.Plan.Values = values
	for _, word := range f.files {
		name, path := fileArg(word)
		data, err := a.ReadFile(path, gate.MaxBytes)
		if err != nil {
			return hostpath.NotOpened(spec.ErrUsage, "read "+path, err)
		}
		f.req.Files = append(f.req.Files, launch.InputFile{Input: name, Path: path, Data: data})
	}
	return nil
}
