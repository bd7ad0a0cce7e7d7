package reconfigure

import (
	"errors"
	"testing"

	"github.com/bothy-dev/bothy/internal/records"
	"github.com/bothy-dev/bothy/spec"
)

// TestTellRemoved checks that the error says that another command has removed the sandbox.
func TestTellRemoved(t *testing.T) {
	e := newEngine(t)
	sb := wish(t.TempDir())
	must(t, e.Create(t.Context(), sb))
	if err := e.Remove(t.Context(), sb, true); err != nil {
		t.Fatal(err)
	}
	if _, err := records.Bill(t.Context(), e.Keepers(), sb); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if err := Budget(t.Context(), e, sb, spec.Budget{Tokens: 1}); err == nil {
		t.Error("the budget of nothing was changed")
	}
}
