package launch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/internal/run"
)

// recorder is a host without a terminal. It keeps the notes.
type recorder struct {
	notes strings.Builder
	loops []LoopEnd
	flows []FlowEnd
}

var _ Host = (*recorder)(nil)

func (r *recorder) Note(format string, args ...any) { fmt.Fprintf(&r.notes, format+"\n", args...) }

func (r *recorder) ShowLoop(*loopplan.Plan, run.Event, *loop.State) {}

func (r *recorder) ShowFlow(run.Event, *flow.State) {}

func (r *recorder) EndLoop(end LoopEnd) { r.loops = append(r.loops, end) }

func (r *recorder) EndFlow(end FlowEnd) { r.flows = append(r.flows, end) }

// launcherOf returns a launcher for an engine, and its host.
func launcherOf(t *testing.T, e *engine.Engine) (*Launcher, *recorder) {
	t.Helper()
	h := &recorder{}
	return &Launcher{Provisioner: &provision.Provisioner{Engine: e}, Host: h}, h
}
