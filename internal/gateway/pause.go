package gateway

import "errors"

// Pause lets nothing new through, whatever the policy, and gives the reason: what the gateway
// cannot record must not happen. Active flows go on. An empty reason ends the pause.
func (g *Gateway) Pause(reason string) {
	if reason == "" {
		g.paused.Store(nil)
		return
	}
	err := errors.New(reason)
	g.paused.Store(&err)
}

// pausedBy returns why nothing new is let through, or nil.
func (g *Gateway) pausedBy() error {
	if err := g.paused.Load(); err != nil {
		return *err
	}
	return nil
}
