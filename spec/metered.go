package spec

import (
	"math"
)

// Amount is the usage that one side reports. Nil means unknown, not zero.
type Amount struct {
	Tokens *int64   `json:"tokens"` // as counted by [Tokens.Counted]
	USD    *float64 `json:"usd"`
	// TokensPartly and USDPartly say that the side knows only a part of the usage.
	TokensPartly bool `json:"tokens_partly,omitempty"`
	USDPartly    bool `json:"usd_partly,omitempty"`
}

// Metered is the usage of models as reported by the two sides that can tell. Its zero value stands for
// no work at all.
type Metered struct {
	Seen Amount `json:"seen"` // by the gateway, in the answers of models
	Said Amount `json:"said"` // by the agent
	// Differ says that one is more than a tenth above the other.
	Differ bool `json:"differ"`

	works bool // some work was added
}

// Meter compares what the gateway saw of some work with what the agent said. Nil means zero usage.
func Meter(seen *BillItem, said *Claimed) Metered {
	m := Metered{works: true}
	if seen != nil {
		m.Seen = seen.amount()
	}
	if said != nil {
		m.Said.Tokens = new(max(said.Tokens, 0))
		if said.USD > 0 { // several agents report 0 if they do not know
			m.Said.USD = new(said.USD)
		}
	}
	m.compare()
	return m
}

// amount returns the usage as the gateway knows it.
func (i BillItem) amount() (a Amount) {
	a.TokensPartly, a.USDPartly = i.Unseen > 0, i.Unseen > 0 || i.Unpriced > 0
	if i.Answers > 0 || i.Unseen == 0 {
		a.Tokens = new(i.Counted())
	}
	if i.USD > 0 || !a.USDPartly {
		a.USD = new(i.USD)
	}
	return a
}

// Add adds more work.
func (m *Metered) Add(o Metered) {
	if !o.works {
		return
	}
	m.Seen, m.Said = m.Seen.addAmount(o.Seen, m.works), m.Said.addAmount(o.Said, m.works)
	m.works = true
	m.compare()
}

// addAmount returns the sum. also says that a already has some work.
func (a Amount) addAmount(o Amount, also bool) Amount {
	sum := Amount{
		TokensPartly: a.TokensPartly || o.TokensPartly || also && (a.Tokens == nil) != (o.Tokens == nil),
		USDPartly:    a.USDPartly || o.USDPartly || also && (a.USD == nil) != (o.USD == nil),
	}
	if sum.Tokens = o.Tokens; a.Tokens != nil {
		sum.Tokens = a.Tokens
		if o.Tokens != nil {
			sum.Tokens = new(min(*a.Tokens, math.MaxInt64-*o.Tokens) + *o.Tokens)
		}
	}
	if sum.USD = o.USD; a.USD != nil {
		sum.USD = a.USD
		if o.USD != nil {
			sum.USD = new(*a.USD + *o.USD)
		}
	}
	return sum
}

func (m *Metered) compare() {
	m.Differ = m.TokensDiffer() || m.USDDiffers()
}

// TokensDiffer reports whether both sides know the number of tokens, and one number is more than a tenth
// above the other.
func (m *Metered) TokensDiffer() bool {
	a, b := m.Seen, m.Said
	return a.Tokens != nil && b.Tokens != nil && !a.TokensPartly && !b.TokensPartly && differMuch(float64(*a.Tokens), float64(*b.Tokens))
}

// USDDiffers is TokensDiffer for the cost.
func (m *Metered) USDDiffers() bool {
	a, b := m.Seen, m.Said
	return a.USD != nil && b.USD != nil && !a.USDPartly && !b.USDPartly && differMuch(*a.USD, *b.USD)
}

// differMuch reports whether one number is more than a tenth above the other.
func differMuch(a, b float64) bool { return max(a, b) > 1.1*min(a, b) }

// Known reports whether either side knows anything.
func (m *Metered) Known() bool {
	return m.Seen.Tokens != nil || m.Said.Tokens != nil || m.Seen.USD != nil || m.Said.USD != nil
}
