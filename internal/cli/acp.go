package cli

import (
	"context"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/acp"
	"github.com/bothy-dev/bothy/internal/agentprogram"
	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/editor"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/program"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// acpFlags are the flags of an editor's agent.
type acpFlags struct {
	runFlags
	bypass, skipMCP, passSecrets bool
}

func (a *app) acpCommand() *cobra.Command {
	f := &acpFlags{}
	c := &cobra.Command{
		Use:   "acp [flags] AGENT [DIR[:ro]]...",
		Short: "Connect an editor with an agent in a sandbox (Agent Client Protocol)",
		Long: `Speaks the Agent Client Protocol with an editor on standard input and output, for an
agent in a sandbox. An editor starts this command. The sandbox is the one of "bothy
run AGENT DIR", and is made if it is missing. Without DIR it is that of the current
directory or, if that is a home directory or /, of the editor's first session.

The agent uses its own files and terminals, in the sandbox: it cannot reach those of
the editor. Directories of a session must be shared with the sandbox.`,
		Example: `  bothy acp claude                        for an editor that starts it in the project
  bothy acp codex ~/src/app               for an editor that starts it elsewhere
  bothy acp claude . </dev/null           install and start everything before an editor does`,
		Args:              cmdline.AtLeast(1, "an agent"),
		ValidArgsFunction: a.completeCreate,
		RunE: a.OnEngine(func(cmd *cobra.Command, args []string, e *engine.Engine) error {
			f.wanted = provision.Wanted{Agent: args[0], Paths: args[1:]}
			return a.serveEditor(cmd, e, f)
		}),
	}
	f.Add(a.App, c)
	f.Budget.Add(c)
	fs := c.Flags()
	fs.BoolVar(&f.bypass, "bypass-permissions", false, "put each session into the mode in which the agent asks for no permission (default: the editor chooses)")
	fs.BoolVar(&f.skipMCP, "skip-mcp", false, "leave out MCP servers of the editor that cannot be used in the sandbox (default: a session with one is an error)")
	fs.BoolVar(&f.passSecrets, "pass-mcp-secrets", false, "let variables, headers and arguments of the editor's MCP servers into the sandbox that may be secrets")
	cmdline.CompleteFlag(c, "name", a.SandboxNames)
	cmdline.CompleteFlag(c, "secret", a.SecretNames)
	return c
}

// serveEditor connects the editor on the standard streams with an agent.
func (a *app) serveEditor(cmd *cobra.Command, e *engine.Engine, f *acpFlags) error {
	ref, err := provision.FindAgent(e, f.wanted.Agent)
	if err != nil {
		return err
	}
	if err := agentprogram.CheckACP(ref.Spec); err != nil {
		return err
	}
	p := acp.Proxy{SkipServers: f.skipMCP, Version: program.Version(), Note: a.Note}
	if f.bypass {
		if p.Bypass = ref.Spec.ACP.Bypass; p.Bypass == "" {
			return spec.Errorf(spec.ErrUsage, "--bypass-permissions: %s has no such mode", ref.Spec.Title)
		}
	}
	if p.Deferred, err = f.chooseSandbox(e); err != nil {
		return err
	}
	if term.IsTerminal(a.In) {
		a.Note("waiting for messages of an editor; an editor starts this command, see docs/guide/editors-acp.md")
	}
	_, errs := term.NewLineWriters(a.Err)
	defer errs.End()
	p.Host = &editor.Door{
		Err: errs, PassSecrets: f.passSecrets,
		Enter: func(ctx context.Context, dir string) (editor.Place, error) { return a.enterPlace(ctx, cmd, e, f, dir) },
	}
	signal.Ignore(unix.SIGPIPE) // an editor that closes its end early has ended the conversation
	ctx, release := cmdline.Interruptible(cmd.Context())
	defer release()
	return p.Run(ctx, a.In, a.Out)
}

// chooseSandbox completes the sandbox that is wanted. It reports whether the first session names its
// directory.
func (f *acpFlags) chooseSandbox(e *engine.Engine) (deferred bool, err error) {
	if len(f.wanted.Paths) > 0 {
		return false, nil
	}
	if f.Name != "" {
		if sb, err := e.Find(f.Name); err == nil {
			f.wanted.Sandbox = sb
			return false, nil
		}
	}
	rules, err := provision.WorkspaceRules(e, false)
	if err != nil {
		return false, err
	}
	if _, err := rules.Parse("."); err != nil {
		return true, nil
	}
	f.wanted.Paths = []string{"."}
	return false, nil
}

// enterPlace makes the sandbox ready, as a run does.
func (a *app) enterPlace(ctx context.Context, cmd *cobra.Command, e *engine.Engine, f *acpFlags, dir string) (editor.Place, error) {
	if dir != "" {
		f.wanted.Paths = []string{dir}
	}
	req, err := f.Request(a.App, f.wanted.Agent, f.wanted.Paths)
	if err != nil {
		return editor.Place{}, err
	}
	req.ACP = true
	p := a.Provisioner(e)
	t, err := a.obtain(ctx, cmd, p, &f.runFlags, req)
	if err != nil {
		return editor.Place{}, err
	}
	a.WarnShared(e, t.Sandbox)
	in, err := p.Start(ctx, t, false)
	if err != nil {
		return editor.Place{}, err
	}
	in.Note = func(text string) { a.Note("%s", text) }
	at := editor.Place{Session: in, Agent: t.Agent.Spec, Command: wire.Command{Env: req.Env, Caller: wire.Caller{Named: t.Named}}}
	if !t.Created {
		at.Command.Dir, at.Command.User = f.Workdir, f.User
	}
	return at, nil
}
