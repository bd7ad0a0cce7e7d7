package agent

import (
	"errors"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestIn checks that a program of the user's own needs no description, and that an agent whose
// description is gone is not taken for one.
func TestIn(t *testing.T) {
	c := NewCatalog("")
	if a, err := c.In(&spec.Sandbox{Agent: "claude", Command: []string{"/usr/bin/claude"}}); a != nil || err != nil {
		t.Errorf("a program called like an agent: %+v, %v", a, err)
	}
	if a, err := c.In(&spec.Sandbox{Agent: Shell}); a != nil || err != nil {
		t.Errorf("the shell: %+v, %v", a, err)
	}
	if a, err := c.In(&spec.Sandbox{Agent: "claude"}); err != nil || a == nil || a.Name != "claude" {
		t.Errorf("an agent: %+v, %v", a, err)
	}
	if _, err := c.In(&spec.Sandbox{Name: "box", Agent: "gone"}); !errors.Is(err, spec.ErrConflict) || !strings.Contains(err.Error(), "gone") {
		t.Errorf("an agent without a description: %v", err)
	}
}
