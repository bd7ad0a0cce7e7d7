package netrules

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// TestRulesForRemoved checks that a sandbox that is removed meanwhile needs no rules.
func TestRulesForRemoved(t *testing.T) {
	st, err := store.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	sb := &spec.Sandbox{Version: spec.Version, ID: store.NewID(), Name: "box", Agent: "shell", Template: spec.TemplateHost}
	_, err = st.Create(sb)
	must(t, err)
	must(t, os.RemoveAll(st.Sandbox(sb.ID).Dir))
	r := Rules{keeperclient.Keepers{Store: st, Say: func(string, ...any) {}}}
	must(t, r.announce(t.Context(), []*spec.Sandbox{sb}))
}

// TestHintNamesSandbox checks that the hint of an edit of a sandbox's rules names the sandbox, and that the
// class of the error stays.
func TestHintNamesSandbox(t *testing.T) {
	fail := spec.Errorf(spec.ErrNotFound, "no rule %q", "x").WithHint("bothy policy ls shows the rules and their IDs")
	if err := withSandbox(nil, fail); spec.Hint(err) != "bothy policy ls shows the rules and their IDs" {
		t.Errorf("for all: %q", spec.Hint(err))
	}
	err := withSandbox(&spec.Sandbox{Name: "box"}, fail)
	if spec.Hint(err) != "bothy policy ls --sandbox box shows the rules and their IDs" || !errors.Is(err, spec.ErrNotFound) || err.Error() != fail.Error() {
		t.Errorf("for one: %v, %q", err, spec.Hint(err))
	}
	for _, other := range []error{errors.New("x"), spec.Errorf(nil, "x").WithHint("bothy policy ls --sandbox y")} {
		if got := withSandbox(&spec.Sandbox{Name: "box"}, other); got != other { //nolint:errorlint // the same error, not one that wraps it
			t.Errorf("changed: %v", other)
		}
	}
}
