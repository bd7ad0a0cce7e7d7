package policy

import "time"

// DeniedAddresses finds a rule that denies addresses at a port. While there is one, nobody
// but who sees the address of a name can judge it: a proxy must not find it.
func (p *Policy) DeniedAddresses(port uint16, now time.Time) (Rule, bool) {
	for _, r := range p.rules {
		_, isNet := r.Target.Prefix()
		if r.Action == Deny && isNet && (r.Target.port == 0 || r.Target.port == port) && (r.Until.IsZero() || now.Before(r.Until)) {
			return *r, true
		}
	}
	return Rule{}, false
}
