package policy

import "time"

// DeniedAddresses finds a rule that denies addresses at a port. While such a rule exists,
// only a component that sees the name's address can judge a connection. The gateway must
// not leave the resolving to a proxy then.
func (p *Policy) DeniedAddresses(port uint16, now time.Time) (Rule, bool) {
	for _, r := range p.rules {
		_, isNet := r.Target.Prefix()
		if r.Action == Deny && isNet && (r.Target.port == 0 || r.Target.port == port) && (r.Until.IsZero() || now.Before(r.Until)) {
			return *r, true
		}
	}
	return Rule{}, false
}
