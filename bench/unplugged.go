package main

import (
	"context"
	"path/filepath"
)

// A sandbox with a network starts later than one without. These name the difference, within the same
// round.
const (
	caseLink   = "run --rm, added by the network"
	noNetwork  = "bothy without a network"
	linkTarget = 10
)

// buildUnplugged builds a bothy whose sandboxes have no network.
func (b *bench) buildUnplugged(ctx context.Context) (*bothy, error) {
	return b.buildOther(ctx, "unplugged",
		other{filepath.Join("internal", "keeper", "network.go"), map[string]string{
			"if len(card.Gateways) > 0": "if card != nil && len(card.Gateways) > 0",
		}},
		other{filepath.Join("internal", "keeper", "keeper.go"), map[string]string{
			"defer m.Network.Card.Close()": "",
		}})
}

// link adds the network's time in each round.
func (r *Report) link() {
	with, without := r.find(groupLife, caseRun, "bothy").Samples, r.find(groupLife, caseRun, noNetwork).Samples
	added := r.series(groupLife, caseLink, "bothy", unitMS)
	added.Target = linkTarget
	for i := range min(len(with), len(without)) {
		added.add(with[i] - without[i])
	}
}
