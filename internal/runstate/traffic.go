package runstate

import (
	"context"

	"github.com/bothy-dev/bothy/internal/policy/telemetry"
	"github.com/bothy-dev/bothy/internal/records"
	"github.com/bothy-dev/bothy/spec"
)

// Traffic is a summary of the records of the gateways of a run's sandboxes, which explain why the run does not
// proceed.
type Traffic struct {
	Sum    spec.BillItem // of all models
	Denied *spec.Limited // a failed model request; none was answered since
	// Refused counts the refusals by host, and Telemetry those of telemetry that no work needs. A program inside
	// chose the names.
	Refused, Telemetry map[string]int64
	Unread             []error // why bills could not be read
}

// TrafficOf asks the gateways of a run's sandboxes for the records since the run began.
func TrafficOf(ctx context.Context, l Run) Traffic {
	r := l.Recorded()
	t := Traffic{Refused: map[string]int64{}, Telemetry: map[string]int64{}}
	var bill spec.Bill
	for _, id := range l.UsedSandboxes() {
		sb, err := r.Engine.Find(id)
		if err != nil {
			continue // it does not exist yet, or any more
		}
		b, err := records.Bill(ctx, r.Engine.Keepers(), sb)
		if err != nil && ctx.Err() == nil {
			t.Unread = append(t.Unread, err)
			continue
		}
		bill.Models = append(bill.Models, b.Models...)
		t.Denied = LaterOf(t.Denied, b.Refusal(r.Since))
		_ = records.Network(r.Engine.Store, sb, func(record *spec.NetworkRecord) { // an unreadable log does not hide the rest
			if record.Verdict != spec.VerdictDeny || record.IsPacket() || !record.Time.After(r.Since) {
				return
			}
			hosts := t.Refused
			if telemetry.Is(record.Name, record.Path) {
				hosts = t.Telemetry
			}
			hosts[records.Host(record)] += max(record.Count, record.Suppressed, 1)
		})
	}
	t.Sum = bill.Total()
	return t
}
