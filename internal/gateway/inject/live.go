package inject

import "time"

// Lent tells whether what was used may still be: every lease is there, has its
// value, and has not ended. The error is a *[Refused].
func (s *Set) Lent(uses Uses, now time.Time) error {
	for _, u := range uses {
		if !s.lends(u.Lease, now) {
			return &Refused{Lease: u.Lease, Secret: u.Secret, Where: "request", Why: "it is not lent any more"}
		}
	}
	return nil
}

func (s *Set) lends(lease string, now time.Time) bool {
	if s == nil {
		return false
	}
	for _, l := range s.loans {
		if l.ID == lease {
			return l.lent(now)
		}
	}
	return false
}
