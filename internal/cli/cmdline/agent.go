package cmdline

import (
	"fmt"

	"github.com/bothy-dev/bothy/internal/agent"
)

// AgentNames completes AGENT.
func AgentNames(c agent.Catalog) []string {
	out := []string{fmt.Sprintf("%s\tyour own shell, or a program behind --", agent.Shell)}
	names, _ := c.Names()
	for _, name := range names {
		if a, err := c.Find(name); err == nil && !a.Runtime {
			out = append(out, name+"\t"+a.Title)
		}
	}
	return out
}
