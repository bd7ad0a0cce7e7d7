package runstate

import (
	"strings"
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
	if v.WaitingFor != "" || !v.Until.IsZero() || v.Why() != "d" {
		t.Errorf("it waits for nothing: %+v", v)
	}
	v.recordWait(runstatetest.Wait{Delay: run.Delay{For: run.Overloaded, Until: until}, OK: true})
	if v.WaitingFor != run.Overloaded || !v.Until.Equal(until) || !strings.Contains(v.Why(), "2026-11-22 12:00:00, the provider") {
		t.Errorf("it waits: %+v: %s", v, v.Why())
	}
	v.asks = "question"
	if v.Why() != "d" {
		t.Errorf("it asks a person: %s", v.Why())
	}
}
