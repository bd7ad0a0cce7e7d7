package agent

import (
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

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
