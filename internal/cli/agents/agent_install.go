package agents

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/agentprogram"
	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) agentInstallCommand() *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "install NAME[@VERSION|@TAG]...", Short: "Download agents from the npm registry, and check them",
		Long: `Asks the registry for the version, or the one the tag means (default "latest"),
downloads it, checks its hash and shows it to sandboxes that are created from then
on, if no newer one is installed. A version that is installed is not asked for.`,
		Args: cmdline.AtLeast(1, "an agent, e.g. claude or claude@latest"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return a.CompleteAgents(args, func(i agentprogram.Agent) bool { return i.Spec != nil && i.Spec.Install != nil })
		},
		RunE: a.OnEngine(func(cmd *cobra.Command, args []string, e *engine.Engine) error {
			ctx, release := cmdline.Interruptible(cmd.Context())
			defer release()
			list, err := wishedAgents(e, args)
			if err != nil {
				return err
			}
			return a.installAgents(ctx, e, list)
		}),
	})
}

// wishedAgent is an agent to install; an empty version means the latest.
type wishedAgent struct {
	*spec.Agent
	version string
}

// wishedAgents parses NAME[@VERSION] words. It checks all of them before anything is downloaded.
func wishedAgents(e *engine.Engine, words []string) (list []wishedAgent, err error) {
	for _, word := range words {
		name, version, at := strings.Cut(word, "@")
		if at && version == "" {
			return nil, spec.Errorf(spec.ErrUsage, "%s names no version", word).WithHint("bothy agent install %s installs the latest", name)
		}
		w := wishedAgent{version: version}
		if w.Agent, err = e.Agents.Find(name); err == nil {
			err = agentprogram.CheckVersion(w.Agent, agentprogram.HostGround(), version)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, w)
	}
	return list, nil
}

// installAgents installs one agent after the other and stops at the first failure. It still prints
// those it installed.
func (a *app) installAgents(ctx context.Context, e *engine.Engine, list []wishedAgent) error {
	done := []installedAgent{}
	var err error
	for _, w := range list {
		var one installedAgent
		if one, err = a.installAgent(ctx, e, w); err != nil {
			break
		}
		done = append(done, one)
	}
	if a.JSON && (err == nil || len(done) > 0) {
		err = cmp.Or(err, a.PrintJSON(map[string]any{"installed": done}))
	}
	return err
}

// installedAgent is one agent in install --json.
type installedAgent struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	Fresh     bool   `json:"fresh"` // it was not installed before
	Package   string `json:"package"`
	Integrity string `json:"integrity"`
	Directory string `json:"directory"`
}

func (a *app) installAgent(ctx context.Context, e *engine.Engine, d wishedAgent) (installedAgent, error) {
	progress, end := a.Watcher(false).Installing()
	r, err := e.Programs().InstallVersion(ctx, d.Agent, agentprogram.HostGround(), d.version, progress)
	var runtime *spec.Program
	var notices []string
	if err == nil {
		runtime, notices, err = e.Programs().Runtime(ctx, d.Agent, agentprogram.HostGround(), progress)
	}
	end()
	if ctx.Err() != nil {
		return installedAgent{}, context.Cause(ctx)
	}
	if err != nil {
		return installedAgent{}, err
	}
	for _, n := range append(r.Notices, notices...) {
		a.Note("%s", console.Printable(n))
	}
	if !r.Fresh {
		a.Note("%s %s is installed already", d.Title, r.ID())
	}
	if runtime != nil {
		a.Note("%s runs on %s %s, which is installed too", d.Title, runtime.From, runtime.Installation)
	}
	if !a.JSON {
		fmt.Fprintf(a.Out, "%s@%s\n", d.Name, r.ID())
	}
	return installedAgent{Name: d.Name, Version: r.ID(), Fresh: r.Fresh, Package: r.From, Integrity: r.Integrity, Directory: r.Dir}, nil
}
