package runstate

import (
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/records"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// deniedOf finds the latest failed model request in the bills on the disk. Gateways write these at
// once, so none has to answer now.
func deniedOf(e *engine.Engine, ids []string, since time.Time) (latest *spec.Limited) {
	for _, id := range ids {
		if sb, err := e.Find(id); err == nil {
			if b, err := records.WrittenBill(e.Store, sb); err == nil { // the process that counts reports unreadable bills
				latest = LaterOf(latest, b.Refusal(since))
			}
		}
	}
	return latest
}

// LaterOf returns the later of two failed requests, either of which may be nil.
func LaterOf(a, b *spec.Limited) *spec.Limited {
	if a == nil || b != nil && b.At.After(a.At) {
		return b
	}
	return a
}

// Denied returns why models do not answer a run's agents. It is nil if they do, or if the run is completed.
func Denied(l Run) *spec.Limited {
	if l.Result().Status == run.Completed {
		return nil
	}
	r := l.Recorded()
	return deniedOf(r.Engine, l.UsedSandboxes(), r.Since)
}
