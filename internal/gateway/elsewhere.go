package gateway

import (
	"fmt"
	"time"
)

// mayResolveElsewhere decides whether the host's proxy may resolve an allowed name. The gateway
// does not see the address then, so no rule may deny addresses at that port.
func (g *Gateway) mayResolveElsewhere(port uint16) error {
	r, ok := g.policy.Load().DeniedAddresses(port, time.Now())
	if !ok {
		return nil
	}
	return fmt.Errorf("only the host's proxy can find its address, and rule %q (%s) denies some addresses", r.String(), r.Source)
}
