package inject

import (
	"strings"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/target"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Lengths in bytes. A shorter text would be found by chance; a longer one fits in no header.
const (
	minValue, maxValue             = 8, 8 << 10
	minPlaceholder, maxPlaceholder = 16, 8 << 10
)

// newLoan checks a loan by itself.
func newLoan(box string, w *wire.Loan) (*loan, error) {
	l := &loan{Lease: w.Lease, box: box, value: string(w.Value), taken: w.Taken, hosts: strings.Join(w.Hosts, ", ")}
	for _, p := range l.standIns() {
		l.folded = append(l.folded, strings.ToLower(p))
	}
	for _, v := range w.Masked {
		l.masked = append(l.masked, string(v))
	}
	if w.Login != nil {
		l.login = NewEndpoint(w.Login.How.Endpoint)
	}
	for _, check := range []func() error{l.checkPlaceholder, l.checkValue, l.Place.Check} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return l, l.compileRules()
}

// checkPlaceholder refuses placeholders that could occur by chance or be written in two ways.
func (l *loan) checkPlaceholder() error {
	for _, p := range l.standIns() {
		switch {
		case len(p) < minPlaceholder || len(p) > maxPlaceholder:
			return spec.Errorf(spec.ErrUsage, "its placeholder has %d bytes: it takes %d to %d", len(p), minPlaceholder, maxPlaceholder)
		case strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`%&\"'<>`, r) }):
			return spec.Errorf(spec.ErrUsage, "its placeholder has a character that would have to be escaped")
		}
	}
	return nil
}

// checkValue judges all values. A loan that was taken back may have none: see Set.
func (l *loan) checkValue() error {
	for _, v := range l.values() {
		if err := checkValue(v); err != nil {
			return err
		}
	}
	return nil
}

// checkValue reveals nothing of the value but its length.
func checkValue(v string) error {
	switch {
	case len(v) < minValue:
		return spec.Errorf(spec.ErrUsage, "its value has %d bytes: less than %d cannot be masked in answers", len(v), minValue).
			WithHint("lend a longer one")
	case len(v) > maxValue:
		return spec.Errorf(spec.ErrUsage, "its value has %d bytes: no more than %d fit into a request", len(v), maxValue)
	case strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r > '~' }):
		return spec.Errorf(spec.ErrUsage, "its value has a character that is not printable ASCII").
			WithHint("look for a line break at its end")
	case strings.TrimSpace(v) != v:
		return spec.Errorf(spec.ErrUsage, "its value begins or ends with a space")
	}
	return nil
}

// compileRules turns the lease's hosts, methods and paths into rules of a policy, so that they mean
// the same as there.
func (l *loan) compileRules() error {
	if len(l.Hosts) == 0 {
		return spec.Errorf(spec.ErrUsage, "it is bound to no host")
	}
	var b policy.Block
	for _, h := range l.Hosts {
		r, err := policy.ParseRule(policy.Allow, h)
		if err != nil {
			return err
		}
		if anybody(r.Target) {
			return spec.Errorf(spec.ErrUsage, "%q is a host of anybody", h).WithHint("name the host, or a domain whose hosts all may have the secret")
		}
		r.HTTP = policy.Conditions{Methods: l.Methods, Paths: l.Paths, WebSocket: true}
		b.Allow = append(b.Allow, r)
	}
	var err error
	l.rules, err = policy.Compile(0, policy.Input{Layer: policy.LayerUser, Block: b})
	return err
}

// anybody reports whether a target has no single owner: everything, or a whole top domain.
func anybody(t target.Target) bool {
	switch t.Kind {
	case target.All:
		return true
	case target.Range:
		return t.Prefix.Bits() < 8
	case target.OneLabel, target.AnyDepth:
		return !strings.Contains(t.Name, ".")
	}
	return false
}

func alphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
