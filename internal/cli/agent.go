package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/agentprogram"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/settings"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// agents are those there are: ours, and the user's own beside the settings.
func agents() agent.Catalog {
	path, err := settings.Path()
	if err != nil {
		return agent.NewCatalog("") // no home, no settings
	}
	return agent.NewCatalog(filepath.Join(filepath.Dir(path), "agents"))
}

// lodger is who lives in a sandbox, as a command line names it.
type lodger struct {
	name string      // for the sandbox
	spec *spec.Agent // nil for the shell, and for a program
	argv []string    // of a program that was named by its path
}

// lodgerOf tells what the first word of a line names: an agent, the shell, or a
// program by its path. None of these is an error of class [spec.ErrNotFound].
func lodgerOf(e *engine.Engine, word string) (*lodger, error) {
	if word == agent.Shell {
		return &lodger{name: agent.Shell}, nil
	}
	if strings.Contains(word, "/") {
		return programAt(e, word)
	}
	a, err := e.Agents.Called(word)
	if err != nil {
		return nil, err
	}
	return &lodger{name: a.Name, spec: a}, nil
}

// programAt is a program of the user's own. A file that is none can be nothing else that is
// named first, and is an error of class [spec.ErrUsage].
func programAt(e *engine.Engine, word string) (*lodger, error) {
	switch info, err := os.Stat(word); {
	case err != nil || !info.Mode().IsRegular():
		return nil, spec.Errorf(spec.ErrNotFound, "%s is no program", word).WithHint("it must be a file that may be executed")
	case info.Mode()&0o111 == 0:
		return nil, spec.Errorf(spec.ErrUsage, "%s is no program: nobody may execute it", word).
			WithHint("if it is to be one, chmod +x it; a directory that is shared comes before single files")
	}
	paths, err := e.Paths()
	if err != nil {
		return nil, err
	}
	path, err := paths.Real(word)
	if err != nil {
		return nil, err
	}
	l := &lodger{name: programName(path), argv: []string{path}}
	if _, err := e.Agents.Find(l.name); err == nil || l.name == agent.Shell {
		return nil, spec.Errorf(spec.ErrConflict, "%s is called as the agent %s is, whose sandboxes its would be", word, l.name).
			WithHint("call it otherwise, or run it in a shell's sandbox: bothy run shell . -- %s", word)
	}
	return l, nil
}

// absent tells of the first of several paths that it is nothing at all. Alone it is a
// directory that is to be shared.
func absent(word string) error {
	_, err := os.Stat(strings.TrimSuffix(word, ":ro"))
	if !errors.Is(err, fs.ErrNotExist) || strings.HasPrefix(word, "~") {
		return nil // the shell did not expand it
	}
	return spec.Errorf(spec.ErrNotFound, "%s is not there", word).
		WithHint("a directory that is to be shared is created first, with mkdir -p; a program is a file that may be executed")
}

// programName makes a part of a sandbox's name of a program's path.
func programName(path string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(filepath.Base(path)))
	if name = strings.Trim(name, "-"); name == "" || agent.CheckName(name) != nil {
		return "program"
	}
	return name
}

// wantsVersion tells which version of its agent a command asks for: a version, a
// tag, [agentprogram.HostVersion] or [agentprogram.TemplateVersion]; none if it leaves the choice to us.
func (f *createFlags) wantsVersion(l *lodger) (string, error) {
	switch {
	case f.upgrade && f.version != "":
		return "", spec.Errorf(spec.ErrUsage, "--upgrade and --agent-version exclude each other")
	case (f.upgrade || f.version != "") && l.spec == nil:
		return "", spec.Errorf(spec.ErrUsage, "--upgrade and --agent-version are for agents; %s is none", l.name)
	case f.upgrade:
		return agent.Latest, nil
	}
	return f.version, nil
}

// wantsConfig tells whether an agent is to see the configuration of the home: as the
// flag says, else as the settings do for those that have one.
func (a *app) wantsConfig(cmd *cobra.Command, f *createFlags, l *lodger) (bool, error) {
	has := l.spec != nil && (len(l.spec.Config) > 0 || l.spec.Servers != nil)
	switch {
	case !cmd.Flags().Changed("agent-config"):
		return has && a.settings.AgentConfig, nil
	case f.config && l.spec == nil:
		return false, spec.Errorf(spec.ErrUsage, "--agent-config is for agents; %s is no agent", l.name)
	case f.config && !has:
		return false, spec.Errorf(spec.ErrUsage, "--agent-config: it is not known what %s has of configuration", l.spec.Title).
			WithHint("its description would say so under config: see docs/guide/agents.md")
	}
	return f.config, nil
}

