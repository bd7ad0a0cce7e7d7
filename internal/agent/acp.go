package agent

import (
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// adapterSuffix follows the name of an agent in the name of its adapter. No agent is called so.
const adapterSuffix = "+acp"

// wordProgram is the placeholder of the agent's program in the variables of an adapter.
const wordProgram = "{program}"

// Adapter returns the description of the program that speaks with editors for an agent, as one that Bothy
// installs like a runtime. It is nil if the agent has none.
func Adapter(a *spec.Agent) *spec.Agent {
	if a == nil || a.ACP == nil || a.ACP.Adapter == nil {
		return nil
	}
	return &spec.Agent{
		Version: spec.Version, Name: a.Name + adapterSuffix, Title: a.Title + " for editors",
		Runtime: true, Program: a.Name + "-acp", Install: a.ACP.Adapter,
	}
}

// isAdapter returns the agent of an adapter's name.
func isAdapter(name string) (of string, ok bool) {
	of, ok = strings.CutSuffix(name, adapterSuffix)
	return of, ok && CheckName(of) == nil
}

// checkInstalled checks the name of an installed program: that of an agent, a runtime or an adapter.
func checkInstalled(name string) error {
	if _, ok := isAdapter(name); ok {
		return nil
	}
	return CheckName(name)
}

// ACPCommand returns the command and the variables by which an agent speaks with an editor. argv is its
// own program or the adapter, with everything that it runs on; program is the path of the agent's program.
func ACPCommand(a *spec.Agent, argv []string, program string) (command, env []string) {
	return slices.Concat(argv, a.ACP.Args), environ(a.ACP.Env, func(value string) string {
		return strings.ReplaceAll(value, wordProgram, program)
	})
}

// NeedsProgramPath reports whether the variables of an adapter name the agent's program.
func NeedsProgramPath(a *spec.Agent) bool {
	for _, value := range a.ACP.Env {
		if strings.Contains(value, wordProgram) {
			return true
		}
	}
	return false
}

func checkACP(c *spec.AgentACP) error {
	if c == nil {
		return nil
	}
	fail := usageIn("acp")
	if err := checkEnv("acp", c.Env); err != nil {
		return err
	}
	if c.Adapter == nil {
		if len(c.Args) == 0 {
			return fail("either args of the program, or an adapter")
		}
		return nil
	}
	if c.Adapter.Package == "" {
		return fail("adapter: package is missing")
	}
	if !Exact(c.Adapter.Version) {
		return fail("adapter: version: %q is not a version; write a whole one, like 1.2.3", c.Adapter.Version)
	}
	if n := c.Adapter.Needs; n != nil && (CheckName(n.Name) != nil || !Exact(n.Version)) {
		return fail("adapter: needs: name a runtime and a whole version")
	}
	if err := checkSource(*c.Adapter); err != nil {
		return fail("adapter: %w", err)
	}
	return nil
}
