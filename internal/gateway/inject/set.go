package inject

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Set is the secrets lent to one sandbox. It never changes, and may be used by any number of goroutines
// at once; nil is an empty set.
//
// Leases that have ended are kept in the set, so that their placeholders are recognised and their values
// masked. A lease that was taken back may stay without its value.
type Set struct {
	loans        []*loan
	placeholders *finder
	values       *finder
}

// Target is the receiver of a request: the connection that it is sent on, not the host that the
// request names.
type Target struct {
	Name   string     // empty for a literal address
	Addr   netip.Addr // the literal address; ignored if Name is set
	Port   uint16
	Secure bool // over TLS with a verified certificate, or never leaves this host
	Local  bool // a port of this host, which the inside calls by other names
}

// loan is a lease ready to be applied.
type loan struct {
	spec.Lease
	box    string // the name of the sandbox
	value  string
	masked []string       // other values that must not come in
	taken  bool           // taken back: only masked
	folded []string       // the placeholders in small letters
	rules  *policy.Policy // hosts, methods and paths
	hosts  string         // for people
	login  *Endpoint      // where it is renewed, if it is a login
}

// standIns are the placeholders of the loan.
func (l *loan) standIns() []string {
	if l.Renewal == "" {
		return []string{l.Placeholder}
	}
	return []string{l.Placeholder, l.Renewal}
}

// standsIn reports whether a lower-case text contains a placeholder.
func (l *loan) standsIn(folded string) bool {
	return slices.ContainsFunc(l.folded, func(p string) bool { return strings.Contains(folded, p) })
}

// values are the values that must not come in.
func (l *loan) values() []string {
	if l.value == "" {
		return l.masked
	}
	return append([]string{l.value}, l.masked...)
}

// Compile checks loans to a sandbox, which is given by its name. Errors are of class
// [spec.ErrUsage].
func Compile(box string, loans []wire.Loan) (*Set, error) {
	if len(loans) == 0 {
		return nil, nil
	}
	s := &Set{}
	for i := range loans {
		l, err := newLoan(box, &loans[i])
		if err != nil {
			return nil, &spec.Error{Class: spec.ErrUsage, Op: "lend secret " + loans[i].Secret, Err: err}
		}
		s.loans = append(s.loans, l)
	}
	if err := s.distinct(); err != nil {
		return nil, err
	}
	var placeholders, values []needle
	for _, l := range s.loans {
		for _, p := range l.standIns() {
			placeholders = append(placeholders, needle{loan: l, text: p})
		}
		for _, v := range l.values() {
			values = append(values, needle{loan: l, text: v, mask: l.Placeholder})
		}
		values = append(values, l.sentNeedles()...)
	}
	s.placeholders, s.values = newFinder(placeholders), newFinder(values)
	return s, nil
}

// distinct checks that no text is the placeholder of two secrets, and that masking one secret does
// not write another.
func (s *Set) distinct() error {
	for i, a := range s.loans {
		for n, p := range a.standIns() {
			for j, b := range s.loans {
				for m, q := range b.standIns() {
					if (i != j || n != m) && strings.Contains(p, q) {
						return spec.Errorf(spec.ErrUsage, "the placeholders of secrets %s and %s cannot be told apart", a.Secret, b.Secret).
							WithHint("lend one of them again")
					}
				}
				if b.overlaps(p) {
					return spec.Errorf(spec.ErrUsage, "the placeholder of secret %s cannot be told from the value of %s", a.Secret, b.Secret).
						WithHint("lend %s again", a.Secret)
				}
			}
		}
	}
	return nil
}

// overlaps reports whether a placeholder contains one of the loan's values, or a value contains it.
func (l *loan) overlaps(placeholder string) bool {
	return slices.ContainsFunc(l.values(), func(v string) bool {
		return strings.Contains(placeholder, v) || strings.Contains(v, placeholder)
	})
}

// Bound reports whether a live lease is bound to a host, or is a login that is renewed there: the
// connection has to be inspected.
func (s *Set) Bound(name string, addr netip.Addr, port uint16, now time.Time) bool {
	if s == nil {
		return false
	}
	to := Target{Name: name, Addr: addr, Port: port}
	for _, l := range s.loans {
		if l.isLent(now) && (l.isBound(to, now) || l.login.Is(to)) {
			return true
		}
	}
	return false
}

// hasHost reports whether any lease is bound to the host, live or not.
func (s *Set) hasHost(to Target) bool {
	for _, l := range s.loans {
		if l.isBound(to, someTime) {
			return true
		}
	}
	return false
}

// someTime is for questions whose answer does not depend on the time: the rules of a loan have no
// end of their own.
var someTime = time.Unix(1, 0)

// isLent reports whether the value may be used at a time.
func (l *loan) isLent(now time.Time) bool { return l.value != "" && !l.taken && l.Live(now) }

func (l *loan) isBound(to Target, now time.Time) bool {
	q := to.newQuery(now)
	q.Stage = policy.StageConnect
	d := l.rules.Decide(q)
	return d.Allowed()
}

// newQuery begins a question about the target.
func (to Target) newQuery(now time.Time) policy.Query {
	q := policy.Query{Name: to.Name, Port: to.Port, Now: now}
	if to.Name == "" {
		q.Addr = to.Addr.Unmap()
	}
	return q
}

// Mask returns a text, for a log, without the values in it.
func (s *Set) Mask(text string) string {
	if s == nil || s.values == nil {
		return text
	}
	return s.values.maskText(text)
}

// TokenMask returns a function that removes a token from texts, in every spelling. The token is not
// lent. A token that is too short to be told from other text is not removed.
func TokenMask(token string) func(text string) string {
	if len(token) < minValue {
		return func(text string) string { return text }
	}
	return newFinder([]needle{{text: token}}).maskText
}

// Find looks for a placeholder in a text on its own, such as a name that is looked up. It ignores
// the case of letters. where describes the text for the error, which is nil without a placeholder.
func (s *Set) Find(where, text string) *Refused {
	if s == nil {
		return nil
	}
	folded := strings.ToLower(text)
	for _, l := range s.loans {
		if l.standsIn(folded) {
			return l.refuse(where, "it is only for requests to "+l.hosts)
		}
	}
	if n := s.placeholders.findNeedle([]byte(text)); n != nil {
		return n.loan.refuse(where, "it is only for requests to "+n.loan.hosts)
	}
	return nil
}
