package app

import (
	"slices"
	"testing"

	"github.com/bothy-dev/bothy/internal/settings"
	"github.com/bothy-dev/bothy/spec"
)

// TestUnenforced checks that a person hears of the limits that they set, and not of the default ones.
func TestUnenforced(t *testing.T) {
	var told []string
	o := Options{Settings: settings.Settings{Pids: 9}, Unenforced: func(l spec.Enforcement) { told = append(told, l.Limit) }}
	sb := &spec.Sandbox{Limits: spec.Limits{CPUs: 1.5}}
	for _, name := range []string{spec.LimitCPUs, spec.LimitMemory, spec.LimitPids, spec.LimitDisk, "new"} {
		o.unenforced(sb, spec.Enforcement{Limit: name})
	}
	if want := []string{spec.LimitCPUs, spec.LimitPids, "new"}; !slices.Equal(told, want) {
		t.Errorf("told are %q, not %q", told, want)
	}
	(&Options{}).unenforced(sb, spec.Enforcement{Limit: spec.LimitCPUs}) // no person listens
}
