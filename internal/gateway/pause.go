package gateway

import (
	"errors"
	"sync/atomic"
)

// pause is why no new traffic is let through; the zero pause lets everything through.
type pause struct{ why atomic.Pointer[error] }

// Pause lets no new traffic through, whatever the policy, and gives the reason: traffic that the gateway
// cannot record must not happen. Active flows go on. An empty reason ends the pause.
func (g *Gateway) Pause(reason string) {
	if reason == "" {
		g.pause.why.Store(nil)
		return
	}
	err := errors.New(reason)
	g.pause.why.Store(&err)
}

// reason returns why no new traffic is let through, or nil.
func (p *pause) reason() error {
	if err := p.why.Load(); err != nil {
		return *err
	}
	return nil
}
