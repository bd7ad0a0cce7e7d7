package agent

import (
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// Takes reports whether the user's arguments are for an agent, by their first word. Otherwise they are a
// command of their own.
func Takes(a *spec.Agent, args []string) bool {
	return len(args) == 0 || strings.HasPrefix(args[0], "-") || slices.Contains(a.Subcommands, args[0])
}

// Command returns the command of an agent with all permissions, and with the user's arguments.
func Command(a *spec.Agent, args []string) []string {
	argv := []string{a.Program}
	if len(args) > 0 && slices.Contains(a.Subcommands, args[0]) {
		argv, args = append(argv, args[0]), args[1:]
	}
	return slices.Concat(argv, a.Args, args)
}

// checkSubcommands requires words that cannot be anything else.
func checkSubcommands(a *spec.Agent) error {
	for _, word := range a.Subcommands {
		if CheckName(word) != nil {
			return spec.Errorf(spec.ErrUsage, "subcommands: %q is none: write a word of lower-case letters, digits and '-'", word)
		}
	}
	return nil
}

// Headless returns the command of an agent that does one job without a terminal, and its standard input.
// Without a model, the agent chooses its own; a description can tell how to name one. The same applies
// to a session to continue: without one, the agent starts with a fresh memory.
func Headless(a *spec.Agent, prompt, model, session string) (argv []string, stdin string) {
	h := a.Headless
	argv = append([]string{a.Program}, h.Args...)
	if model != "" {
		for _, arg := range h.Model {
			argv = append(argv, strings.ReplaceAll(arg, wordModel, model))
		}
	}
	if session != "" && h.Session != nil {
		for _, arg := range h.Session.Resume {
			argv = append(argv, strings.ReplaceAll(arg, wordSession, session))
		}
	}
	for _, arg := range h.Prompt.Args {
		argv = append(argv, strings.ReplaceAll(arg, wordPrompt, prompt))
	}
	if h.Prompt.Stdin {
		stdin = prompt
	}
	return argv, stdin
}
