package gateway

import "errors"

// Pause lets nothing new through, whatever the policy, and tells why: what
// cannot be recorded must not happen. What is under way goes on. An empty reason
// ends the pause.
func (g *Gateway) Pause(reason string) {
	if reason == "" {
		g.paused.Store(nil)
		return
	}
	err := errors.New(reason)
	g.paused.Store(&err)
}

// pausedBy is why nothing new is let through, if that is so.
func (g *Gateway) pausedBy() error {
	if err := g.paused.Load(); err != nil {
		return *err
	}
	return nil
}
