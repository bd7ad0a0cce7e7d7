// Package grants holds the current network permissions of a sandbox: the rules in force, and the lent
// secrets.
package grants

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"

	"github.com/bothy-dev/bothy/internal/keeper/launch"
	"github.com/bothy-dev/bothy/internal/keeper/traffic"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Grants are the rules and secrets in force.
type Grants struct {
	Options
	gateway Gateway // set by UseGateway, before anything is granted

	mu           sync.Mutex     // guards all below; held while the gateway gets new ones, so that it has the latest
	rulesInForce *policy.Policy // of the network
	rules        []policy.Input // its sources
	loans        []wire.Loan    // the secrets the gateway has
	unlent       []spec.Unlent  // and the leases without effect

	keeping sync.Mutex // held while a login made inside is stored
	behind  seenFiles
}

// Options describe the sandbox.
type Options struct {
	Spec    *spec.Sandbox
	Dir     store.Sandbox
	Launch  *launch.Settings
	Traffic *traffic.Log
	Log     *slog.Logger
	// OnUnlent is called with the leases without effect, after the keeper itself took leases back.
	OnUnlent func([]spec.Unlent)
}

// Gateway puts rules and secrets into force.
type Gateway interface {
	// SetPolicy puts other rules into force, also for traffic under way.
	SetPolicy(*policy.Policy)
	// SetLoans replaces the lent secrets, also for traffic under way.
	SetLoans([]wire.Loan) error
}

// New compiles the rules of the launch.
func New(o Options) (*Grants, error) {
	g := &Grants{Options: o}
	var err error
	g.rulesInForce, g.rules, err = compile(1, o.Launch.Policy)
	return g, err
}

// UseGateway sets the gateway that enforces them.
func (g *Grants) UseGateway(w Gateway) { g.gateway = w }

// Policy returns the rules in force.
func (g *Grants) Policy() *policy.Policy {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.rulesInForce
}

// Inspects reports whether the gateway inspects requests.
func (g *Grants) Inspects() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.loans) > 0 || g.rulesInForce != nil && g.rulesInForce.Inspects()
}

// compile reads the layers that the engine collected, and adds more.
func compile(generation uint64, layers json.RawMessage, more ...policy.Input) (*policy.Policy, []policy.Input, error) {
	var inputs []policy.Input
	if err := json.Unmarshal(layers, &inputs); err != nil {
		return nil, nil, fmt.Errorf("read the network policy: %w", err)
	}
	inputs = append(inputs, more...)
	p, err := policy.Compile(generation, inputs...)
	if err != nil {
		return nil, nil, fmt.Errorf("compile the network policy: %w", err)
	}
	return p, inputs, nil
}

func (g *Grants) SetPolicy(layers json.RawMessage, own bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var kept []policy.Input
	if own {
		kept = projectOf(g.rules)
	}
	p, inputs, err := compile(g.rulesInForce.Generation()+1, layers, kept...)
	if err != nil {
		return err
	}
	g.rulesInForce, g.rules = p, inputs
	g.gateway.SetPolicy(p)
	g.Traffic.Flush()
	g.Traffic.Record(spec.NetworkRecord{Event: spec.NetworkPolicy, Sandbox: g.Spec.Name, Generation: p.Generation()})
	return nil
}

// projectOf returns the layers of the project.
func projectOf(inputs []policy.Input) (list []policy.Input) {
	for _, in := range inputs {
		if in.Layer == policy.LayerProject {
			list = append(list, in)
		}
	}
	return list
}

// Generation returns the generation of the rules in force.
func (g *Grants) Generation() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.rulesInForce.Generation()
}
