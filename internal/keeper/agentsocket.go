package keeper

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/keeper/initlink"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// agentSocket is the socket inside of the lent SSH agent.
type agentSocket struct {
	at netip.AddrPort // of the gateway

	mu    sync.Mutex // guards all below; held while init is asked, so that it is asked once
	open  bool
	tried time.Time // the last failed try
}

// agentPause is how long the keeper waits to ask init again for a socket that it failed to make:
// a root process inside can stop init, and each program would wait.
const agentPause = 30 * time.Second

// openFor makes init open the socket before a program is told of it. If init cannot make it, only
// programs that need the agent fail.
func (a *agentSocket) openFor(ctx context.Context, init *initlink.Link, lent []spec.Lease) error {
	if !slices.ContainsFunc(lent, func(l spec.Lease) bool { return l.Place.IsAgent() }) {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open || time.Since(a.tried) < agentPause {
		return nil
	}
	_, err := init.Ask(ctx, wire.InitAsk{Ask: wire.AskListen, Listen: wire.Listen{Path: wire.AgentSocket, To: a.at}})
	if err != nil {
		a.tried = time.Now()
		return err
	}
	a.open = true
	return nil
}
