package agent

import (
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// Takes tells whether what a person wrote is for an agent, by its first word: others are a
// command of their own.
func Takes(a *spec.Agent, args []string) bool {
	return len(args) == 0 || strings.HasPrefix(args[0], "-") || slices.Contains(a.Subcommands, args[0])
}

// Command is the command of an agent with all permissions, and with what a person wrote
// for it.
func Command(a *spec.Agent, args []string) []string {
	argv := []string{a.Program}
	if len(args) > 0 && slices.Contains(a.Subcommands, args[0]) {
		argv, args = append(argv, args[0]), args[1:]
	}
	return slices.Concat(argv, a.Args, args)
}

// checkSubcommands wants words that could be nothing else.
func checkSubcommands(a *spec.Agent) error {
	for _, word := range a.Subcommands {
		if CheckName(word) != nil {
			return spec.Errorf(spec.ErrUsage, "subcommands: %q is none: write a word of lower-case letters, digits and '-'", word)
		}
	}
	return nil
}

// Headless is the command of an agent that does one job with nobody at a
// terminal, and what goes to its standard input. If no model is named it is the
// agent's own choice; one can be if the description says how. So it is with a session to
// go on with: if none is named it begins with a fresh memory.
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
