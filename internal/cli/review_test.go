package cli

import (
	"errors"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestRunKeeps checks that --rm removes neither changes that wait for a review nor a sandbox that
// existed before.
func TestRunKeeps(t *testing.T) {
	there := &spec.Sandbox{Name: "there"}
	for _, tt := range []struct {
		remove   bool
		mode     string
		existing *spec.Sandbox
		want     error
	}{
		{true, spec.WorkspaceReview, nil, spec.ErrUsage},
		{true, spec.WorkspaceClone, nil, spec.ErrUsage},
		{true, spec.WorkspaceLive, there, spec.ErrConflict},
		{true, spec.WorkspaceLive, nil, nil},
		{false, spec.WorkspaceReview, there, nil},
	} {
		f := &runFlags{remove: tt.remove, existing: tt.existing}
		f.Mode = tt.mode
		if err := f.checkRemove(); !errors.Is(err, tt.want) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}
