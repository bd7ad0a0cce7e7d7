// Package namelimit says how many new names a sandbox may look up below a zone. A name can carry
// data to the owner of its zone.
package namelimit

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/bothy-dev/bothy/internal/gateway/namepool"
)

// A pattern like **.example.com lets any name below pass, and a name can carry data to the owner of
// the zone at the moment its address is looked up. So new names that no rule spells out are
// rationed for each parent zone, by their number and by the bits they can carry. That is enough for
// a program that uses hundreds of hosts, and a trickle for one that talks in names.

// Burst is how many new names below a zone are admitted at once.
const Burst = 400

// The rest of a ration, and how fast it is filled again.
const (
	nameEvery = 6 * time.Second
	bitsBurst = 48 << 10
	bitsRate  = 8 // a second
	manyZones = 4096
)

// Limits remembers the names that were seen. It is safe for concurrent use.
type Limits struct {
	mu    sync.Mutex
	seen  map[string]bool
	zones map[string]*ration
	swept time.Time
	now   func() time.Time
}

// ration is the rest of a parent zone's allowance.
type ration struct{ names, bits *rate.Limiter }

// New returns limits that no name has used up.
func New() *Limits {
	return &Limits{seen: map[string]bool{}, zones: map[string]*ration{}, now: time.Now}
}

// Admit admits a name, or returns why not.
func (l *Limits) Admit(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen[name] {
		return nil
	}
	if len(l.seen) >= namepool.Max {
		return namepool.ErrFull
	}
	zone := zoneOf(name)
	r, err := l.rationOf(zone)
	if err != nil {
		return err
	}
	now, cost := l.now(), int(math.Ceil(bitsOf(strings.TrimSuffix(name, zone))))
	switch {
	case r.names.TokensAt(now) < 1:
		return fmt.Errorf("too many new names below %s: one every %s from here on", zone, nameEvery)
	case !r.bits.AllowN(now, cost):
		return fmt.Errorf("the new names below %s could carry data: too many different letters in them, one like this every %s from here on",
			zone, time.Duration(cost/bitsRate+1)*time.Second)
	}
	r.names.AllowN(now, 1)
	l.seen[name] = true
	return nil
}

// isFull reports whether a zone has its full ration: as if it had never been asked for.
func (r *ration) isFull(now time.Time) bool {
	return r.names.TokensAt(now) >= Burst && r.bits.TokensAt(now) >= bitsBurst
}

// sweepZones forgets the zones with a full ration, to make room for others. It looks at all zones, so it
// runs once a second.
func (l *Limits) sweepZones() {
	now := l.now()
	if now.Sub(l.swept) < time.Second {
		return
	}
	l.swept = now
	maps.DeleteFunc(l.zones, func(_ string, r *ration) bool { return r.isFull(now) })
}

// rationOf returns the rest of a zone.
func (l *Limits) rationOf(zone string) (*ration, error) {
	r := l.zones[zone]
	if r == nil {
		if len(l.zones) >= manyZones {
			l.sweepZones()
		}
		if len(l.zones) >= manyZones {
			return nil, fmt.Errorf("names in %d zones were asked for within a short time", manyZones)
		}
		r = &ration{names: rate.NewLimiter(rate.Every(nameEvery), Burst), bits: rate.NewLimiter(bitsRate, bitsBurst)}
		l.zones[zone] = r
	}
	return r, nil
}

// zoneOf returns the zone that a name is counted in: its last two labels. Under a public suffix of
// several labels that is too wide, which only makes it stricter.
func zoneOf(name string) string {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return name
	}
	return name[strings.LastIndexByte(name[:i], '.')+1:]
}