// house finds the program that a sandbox of an agent is to use, which is
// installed if it is not there.
func (a *app) house(ctx context.Context, e *engine.Engine, l *lodger, sb *spec.Sandbox, version string) (*spec.Program, error) {
	if l.spec == nil {
		return nil, nil
	}
	ground, err := e.Programs().GroundOf(ctx, sb)
	if err != nil {
		return nil, err
	}
	ctx, release := interruptible(ctx)
	defer release()
	progress, end := a.progress()
	p, notices, err := e.Programs().Choose(ctx, l.spec, ground, version, progress)
	end()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for _, n := range notices {
		a.Note("%s", console.Printable(n))
	}
	return p, err
}

// rehouse gives a sandbox that exists the version that is asked for.
func (a *app) rehouse(ctx context.Context, e *engine.Engine, l *lodger, sb *spec.Sandbox, version string) error {
	if version == "" {
		return nil
	}
	if err := e.MayRun(sb, version); err != nil {
		return err
	}
	p, err := a.house(ctx, e, l, sb, version)
	if err != nil {
		return err
	}
	return e.ChangeProgram(ctx, sb, p)
}

// progress shows how far an installation is: on a terminal in one line that is
// written again, and wiped at the end, elsewhere in a line for each phase.
func (a *app) progress() (told agentprogram.Progress, end func()) {
	live := term.IsTerminal(a.Err)
	var last agent.Event
	told = func(title string, ev agent.Event) {
		what := strings.TrimSpace("installing " + title + " " + ev.Version)
		done := ""
		if ev.Total > 0 {
			done = fmt.Sprintf(" %3d%% of %s", ev.Bytes*100/ev.Total, spec.FormatSize(ev.Total))
		}
		switch {
		case live && ev != last:
			fmt.Fprintf(a.Err, "\r\x1b[Kbothy: %s: %s%s", what, ev.Phase, done)
		case !live && ev.Phase != last.Phase:
			a.Note("%s: %s", what, ev.Phase)
		}
		last = ev
	}
	return told, func() {
		if live && last != (agent.Event{}) {
			fmt.Fprint(a.Err, "\r\x1b[K")
		}
	}
}

// settle gives a new sandbox what its agent needs. What the user says in so
// many words comes after it, and wins.
func (l *lodger) settle(sb *spec.Sandbox, rules *policy.Block, config bool, server *spec.ModelServer) {
	if l.spec == nil {
		return
	}
	sb.Env = append(agent.Env(l.spec), sb.Env...)
	sb.Config = config
	if slices.Contains(rules.Presets, "none") || server != nil { // of its own, which is all that it asks
		return
	}
	for _, name := range l.spec.Presets {
		if !slices.Contains(rules.Presets, name) {
			rules.Presets = append(rules.Presets, name)
		}
	}
	allowed, _ := agent.Allowed(l.spec) // who reads a description checks it
	for _, r := range allowed {
		if !policy.HasRule(rules.Allow, &r) {
			rules.Allow = append(slices.Clip(rules.Allow), r)
		}
	}
}

// argvOf is what runs: the agent in its full-permission mode, or the program, with what is
// for it; else a command of its own.
func (l *lodger) argvOf(args []string) []string {
	switch {
	case len(l.argv) > 0:
		return slices.Concat(l.argv, args)
	case l.spec != nil && agent.Takes(l.spec, args):
		return agent.Command(l.spec, args)
	}
	return shellCommand(args)
}

// lodgerIn is who lives in a sandbox that exists.
func lodgerIn(e *engine.Engine, sb *spec.Sandbox) (*lodger, error) {
	a, err := e.AgentIn(sb)
	if err != nil {
		return nil, err
	}
	return &lodger{name: sb.Agent, spec: a, argv: slices.Clone(sb.Command)}, nil
}

