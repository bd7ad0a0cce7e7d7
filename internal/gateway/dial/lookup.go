package dial

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// answerTime bounds the lookup of a name. doubtTime bounds it at a resolver that has not answered
	// recently: behind a proxy, the host often has no resolver that knows the world's names.
	answerTime = 15 * time.Second
	doubtTime  = 5 * time.Second
)

// lookup returns the addresses that the host finds for a name. It returns none if the name does not
// exist here, or if the host's resolver answers nothing. It returns an error if the resolver
// answers other names. Otherwise load, which programs inside can cause, could make a proxy resolve
// a name whose addresses would be refused here.
func (d *Dialer) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if d.known.silent(name) {
		return nil, nil
	}
	limit := doubtTime
	if d.known.answers() {
		limit = answerTime
	}
	own, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r := d.Resolver
	if r == nil {
		r = net.DefaultResolver
	}
	list, err := r.LookupNetIP(own, "ip", name+".")
	lookup, isLookup := errors.AsType[*net.DNSError](err)
	switch {
	case ctx.Err() != nil:
		return nil, failed(name, context.Cause(ctx))
	case err == nil, isLookup && lookup.IsNotFound:
		d.known.answered()
		return list, nil
	case d.known.answers():
		return nil, failed(name, err)
	}
	d.known.unanswered(name)
	return nil, nil
}

// known is the state of the host's resolver.
type known struct {
	mu    sync.Mutex
	last  time.Time            // it last answered
	names map[string]time.Time // it did not answer, and is not asked again until then
}

const (
	goodTime   = 10 * time.Minute
	silentTime = time.Minute
	mostSilent = 1024
)

func (k *known) answered() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last, k.names = time.Now(), nil
}

// answers reports whether the resolver has answered recently.
func (k *known) answers() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.last.IsZero() && time.Since(k.last) < goodTime
}

func (k *known) silent(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Now().Before(k.names[name])
}

func (k *known) unanswered(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.names == nil || len(k.names) >= mostSilent {
		k.names = map[string]time.Time{}
	}
	k.names[name] = time.Now().Add(silentTime)
}
