package runs

import (
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/run"
)

// waits is a run that may wait for something.
type waits struct {
	run.Delay
	ok bool
}

func (w waits) Waits() (run.Delay, bool) { return w.Delay, w.ok }

func (w waits) Denied() bool { return !w.Since.IsZero() }

// TestRunWaits checks that a run that waits for models says why, and until when.
func TestRunWaits(t *testing.T) {
	until := time.Date(2026, 11, 22, 12, 0, 0, 0, time.Local)
	v := RunView{Detail: "d"}
	v.wait(waits{run.Delay{For: run.Overloaded, Until: until}, false})
	if v.WaitingFor != "" || !v.Until.IsZero() || v.Why() != "d" {
		t.Errorf("it waits for nothing: %+v", v)
	}
	v.wait(waits{run.Delay{For: run.Overloaded, Until: until}, true})
	if v.WaitingFor != run.Overloaded || !v.Until.Equal(until) || !strings.Contains(v.Why(), "2026-11-22 12:00:00, the provider") {
		t.Errorf("it waits: %+v: %s", v, v.Why())
	}
	v.asks = "question"
	if v.Why() != "d" {
		t.Errorf("it asks a person: %s", v.Why())
	}
}
