package agent

import (
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// Headless is the command of an agent that does one job with nobody at a
// terminal, and what goes to its standard input.
func Headless(a *spec.Agent, prompt string) (argv []string, stdin string) {
	h := a.Headless
	argv = append([]string{a.Program}, h.Args...)
	for _, arg := range h.Prompt.Args {
		argv = append(argv, strings.ReplaceAll(arg, wordPrompt, prompt))
	}
	if h.Prompt.Stdin {
		stdin = prompt
	}
	return argv, stdin
}
