package client

import (
	"errors"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestRemoveRefused checks that CreateFrom refuses a sandbox that its first command would have to remove.
func TestRemoveRefused(t *testing.T) {
	c := Client{StateDir: t.TempDir(), Programs: t.TempDir()}
	if _, err := c.CreateFrom(t.Context(), spec.Request{Agent: "shell", Remove: true}); !errors.Is(err, spec.ErrUsage) || spec.Hint(err) == "" {
		t.Errorf("%v, hint %q", err, spec.Hint(err))
	}
}

// TestEnvironment checks the variables of a sandbox and of a command.
func TestEnvironment(t *testing.T) {
	if list, err := environment(map[string]string{"A": "b=c"}); err != nil || len(list) != 1 || list[0] != "A=b=c" {
		t.Errorf("%q, %v", list, err)
	}
	for _, bad := range []map[string]string{{"": "x"}, {"A=B": "x"}, {"A B": "x"}, {"A": "\x00"}, {"A": "\xff"}} {
		s := Sandbox{Agent: "shell", Env: bad}
		if _, err := s.Request(); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