// lacking adds to the error for a program that is not there how to come by it.
func (l *lodger) lacking(err error, argv []string, sb *spec.Sandbox) error {
	if l.spec == nil || !errors.Is(err, spec.ErrNoSuchBinary) || len(argv) == 0 {
		return err
	}
	hint := ""
	switch {
	case argv[0] == l.spec.Program:
		hint = l.howToGet(sb)
	case !strings.Contains(argv[0], "/"):
		hint = fmt.Sprintf("what begins with no flag is run instead of %s; for that, write its whole command: -- %s ...",
			l.spec.Title, strings.Join(agent.Command(l.spec, nil), " "))
	}
	if hint == "" {
		return err
	}
	return (&spec.Error{Class: spec.ErrNoSuchBinary, Err: err}).WithHint("%s", hint)
}

// howToGet tells how a sandbox comes by its agent's program.
func (l *lodger) howToGet(sb *spec.Sandbox) string {
	hint := agent.HowToGet(l.spec, sb.Name)
	if hint == "" && l.spec.Install != nil {
		hint = fmt.Sprintf("to have Bothy's own: bothy stop %s; bothy run --agent-version %s %s", sb.Name, agent.Latest, sb.Name)
	}
	if own := agentprogram.OutOfSight(l.spec.Program); hint != "" && own != "" && sb.Image == nil {
		hint = own + " lies outside of what sandboxes see; " + hint
	}
	return hint
}

// visible refuses a program that the sandbox will not see, and notes where it is
// in one that will.
func (l *lodger) visible(sb *spec.Sandbox) error {
	if len(l.argv) == 0 {
		return nil
	}
	for _, m := range slices.Concat(sb.Workspaces, sb.Volumes) {
		if rel, err := filepath.Rel(m.Source, l.argv[0]); err == nil && filepath.IsLocal(rel) {
			l.argv[0] = filepath.Join(m.Target, rel)
			sb.Command = slices.Clone(l.argv)
			return nil
		}
	}
	sb.Command = slices.Clone(l.argv)
	for _, dir := range []string{"/usr", "/opt", "/bin", "/nix/store"} {
		if strings.HasPrefix(l.argv[0], dir+"/") {
			return nil
		}
	}
	return spec.Errorf(spec.ErrUsage, "%s lies outside of what the sandbox sees", l.argv[0]).
		WithHint("share its directory too, read-only: %s:ro", filepath.Dir(l.argv[0]))
}

// credential gives what is lent to a new sandbox: what the user says, else what
// its agent can log in with, unless models are played for it.
func (a *app) credential(cmd *cobra.Command, e *engine.Engine, l *lodger, sb *spec.Sandbox, asked []lendAt) ([]lendAt, error) {
	if l.spec == nil || sb.Mock != nil || sb.ModelServer != nil || len(asked) > 0 || len(l.spec.Credentials) == 0 && l.spec.Login == nil {
		return asked, nil
	}
	secret, err := e.Credential(cmd.Context(), l.spec)
	if err != nil {
		return nil, err
	}
	if secret == "" && l.given(sb) {
		return nil, nil
	}
	if secret == "" {
		a.Note("%s has no credential; to give it one, and then run it again: %s", l.spec.Title, strings.Join(waysToLogIn(l.spec), ", or "))
		return nil, nil
	}
	return []lendAt{{secret: secret, unasked: true}}, nil
}

// given tells whether the user shows the sandbox itself what its agent logs in with (-e).
func (l *lodger) given(sb *spec.Sandbox) bool {
	return slices.ContainsFunc(sb.Env, func(v string) bool {
		variable, value, _ := strings.Cut(v, "=")
		return value != "" && slices.ContainsFunc(l.spec.Credentials, func(service string) bool {
			return slices.Contains(agent.Variables(l.spec, service), variable)
		})
	})
}

// waysToLogIn are commands that give an agent a credential.
func waysToLogIn(of *spec.Agent) []string {
	var ways []string
	for _, service := range of.Credentials {
		ways = append(ways, "bothy secret set "+service)
	}
	if of.Login != nil {
		ways = append(ways, of.Login.Again)
	}
	return ways
}

// agentNames completes AGENT.
func agentNames(c agent.Catalog) []string {
	out := []string{fmt.Sprintf("%s\tyour own shell, or a program behind --", agent.Shell)}
	names, _ := c.Names()
	for _, name := range names {
		if a, err := c.Find(name); err == nil && !a.Runtime {
			out = append(out, name+"\t"+a.Title)
		}
	}
	return out
}
