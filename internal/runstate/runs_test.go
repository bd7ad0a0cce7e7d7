package runstate

import (
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate/runstatetest"
)

// TestRunWaits checks that a run that waits for models says why, and until when.
func TestRunWaits(t *testing.T) {
	until := time.Date(2026, 11, 22, 12, 0, 0, 0, time.Local)
	v := Summary{Detail: "d"}
	v.recordWait(runstatetest.Wait{Delay: run.Delay{For: run.Overloaded, Until: until}, OK: false})
	if _, waits := v.Waits(); waits || v.WaitingFor != "" || !v.Until.IsZero() || v.Why() != "d" {
		t.Errorf("it waits for nothing: %+v", v)
	}
	v.recordWait(runstatetest.Wait{Delay: run.Delay{For: run.Overloaded, Until: until}, OK: true})
	if d, waits := v.Waits(); !waits || d.For != run.Overloaded || !d.Until.Equal(until) {
		t.Errorf("it waits: %+v", v)
	}
	v.asks = "question"
	if _, waits := v.Waits(); waits || v.Why() != "d" {
		t.Errorf("it asks a person: %+v", v)
	}
}
