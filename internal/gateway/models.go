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

// isMaker tells whether the models of a maker answer at a name.
func (g *Gateway) isMaker(name string) bool {
	return slices.Contains(g.conf.Models, name) || g.isMocked(name)
}

// isModel tells whether models answer at a host: a maker's, or one that the sandbox is
// pointed to.
func (g *Gateway) isModel(h inspect.Host) bool { return g.isMaker(h.Name) || g.isPointedTo(h) }

// isPointedTo tells whether a host is a server of models that the sandbox is pointed to, by
// its user.
func (g *Gateway) isPointedTo(h inspect.Host) bool {
	return slices.Contains(g.conf.Servers, h.String())
}

// hostOf is a flow as the inspector knows it.
func hostOf(s policy.Flow) inspect.Host {
	return inspect.Host{Name: s.Name, Addr: s.Addr.Unmap(), Port: s.Port}
}

// meter begins to count what the model takes that a request asks; nil if it asks none.
// Models are asked at any host in the words of the APIs that there are: who has a
// budget may point an agent anywhere.
func (g *Gateway) meter(h inspect.Host, r *http.Request) (*meter.Tally, error) {
	m := g.conf.Meter
	asks := meter.IsQuestion(r.URL.Path)
	known := g.isModel(h)
	if m == nil || !known && !asks {
		return nil, nil
	}
	upgrade := r.Header.Get("Upgrade") != ""
	if m.Bounded() {
		q := meter.Request{
			Method: r.Method, Path: r.URL.EscapedPath(), Type: r.Header.Get("Content-Type"), Upgrade: upgrade,
			Coded: r.Header.Get("Content-Encoding") != "" && r.Header.Get("Content-Encoding") != "identity",
			Own:   !g.isMaker(h.Name),
		}
		if err := q.Countable(); err != nil {
			return nil, err
		}
	}
	if asks && (r.Method == http.MethodPost || upgrade) {
		return m.Open(meter.Question{Path: r.URL.Path, Likely: !known})
	}
	return nil, nil
}

// hasBudget tells whether the sandbox has one for models.
func (g *Gateway) hasBudget() bool { return g.conf.Meter != nil && g.conf.Meter.Bounded() }

// isBounded tells whether a host is one for which there is a budget: nothing may pass
// to it unseen.
func (g *Gateway) isBounded(h inspect.Host) bool { return g.hasBudget() && g.isModel(h) }

// lookFor is how closely a connection is looked at on account of models, if the rules have it
// looked at as they say. What may be a question to one is counted; with a budget
// that is all HTTP that there is, whoever is asked.
func (g *Gateway) lookFor(h inspect.Host, i policy.Inspection) policy.Inspection {
	switch {
	case g.isBounded(h):
		return policy.InspectMust
	case i == policy.InspectNo && g.conf.Meter != nil && (g.hasBudget() || g.isPointedTo(h)):
		return policy.InspectHTTP
	}
	return i
}

// errUnmetered ends what began before there was a budget.
var errUnmetered = errors.New("the sandbox has a budget now, and nobody looked into this: connect again")

// errUncounted likewise.
var errUncounted = errors.New("the sandbox has a budget now, and what is said over this is not counted")

// errUnseen refuses what a rule with passthrough lets by, where there is a budget.
var errUnseen = errors.New("the sandbox has a budget, and what passes by a rule with passthrough is not counted: take passthrough out of the rule, or the budget off (bothy cost)")

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
