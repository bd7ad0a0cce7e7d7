package gateway

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/hostname"
)

// This file judges the names that clients of TLS ask for.

// asking returns the judge of the name that a ClientHello on a flow asks for: it must be the name
// that was looked up or, at a literal address, a name that no rule denies.
func (j *judge) asking(f *flow) func(string) error {
	return func(asked string) error {
		s := f.asJudged()
		switch {
		case asked == "" || isName(asked, s.Name) || f.kind == toHost:
			return nil
		case s.Name != "":
			return fmt.Errorf("%w: %q", errOtherName, asked)
		case isAddr(asked, s.Addr): // which was judged
			return nil
		}
		if d := j.mayAsk(f, asked, s.Port); !d.Allowed() {
			return &policy.Denied{Decision: d}
		}
		return nil
	}
}

// isName compares a name that a client asks for with one that was judged. Only letters of ASCII
// are alike in both cases.
func isName(asked, name string) bool {
	clean, err := hostname.Clean(asked)
	return name != "" && err == nil && clean == name
}

// mayAsk judges the name that the client of a literal address asks for. It notes the name first:
// from then on rule changes find it.
func (j *judge) mayAsk(f *flow, name string, port uint16) policy.Decision {
	f.askedFor(name)
	return j.policy.Load().Asks(name, port, time.Now())
}

// isAddr reports whether a text is the given address.
func isAddr(text string, addr netip.Addr) bool {
	a, err := netip.ParseAddr(text)
	return err == nil && a.Unmap() == addr.Unmap()
}

// anyName is the placeholder for a name that the gateway could not read.
const anyName = "an unreadable name"

// unreadable returns the judge of an unreadable possible ClientHello. At a literal address it may
// ask for any name or none, or be another protocol: it passes if no rule denies a name.
func (j *judge) unreadable(f *flow) func(error) error {
	return func(err error) error {
		s := f.asJudged()
		if s.Name != "" {
			return err
		}
		if d := j.mayAsk(f, anyName, s.Port); !d.Allowed() {
			return err
		}
		return nil
	}
}
