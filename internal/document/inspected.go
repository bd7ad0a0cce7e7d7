package document

import (
	"context"
	"slices"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/records"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Inspected is everything that is known about a sandbox.
type Inspected struct {
	*spec.Sandbox
	Status  spec.Status `json:"status"`
	Network Network     `json:"network"`
	// Leases are the sandbox's leases, without values, including expired ones.
	Leases    []spec.Lease   `json:"leases"`
	Directory string         `json:"directory"`
	Sessions  []spec.Session `json:"sessions"`
	Usage     *spec.Usage    `json:"usage,omitempty"`
	Processes []wire.Task    `json:"processes,omitempty"`
}

// Network summarizes the network rules of a sandbox.
type Network struct {
	Default string   `json:"default"`
	Presets []string `json:"presets"`
	Rules   int      `json:"rules"` // number of rules in all layers and presets
	// Generation counts the changes of the rules since the start; 0: the sandbox does not run.
	Generation uint64 `json:"generation,omitempty"`
	Flows      int    `json:"flows"` // open connections
	// Uploads are the bytes sent under rules with max_upload, by their targets.
	Uploads []spec.Upload `json:"uploads,omitempty"`
	// Paused says why all new connections are blocked, despite the rules.
	Paused string `json:"paused,omitempty"`
	// Error says why the rules cannot be read. Such a sandbox does not start.
	Error string `json:"error,omitempty"`
}

func networkOf(e *engine.Engine, sb *spec.Sandbox) Network {
	n := Network{Default: policy.Deny.String(), Presets: []string{}}
	if sb.Broken != "" {
		return n
	}
	inputs, err := e.Rules().Layers(sb)
	if err == nil {
		var p *policy.Policy
		if p, err = policy.Compile(0, inputs...); err == nil {
			n.Default, n.Rules = p.Default().String(), len(p.Rules())
		}
	}
	if err != nil {
		n.Error = err.Error()
		return n
	}
	for _, in := range inputs {
		for _, name := range in.Block.Presets {
			if !slices.Contains(n.Presets, name) {
				n.Presets = append(n.Presets, name)
			}
		}
	}
	return n
}

// Inspect returns the known facts about a sandbox. The error says why facts about the inside of a
// running sandbox are missing.
func Inspect(ctx context.Context, e *engine.Engine, sb *spec.Sandbox) (Inspected, error) {
	i := Inspected{Sandbox: sb, Status: e.Status(sb), Directory: e.Store.Sandbox(sb.ID).Dir, Sessions: []spec.Session{}, Network: networkOf(e, sb)}
	var err error
	if i.Leases, err = e.Credentials().Leases(sb); err != nil || i.Leases == nil {
		i.Leases = []spec.Lease{} // a start reports that they cannot be read
	}
	st, unheard := e.Keepers().Inside(ctx, sb)
	switch {
	case unheard == nil:
		i.Status, i.Sessions, i.Usage, i.Processes = st.Status, st.Sessions, &st.Usage, st.Tasks
		i.Network.Generation, i.Network.Flows, i.Network.Paused = st.Generation, st.Open, st.Status.NetworkPaused
	case e.Status(sb).State != spec.Running:
		unheard = nil
	}
	if i.Network.Uploads, err = records.Uploads(e.Store, sb); err != nil && i.Network.Error == "" {
		i.Network.Error = err.Error() // the sandbox does not start with these, either
	}
	return i, unheard
}
