package modelserver

import (
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/modelscript"
)

// TestCallMCP checks that an MCP tool is called by each client's own name for it, and that no other tool
// is taken for it.
func TestCallMCP(t *testing.T) {
	want := modelscript.MCP{Server: "own", Tool: "remember"}
	for client, o := range map[string]offer{
		"Claude Code": {name: "mcp__own__remember"},
		"Codex":       {namespace: "mcp__own", name: "remember"},
		"Gemini CLI":  {name: "mcp_own_remember"},
		"opencode":    {name: "own_remember"},
		"Copilot CLI": {name: "own-remember"},
	} {
		got, err := callMCP(want, []offer{{name: "remember"}, {name: "own"}, {name: "other-remember"}, o})
		if err != nil || got.name != o.name || got.namespace != o.namespace {
			t.Errorf("%s: %+v, %v", client, got, err)
		}
	}
	if got, err := callMCP(want, []offer{{name: "other-own-remember"}, {name: "own-remember-more"}, {namespace: "mcp__own", name: "forget"}}); err == nil {
		t.Errorf("another tool is called: %+v", got)
	}
}

// TestOfferedNames checks that the size of an error does not grow with the tools that a
// client offers.
func TestOfferedNames(t *testing.T) {
	long := strings.Repeat("n", 500_000)
	offered := make([]offer, 40_000)
	for i := range offered {
		offered[i] = offer{name: "a", namespace: long}
	}
	if n := len(toolNames(offered)); n > 64<<10 {
		t.Errorf("%d bytes", n)
	}
	if got := toolNames([]offer{{name: "a", namespace: "n"}, {name: "b"}}); got != "n.a, b" {
		t.Error(got)
	}
	var d dialogue
	for range 100_000 {
		d.addSystem("You are a title generator")
	}
	if len(d.system) > maxSystem || !strings.HasPrefix(d.system, "You are a title generator") {
		t.Errorf("%d bytes", len(d.system))
	}
}
