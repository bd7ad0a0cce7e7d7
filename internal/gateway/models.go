package gateway

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/gateway/inspect"
	"github.com/bothy-dev/bothy/internal/gateway/meter"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// isModel tells whether models answer at a name.
func (g *Gateway) isModel(name string) bool {
	return slices.Contains(g.conf.Models, name) || g.isMocked(name)
}

// meter begins to count what the model takes that a request asks; nil if it asks none.
func (g *Gateway) meter(h inspect.Host, r *http.Request) (*meter.Tally, error) {
	m := g.conf.Meter
	if m == nil || !g.isModel(h.Name) {
		return nil, nil
	}
	upgrade := r.Header.Get("Upgrade") != ""
	if m.Bounded() {
		q := meter.Request{
			Method: r.Method, Path: r.URL.EscapedPath(), Type: r.Header.Get("Content-Type"), Upgrade: upgrade,
			Coded: r.Header.Get("Content-Encoding") != "" && r.Header.Get("Content-Encoding") != "identity",
		}
		if err := q.Countable(); err != nil {
			return nil, err
		}
	}
	if meter.IsQuestion(r.URL.Path) && (r.Method == http.MethodPost || upgrade) {
		return m.Open()
	}
	return nil, nil
}

// isBounded tells whether a name is one for which there is a budget: nothing may pass
// to it unseen.
func (g *Gateway) isBounded(name string) bool {
	return g.conf.Meter != nil && g.conf.Meter.Bounded() && g.isModel(name)
}

// errUnmetered ends what began before there was a budget.
var errUnmetered = errors.New("the sandbox has a budget now, and nobody looked into this: connect again")

// errUncounted likewise.
var errUncounted = errors.New("the sandbox has a budget now, and what is said over this is not counted")

// isEndless tells of a request over which more than one question may be asked: what is
// refused with a budget must not go on, either, where it was there before.
func isEndless(r *policy.Request) bool {
	return r.Upgrade != "" || strings.HasPrefix(http.Header(r.Header).Get("Content-Type"), "application/grpc")
}

// SetBudget puts another budget into force, also for what is under way.
func (g *Gateway) SetBudget(b spec.Budget) {
	if g.conf.Meter == nil {
		return
	}
	g.conf.Meter.SetBudget(b)
	g.review()
}
