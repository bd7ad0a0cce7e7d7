package provision

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/agentprogram"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/spec"
)

// AgentRef is the agent or the program that a sandbox is for.
type AgentRef struct {
	Name string      // for the sandbox
	Spec *spec.Agent // nil for the shell, and for a program
	// Argv is the command of a program that was named by its path; empty for others.
	Argv []string
}

// FindAgent returns the agent, the shell, or the program that a word names. A word with a slash names
// a program. The error is of class [spec.ErrNotFound] if the word names none of them.
func FindAgent(e *engine.Engine, word string) (*AgentRef, error) {
	if word == agent.Shell {
		return &AgentRef{Name: agent.Shell}, nil
	}
	if strings.Contains(word, "/") {
		return programAt(e, word)
	}
	a, err := e.Agents.Called(word)
	if err != nil {
		return nil, err
	}
	return RefOf(a), nil
}

// RefOf returns the reference to an agent.
func RefOf(a *spec.Agent) *AgentRef { return &AgentRef{Name: a.Name, Spec: a} }

// AgentOf returns the agent or the program that an existing sandbox is for.
func AgentOf(e *engine.Engine, sb *spec.Sandbox) (*AgentRef, error) {
	a, err := e.Agents.In(sb)
	if err != nil {
		return nil, err
	}
	return &AgentRef{Name: sb.Agent, Spec: a, Argv: slices.Clone(sb.Command)}, nil
}

func agentsBeside(settings string) string { return filepath.Join(filepath.Dir(settings), "agents") }

// programAt returns the user's own program at a path. A file that is not executable cannot be anything
// else, so it is an error of class [spec.ErrUsage].
func programAt(e *engine.Engine, word string) (*AgentRef, error) {
	switch info, err := os.Stat(word); {
	case err != nil || !info.Mode().IsRegular():
		return nil, spec.Errorf(spec.ErrNotFound, "%s is not a program", word).WithHint("it must be a file that may be executed")
	case info.Mode()&0o111 == 0:
		return nil, spec.Errorf(spec.ErrUsage, "%s is not a program: its mode forbids to execute it", word).
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
	r := &AgentRef{Name: programName(path), Argv: []string{path}}
	if _, err := e.Agents.Find(r.Name); err == nil || r.Name == agent.Shell {
		return nil, spec.Errorf(spec.ErrConflict, "%s is called as the agent %s is, whose sandboxes its would be", word, r.Name).
			WithHint("call it otherwise, or run it in a shell's sandbox: bothy run shell . -- %s", word)
	}
	return r, nil
}

// programName turns a program's path into a part of a sandbox's name.
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

// Command returns the command to run: the agent in its full-permission mode, or the program, with args;
// else a command of the sandbox's own.
func (r *AgentRef) Command(args []string) []string {
	switch {
	case len(r.Argv) > 0:
		return slices.Concat(r.Argv, args)
	case r.Spec != nil && agent.Takes(r.Spec, args):
		return agent.Command(r.Spec, args)
	}
	return shellCommand(args)
}

// ExplainMissing adds to the error for a missing program how to get the program.
func (r *AgentRef) ExplainMissing(err error, argv []string, sb *spec.Sandbox) error {
	if r.Spec == nil || !errors.Is(err, spec.ErrNoSuchBinary) || len(argv) == 0 {
		return err
	}
	hint := ""
	switch {
	case argv[0] == r.Spec.Program:
		hint = r.howToGet(sb)
	case !strings.Contains(argv[0], "/"):
		hint = fmt.Sprintf("what begins with no flag is run instead of %s; for that, write its whole command: -- %s ...",
			r.Spec.Title, strings.Join(agent.Command(r.Spec, nil), " "))
	}
	if hint == "" {
		return err
	}
	return (&spec.Error{Class: spec.ErrNoSuchBinary, Err: err}).WithHint("%s", hint)
}

// howToGet says how a sandbox gets its agent's program.
func (r *AgentRef) howToGet(sb *spec.Sandbox) string {
	hint := agent.HowToGet(r.Spec, sb.Name)
	if hint == "" && r.Spec.Install != nil {
		hint = fmt.Sprintf("to have Bothy's own: bothy stop %s; bothy run --agent-version %s %s", sb.Name, agent.Latest, sb.Name)
	}
	if own := agentprogram.OutOfSight(r.Spec.Program); hint != "" && own != "" && sb.Image == nil {
		hint = own + " lies outside of what sandboxes see; " + hint
	}
	return hint
}

// visible refuses a program that the sandbox will not see. Otherwise it records the program's path
// inside.
func (r *AgentRef) visible(sb *spec.Sandbox) error {
	if len(r.Argv) == 0 {
		return nil
	}
	for _, m := range slices.Concat(sb.Workspaces, sb.Volumes) {
		if rel, err := filepath.Rel(m.Source, r.Argv[0]); err == nil && filepath.IsLocal(rel) {
			r.Argv[0] = filepath.Join(m.Target, rel)
			sb.Command = slices.Clone(r.Argv)
			return nil
		}
	}
	sb.Command = slices.Clone(r.Argv)
	for _, dir := range []string{"/usr", "/opt", "/bin", "/nix/store"} {
		if strings.HasPrefix(r.Argv[0], dir+"/") {
			return nil
		}
	}
	return spec.Errorf(spec.ErrUsage, "%s lies outside of what the sandbox sees", r.Argv[0]).
		WithHint("share its directory too, read-only: %s:ro", filepath.Dir(r.Argv[0]))
}

// shellCommand returns the shell's command: flags are for the shell, and anything else is a program
// of its own.
func shellCommand(args []string) []string {
	if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		return append([]string{"/bin/sh"}, args...)
	}
	return args
}
