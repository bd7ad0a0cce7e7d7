package cli

import (
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestLacking checks that the hint for a missing agent offers the installation by Bothy.
func TestLacking(t *testing.T) {
	sb := &spec.Sandbox{Name: "box"}
	gone := spec.Errorf(spec.ErrNoSuchBinary, "mine: command not found in the sandbox")
	l := &lodger{spec: &spec.Agent{Name: "mine", Program: "mine", Install: &spec.AgentSource{}}}
	if hint := spec.Hint(l.lacking(gone, []string{"mine"}, sb)); !strings.Contains(hint, "bothy run --agent-version latest box") {
		t.Errorf("hint %q", hint)
	}
	if hint := spec.Hint(l.lacking(gone, []string{"/opt/other"}, sb)); hint != "" {
		t.Errorf("hint %q for another program", hint)
	}
	l.spec.Args = []string{"--all"}
	if hint := spec.Hint(l.lacking(gone, []string{"login"}, sb)); !strings.HasSuffix(hint, "write its whole command: -- mine --all ...") {
		t.Errorf("hint %q for what may have been meant for the agent", hint)
	}
	l.spec.Get = "ask {sandbox}"
	if hint := spec.Hint(l.lacking(gone, []string{"mine"}, sb)); hint != "ask box" {
		t.Errorf("hint %q where its description has one", hint)
	}
}
