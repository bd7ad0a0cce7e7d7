package agents

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/harness"
)

// network returns the network log of the agent's sandbox.
func (w *world) network(t *testing.T) (list []spec.NetworkRecord) {
	t.Helper()
	for line := range strings.Lines(w.Must(t, "logs", "--source", "network", "--json", box)) {
		var r spec.NetworkRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

// logged waits until a matching record is in the log.
func (w *world) logged(t *testing.T, what string, fits func(spec.NetworkRecord) bool) {
	t.Helper()
	harness.WaitFor(t, patience, what, func() bool { return slices.ContainsFunc(w.network(t), fits) })
}
