package runstate

import (
	"testing"

	"github.com/bothy-dev/bothy/internal/cli/tasks"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
)

// TestShowTaskHere checks that the command omits -C in the tasks' own directory.
func TestShowTaskHere(t *testing.T) {
	dir, err := tasks.RealDir(new(hostpath.Guard), t.TempDir())
	must(t, err)
	t.Chdir(dir)
	if got := ShowTask(&loopplan.Plan{Tasks: &loopplan.Tasks{Project: dir}}, "bd-3"); got != "bothy task show bd-3" {
		t.Error(got)
	}
}
