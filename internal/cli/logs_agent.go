package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/bothy-dev/bothy/internal/agent/transcript"
	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/records"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// talkFlags are the flags of logs for the agent's transcript.
type talkFlags struct {
	agent    bool
	sessions bool
	session  string
	output   bool // read its printed output, not its session files
	follow   bool
}

// check refuses flags that exclude each other.
func (f talkFlags) check(source string) error {
	switch {
	case !f.agent:
		return spec.Errorf(spec.ErrUsage, "--session and --sessions are for --agent")
	case f.output && source != "output":
		return spec.Errorf(spec.ErrUsage, "with --agent the only --source is output")
	case f.sessions && (f.follow || f.session != ""), f.output && (f.sessions || f.session != ""):
		return spec.Errorf(spec.ErrUsage, "--sessions, --session and --source output exclude each other, and --sessions excludes --follow")
	}
	return nil
}

// showTalk prints the transcript of a sandbox's agent.
func (a *app) showTalk(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, f talkFlags) error {
	if f.output {
		return a.showPrinted(ctx, e, sb, f.follow)
	}
	s, err := records.Sessions(e.Store, e.Agents, sb)
	if err != nil {
		return err
	}
	defer s.Close()
	if f.sessions {
		return a.listSessions(ctx, s)
	}
	one, err := chosen(ctx, s, f.session)
	if f.follow && f.session == "" && errors.Is(err, spec.ErrNotFound) {
		err = nil // wait for the first session
	}
	if err != nil {
		return whereTo(ctx, err, s, sb)
	}
	tell, end := a.Teller()
	if f.follow {
		err = s.Follow(ctx, one, f.session == "", tell)
	} else {
		err = s.Read(ctx, one, tell)
	}
	return errors.Join(err, end())
}

// chosen returns the requested session.
func chosen(ctx context.Context, s *transcript.Sessions, id string) (transcript.Session, error) {
	if id == "" {
		return s.Latest(ctx)
	}
	return s.Find(ctx, id)
}

// whereTo adds a hint about a missing session.
func whereTo(ctx context.Context, err error, s *transcript.Sessions, sb *spec.Sandbox) error {
	if !errors.Is(err, spec.ErrNotFound) {
		return err
	}
	list, lerr := s.List(ctx)
	if lerr != nil {
		return lerr
	}
	wrapped := &spec.Error{Class: spec.ErrNotFound, Op: "read what the agent of " + sb.Name + " said", Err: err}
	if len(list) > 0 {
		return wrapped.WithHint("bothy logs --agent --sessions %s lists them", sb.Name)
	}
	return wrapped.WithHint("%s keeps its sessions in the home of the sandbox, as %s: none is there yet. With --follow the first is waited for", sb.Agent, s.Files())
}

// showPrinted prints the agent's output in the background.
func (a *app) showPrinted(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, follow bool) error {
	rules, err := records.OutputRules(e.Agents, sb)
	if err != nil {
		return err
	}
	tell, end := a.Teller()
	r := transcript.NewReader(rules, tell)
	err = audit.Copy(ctx, e.Store.Sandbox(sb.ID).Log("output.log"), r, follow)
	if errors.Is(err, fs.ErrNotExist) {
		return spec.Errorf(spec.ErrNotFound, "sandbox %s has run nothing in the background", sb.Name).
			WithHint("what an agent says at a terminal: bothy logs --agent %s", sb.Name)
	}
	if err == nil {
		err = r.Close()
	}
	return errors.Join(err, end())
}

func (a *app) listSessions(ctx context.Context, s *transcript.Sessions) error {
	list, err := s.List(ctx)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(map[string]any{"sessions": list})
	}
	w := a.Table()
	fmt.Fprintln(w, "SESSION\tCHANGED\tSIZE\tBEGINS WITH")
	for _, one := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", term.Sanitize(one.ID), one.Changed.Local().Format(time.DateTime),
			spec.FormatSize(one.Bytes), term.Sanitize(cmdline.FirstLine(one.Prompt, sessionPrompt)))
	}
	return w.Flush()
}

// sessionPrompt is how many characters of a prompt fit into a table.
const sessionPrompt = 60
