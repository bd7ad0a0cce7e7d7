package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) logsCommand() *cobra.Command {
	var follow bool
	var source string
	var talk talkFlags
	c := &cobra.Command{
		Use:   "logs SANDBOX",
		Short: "Show what a sandbox's agent printed, or what happened to it",
		Long: `Shows a log of a sandbox. --source chooses which:
  output       what the agent session and background commands printed (default)
  events       life cycle: started, stopped, saved, killed for memory, …
  network      allowed and refused requests, and the traffic of each connection
  model        what the sandbox's mock was asked, and what became of it
  checkpoints  why checkpoints that are made by themselves were not
  keeper       what the process that owns the sandbox had to say

With --agent it shows the latest session from the agent's own records: messages,
tools and usage. With --json it prints them as events in one form for all agents.
With --source output it reads the output of the agent in the background, if that
is events. The sandbox need not run.

Control sequences are taken out: nothing printed inside reaches your terminal
as more than text.`,
		Args: cmdline.Exactly(1, "a sandbox"), ValidArgsFunction: a.OneSandbox,
		RunE: a.OnSandbox(func(cmd *cobra.Command, args []string, e *engine.Engine, sb *spec.Sandbox) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, unix.SIGTERM)
			defer stop()
			if talk.agent || talk.sessions || talk.session != "" {
				talk.follow, talk.output = follow, cmd.Flags().Changed("source")
				if err := talk.check(source); err != nil {
					return err
				}
				err := a.showTalk(ctx, e, sb, talk)
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
			if a.JSON && source == "output" && !cmd.Flags().Changed("source") {
				source = "events"
			}
			err := a.showLog(ctx, e.Store.Sandbox(sb.ID), source, follow)
			if ctx.Err() != nil || errors.Is(err, fs.ErrNotExist) {
				return nil // following ends this way, and a sandbox that never ran has no log
			}
			return err
		}),
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on as more comes")
	c.Flags().StringVar(&source, "source", "output", "output, events, network, model, checkpoints or keeper")
	c.Flags().BoolVar(&talk.agent, "agent", false, "what the agent said and did, in its latest session")
	c.Flags().StringVar(&talk.session, "session", "", "with --agent: the session with this ID, or the beginning of one")
	c.Flags().BoolVar(&talk.sessions, "sessions", false, "with --agent: list the sessions")
	cmdline.CompleteFlag(c, "source", cmdline.OneOf("output", "events", "network", "model", "checkpoints", "keeper"))
	return a.JSONFlag(c)
}

func (a *app) showLog(ctx context.Context, d store.Sandbox, source string, follow bool) error {
	switch source {
	case "output":
		w := term.NewSanitizingWriter(a.Out)
		err := audit.Copy(ctx, d.Log("output.log"), w, follow)
		if cerr := w.Flush(); err == nil {
			err = cerr
		}
		return err
	case "events", "network", "model":
		file := d.Log(source + ".jsonl")
		if follow {
			return audit.Follow(ctx, file, a.ShowEvent)
		}
		return audit.Read(file, a.ShowEvent)
	case "checkpoints":
		return a.showKeeperLog(d.Log("checkpoints.log"))
	case "keeper":
		return errors.Join(a.showKeeperLog(d.Log("keeper.log.1")), a.showKeeperLog(d.Log("keeper.log")))
	}
	return spec.Errorf(spec.ErrUsage, "no log %q", source).WithHint("--source is output, events, network, model, checkpoints or keeper")
}

func (a *app) showKeeperLog(path string) error {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	w := term.NewSanitizingWriter(a.Out)
	if _, err := io.Copy(w, f); err != nil {
		return err
	}
	return w.Flush()
}
