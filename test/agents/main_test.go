package agents

import (
	"fmt"
	"os"
	"testing"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// TestMain is also the entry point of the search inside, which the test binary itself runs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "rummage" {
		os.Exit(rummage(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "mcp" {
		os.Exit(mcpInside())
	}
	stage.Enter()
	os.Exit(withAgents(func() int { return harness.Main(m) }))
}

// withAgents provides a directory for the agents while the tests run.
func withAgents(run func() int) int {
	if os.Getenv(agentsVar) != "" {
		return run()
	}
	dir, err := os.MkdirTemp("", "bothy-agents-")
	if err == nil {
		defer func() { _ = store.RemoveTree(dir) }()
		err = os.Setenv(agentsVar, dir) // for those on a stage
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "agents:", err)
		return 1
	}
	return run()
}
