package gateway

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/gateway/inspect/upstream"
	"github.com/bothy-dev/bothy/internal/gateway/meter"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// models knows at which hosts models answer, and counts their use.
type models struct {
	makers  []string          // names at which the APIs of makers answer
	servers []string          // others, to which the sandbox is pointed
	own     *wire.ModelServer // the one of these that the sandbox was made for; nil: none
	meter   *meter.Meter      // nil: nothing is counted
	mock    *Mock
}

// isMaker reports whether a model maker's API answers at a name.
func (m *models) isMaker(name string) bool {
	return slices.Contains(m.makers, name) || m.mock.playsHost(name)
}

// isModel reports whether models answer at a host: a maker's host, or one that the sandbox is
// pointed to.
func (m *models) isModel(h upstream.Host) bool { return m.isMaker(h.Name) || m.isPointedTo(h) }

// isPointedTo reports whether a host is a model server that the user has pointed the sandbox to.
func (m *models) isPointedTo(h upstream.Host) bool {
	return slices.Contains(m.servers, h.String())
}

// hostOf returns a flow's host as the inspector knows it.
func hostOf(s policy.Flow) upstream.Host {
	return upstream.Host{Name: s.Name, Addr: s.Addr.Unmap(), Port: s.Port}
}

// meterRequest begins to count the model's use for a request. It returns nil if the request is not a
// question to a model. Any host may be asked in the words of the known APIs: a user with a budget may
// point an agent anywhere.
func (m *models) meterRequest(h upstream.Host, r *http.Request) (*meter.Tally, error) {
	counter := m.meter
	asks := meter.IsQuestion(r.URL.Path)
	known := m.isModel(h)
	if counter == nil || !known && !asks {
		return nil, nil
	}
	upgrade := r.Header.Get("Upgrade") != ""
	if counter.Bounded() {
		q := meter.Request{
			Method: r.Method, Path: r.URL.EscapedPath(), Type: r.Header.Get("Content-Type"), Upgrade: upgrade,
			Coded: r.Header.Get("Content-Encoding") != "" && r.Header.Get("Content-Encoding") != "identity",
			Own:   !m.isMaker(h.Name),
		}
		if err := q.Countable(); err != nil {
			return nil, err
		}
	}
	if asks && (r.Method == http.MethodPost || upgrade) {
		return counter.Open(meter.Question{Path: r.URL.Path, Likely: !known})
	}
	return nil, nil
}

// hasBudget reports whether the sandbox has a budget for models.
func (m *models) hasBudget() bool { return m.meter != nil && m.meter.Bounded() }

// isBounded reports whether a budget applies to a host: nothing may pass to it unseen.
func (m *models) isBounded(h upstream.Host) bool { return m.hasBudget() && m.isModel(h) }

// lookFor returns how closely a connection is inspected because of models, given what the rules
// say. A possible question to a model is counted. With a budget, that is all HTTP, to any host.
func (m *models) lookFor(h upstream.Host, i policy.Inspection) policy.Inspection {
	switch {
	case m.isBounded(h):
		return policy.InspectMust
	case i == policy.InspectNo && m.meter != nil && (m.hasBudget() || m.isPointedTo(h)):
		return policy.InspectHTTP
	}
	return i
}

// errUnmetered ends connections that began before the sandbox had a budget.
var errUnmetered = errors.New("the sandbox has a budget now, and this connection was not inspected: connect again")

// errUncounted likewise.
var errUncounted = errors.New("the sandbox has a budget now, and messages over this are not counted")

// errUnseen refuses connections that a passthrough rule would let by, if the sandbox has a budget.
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

// tellTurn returns the function that is called when a request has left the inside. It calls turn
// for questions to models; nil: no call.
func (m *models) tellTurn(turn func()) func(upstream.Host) {
	if turn == nil {
		return nil
	}
	return func(h upstream.Host) {
		if m.isModel(h) {
			turn()
		}
	}
}
