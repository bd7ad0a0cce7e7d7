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

// isMaker reports whether a model maker's API answers at a name.
func (g *Gateway) isMaker(name string) bool {
	return slices.Contains(g.conf.Models, name) || g.isMocked(name)
}

// isModel reports whether models answer at a host: a maker's host, or one that the sandbox is
// pointed to.
func (g *Gateway) isModel(h inspect.Host) bool { return g.isMaker(h.Name) || g.isPointedTo(h) }

// isPointedTo reports whether a host is a model server that the user has pointed the sandbox to.
func (g *Gateway) isPointedTo(h inspect.Host) bool {
	return slices.Contains(g.conf.Servers, h.String())
}

// hostOf returns a flow's host as the inspector knows it.
func hostOf(s policy.Flow) inspect.Host {
	return inspect.Host{Name: s.Name, Addr: s.Addr.Unmap(), Port: s.Port}
}

// meter begins to count what the model takes for a request. It returns nil if the request is not a
// question to a model. Any host may be asked in the words of the known APIs: a user with a budget
// may point an agent anywhere.
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

// hasBudget reports whether the sandbox has a budget for models.
func (g *Gateway) hasBudget() bool { return g.conf.Meter != nil && g.conf.Meter.Bounded() }

// isBounded reports whether a budget applies to a host: nothing may pass to it unseen.
func (g *Gateway) isBounded(h inspect.Host) bool { return g.hasBudget() && g.isModel(h) }

// lookFor returns how closely a connection is inspected because of models, given what the rules
// say. A possible question to a model is counted. With a budget, that is all HTTP, to any host.
func (g *Gateway) lookFor(h inspect.Host, i policy.Inspection) policy.Inspection {
	switch {
	case g.isBounded(h):
		return policy.InspectMust
	case i == policy.InspectNo && g.conf.Meter != nil && (g.hasBudget() || g.isPointedTo(h)):
		return policy.InspectHTTP
	}
	return i
}

// errUnmetered ends connections that began before the sandbox had a budget.
var errUnmetered = errors.New("the sandbox has a budget now, and nobody looked into this: connect again")

// errUncounted likewise.
var errUncounted = errors.New("the sandbox has a budget now, and what is said over this is not counted")

// errUnseen refuses what a passthrough rule would let by, if the sandbox has a budget.
var errUnseen = errors.New("the sandbox has a budget, and what passes by a rule with passthrough is not counted: take passthrough out of the rule, or the budget off (bothy cost)")

// isEndless reports whether a request can carry more than one question. A budget refuses such
// requests, so one that began before the budget must end as well.
func isEndless(r *policy.Request) bool {
	return r.Upgrade != "" || strings.HasPrefix(http.Header(r.Header).Get("Content-Type"), "application/grpc")
}

// SetBudget puts another budget into force, for active requests as well.
func (g *Gateway) SetBudget(b spec.Budget) {
	if g.conf.Meter == nil {
		return
	}
	g.conf.Meter.SetBudget(b)
	g.review()
}
