package inject

import (
	"slices"
	"time"
)

// Lent checks that used secrets may still be used: every lease exists, has its value, and has not
// ended. The error is a *[Refused].
func (s *Set) Lent(uses Uses, now time.Time) error {
	for _, u := range uses {
		if !s.lendsNow(u.Lease, now) {
			return &Refused{Lease: u.Lease, Secret: u.Secret, Where: "request", Why: "it is not lent any more"}
		}
	}
	return nil
}

func (s *Set) lendsNow(lease string, now time.Time) bool {
	if s == nil {
		return false
	}
	for _, l := range s.loans {
		if l.ID == lease {
			return l.isLent(now)
		}
	}
	return false
}

// AnyMethod checks that the used secrets may be in a request of any method. A request that asks in
// its body to be taken for another method is such a request. The error is a *[Refused].
func (s *Set) AnyMethod(uses Uses) error {
	if s == nil {
		return nil
	}
	for _, l := range s.loans {
		if len(l.Methods) > 0 && slices.ContainsFunc(uses, func(u Use) bool { return u.Lease == l.ID }) {
			return l.refuse("request", "its lease is not for every method, and the body asks for another one")
		}
	}
	return nil
}
