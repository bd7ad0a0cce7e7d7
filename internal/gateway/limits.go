package gateway

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
const (
	nameBurst = 400
	nameEvery = 6 * time.Second
	bitsBurst = 48 << 10
	bitsRate  = 8 // a second
	manyZones = 4096
)

// limits remembers the names that were seen.
type limits struct {
	mu    sync.Mutex
	seen  map[string]bool
	zones map[string]*ration
	swept time.Time
	now   func() time.Time
}

// ration is the rest of a parent zone's allowance.
type ration struct{ names, bits *rate.Limiter }

func newLimits() *limits {
	return &limits{seen: map[string]bool{}, zones: map[string]*ration{}, now: time.Now}
}

// name admits a name, or returns why not.
func (l *limits) name(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen[name] {
		return nil
	}
	if len(l.seen) >= namepool.Max {
		return namepool.ErrFull
	}
	zone := parent(name)
	r, err := l.ration(zone)
	if err != nil {
		return err
	}
	now, cost := l.now(), int(math.Ceil(bits(strings.TrimSuffix(name, zone))))
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
	return r.names.TokensAt(now) >= nameBurst && r.bits.TokensAt(now) >= bitsBurst
}

// sweep forgets the zones with a full ration, to make room for others. It looks at all zones, so it
// runs once a second.
func (l *limits) sweep() {
	now := l.now()
	if now.Sub(l.swept) < time.Second {
		return
	}
	l.swept = now
	maps.DeleteFunc(l.zones, func(_ string, r *ration) bool { return r.isFull(now) })
}

// ration returns the rest of a zone.
func (l *limits) ration(zone string) (*ration, error) {
	r := l.zones[zone]
	if r == nil {
		if len(l.zones) >= manyZones {
			l.sweep()
		}
		if len(l.zones) >= manyZones {
			return nil, fmt.Errorf("names in %d zones were asked for within a short time", manyZones)
		}
		r = &ration{names: rate.NewLimiter(rate.Every(nameEvery), nameBurst), bits: rate.NewLimiter(bitsRate, bitsBurst)}
		l.zones[zone] = r
	}
	return r, nil
}

// parent returns the zone that a name is counted in: its last two labels. Under a public suffix of
// several labels that is too wide, which only makes it stricter.
func parent(name string) string {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return name
	}
	return name[strings.LastIndexByte(name[:i], '.')+1:]
}
