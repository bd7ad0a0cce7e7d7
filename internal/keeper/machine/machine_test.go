package machine

import (
	"errors"
	"testing"

	"github.com/bothy-dev/bothy/internal/hostroot"
	"github.com/bothy-dev/bothy/internal/keeper/launch"
	"github.com/bothy-dev/bothy/spec"
)

// TestMountsRefused checks that a sandbox that could not be created is not started either.
func TestMountsRefused(t *testing.T) {
	b := New(Options{Spec: &spec.Sandbox{Volumes: []spec.Mount{{Source: "/a", Target: hostroot.Agent}}}, Launch: &launch.Settings{}})
	if _, err := b.listMounts(t.TempDir()); !errors.Is(err, spec.ErrUsage) {
		t.Error(err)
	}
}
