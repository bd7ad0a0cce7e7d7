package keeper

import (
	"context"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/driver/usage"
	"github.com/bothy-dev/bothy/internal/keeper/keepertest"
	"github.com/bothy-dev/bothy/internal/layer"
	"github.com/bothy-dev/bothy/spec"
)

// TestWorkDuringSave checks that work done while a save is written to disk is saved within the bound.
func TestWorkDuringSave(t *testing.T) {
	pid, work := keepertest.Worker(t)
	saved := make(chan struct{}, 100)
	first := true
	s := &saver{wall: &wall{pids: []int{pid}}, store: layer.Store{Dir: t.TempDir()}, log: quiet(), every: 10 * time.Millisecond}
	s.note = func(spec.RootLayer) {
		if first {
			first = false
			work() // SaveRoot let the sandbox go on; fsync and rename take their time
		}
		saved <- struct{}{}
	}
	s.worked = usage.CPU([]int{pid})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go s.saveInBackground(ctx)
	work()
	<-saved
	select {
	case <-saved:
	case <-time.After(time.Duration(s.savedLayer().Bound) + keepertest.Patience):
		t.Error("not saved")
	}
}
