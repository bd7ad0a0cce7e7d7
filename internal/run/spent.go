package run

import (
	"fmt"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Unmetered is the usage of models that is not known since the current process carries the run on.
type Unmetered struct {
	Tokens   bool   // an agent that ended well did not report its tokens
	USD      bool   // likewise its cost
	By       string // the last such agent
	Unlisted bool   // a model without a price was asked
}

// Note notes which usage is unknown of an agent that ended well. tokens and usd are the figures that count.
func (u *Unmetered) Note(by string, tokens int64, usd float64, said *spec.Claimed, seen *spec.BillItem) {
	if seen != nil {
		return
	}
	reported := spec.Meter(nil, said).Said
	u.addWork(Unmetered{Tokens: reported.Tokens == nil && tokens == 0, USD: reported.USD == nil && usd == 0, By: by})
}

// Take moves the unknown usage of a part of the run to the whole.
func (u *Unmetered) Take(part *Unmetered) {
	u.addWork(*part)
	*part = Unmetered{}
}

func (u *Unmetered) addWork(o Unmetered) {
	if o.Tokens || o.USD {
		u.By = o.By
	}
	u.Tokens, u.USD, u.Unlisted = u.Tokens || o.Tokens, u.USD || o.USD, u.Unlisted || o.Unlisted
}

// Spent ends a run whose limits are used up, or that has a budget and unknown usage. limit bounds its time,
// and took is the time so far. It is nil if the run can continue.
func (u *Usage) Spent(budget spec.Budget, limit, took time.Duration, unknown Unmetered) *Result {
	switch {
	case limit > 0 && took >= limit:
		return &Result{Status: Limited, Reason: "time", Detail: fmt.Sprintf("not done after %s", limit)}
	case budget.Tokens > 0 && u.Tokens >= budget.Tokens:
		return &Result{Status: Limited, Reason: "tokens", Detail: fmt.Sprintf("not done after %d tokens", u.Tokens)}
	case budget.USD > 0 && u.USD >= budget.USD:
		return &Result{Status: Limited, Reason: "cost", Detail: fmt.Sprintf("not done after %.2f USD", u.USD)}
	case budget.USD > 0 && unknown.Unlisted: // the gateway refuses all further requests of its sandbox
		return &Result{Status: Failed, Reason: "unmetered", Detail: "it has a budget in USD, and a model that was asked has no price: bothy cost SANDBOX names it, the setting prices can give it one"}
	case budget.Tokens > 0 && unknown.Tokens, budget.USD > 0 && unknown.USD:
		return &Result{Status: Failed, Reason: "unmetered", Detail: fmt.Sprintf("it has a budget, and the usage of %s is unknown: the gateway saw no model asked that it knows, and the agent does not say", unknown.By)}
	}
	return nil
}
