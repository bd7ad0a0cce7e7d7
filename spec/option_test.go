package spec

import (
	"errors"
	"fmt"
	"testing"
)

// TestFlagged checks that the text of an error names options by their names, and that a command line has
// flags in their place, wherever the error is wrapped and whatever else the text says.
func TestFlagged(t *testing.T) {
	cause := errors.New("cpus is damaged")
	for name, c := range map[string]struct {
		err                     error
		text, hint, flags, help string
	}{
		"none": {Errorf(ErrUsage, "cpus %d", 1).WithHint("less cpus"), "cpus 1", "less cpus", "cpus 1", "less cpus"},
		"in a text": {
			Errorf(ErrUsage, "sandbox %s has other %s", "cpus", Option("cpus")),
			"sandbox cpus has other cpus", "", "sandbox cpus has other --cpus", "",
		},
		"wrapped": {
			fmt.Errorf("create: %w", errors.Join(&Error{Op: "plan", Err: Errorf(ErrUsage, "%s: %w", Option("cpus"), cause)})),
			"create: plan: cpus: cpus is damaged", "", "create: plan: --cpus: cpus is damaged", "",
		},
		"in each other": {
			Errorf(ErrUsage, "%s: %w", Option("env"), Errorf(nil, "no %s", Option("name"))), "env: no name", "", "--env: no --name", "",
		},
		"in a hint": {
			&Error{Op: "run", Err: Errorf(ErrUsage, "wrong").WithHint("set %s", Option("name"))}, "run: wrong", "set name", "run: wrong", "set --name",
		},
		"in a copied hint": {
			func() error {
				err := Errorf(ErrUsage, "wrong").WithHint("set %s", Option("name"))
				return &Error{Op: "run", Err: err, Hint: Hint(err)}
			}(), "run: wrong", "set name", "run: wrong", "set --name",
		},
	} {
		if got, hint := c.err.Error(), Hint(c.err); got != c.text || hint != c.hint {
			t.Errorf("%s: %q, hint %q", name, got, hint)
		}
		if got, hint := Flagged(c.err); got != c.flags || hint != c.help {
			t.Errorf("%s, with flags: %q, hint %q", name, got, hint)
		}
		if w := ToWire(c.err); w.Message != c.text || w.Hint != c.hint {
			t.Errorf("%s, on the wire: %+v", name, w)
		}
	}
	if err := Errorf(ErrUsage, "%s: %w", Option("env"), cause); !errors.Is(err, ErrUsage) || !errors.Is(err, cause) {
		t.Error("the class or the cause is lost")
	}
}
