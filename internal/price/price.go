// Package price computes the cost of models.
package price

import (
	"fmt"
	"math"
	"path"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// Price is the price of a million tokens of a model, in USD.
type Price struct {
	Model      string  `json:"model" yaml:"model"` // its name; * stands for any characters
	Input      float64 `json:"input" yaml:"input"`
	Cached     float64 `json:"cached" yaml:"cached"`
	CacheWrite float64 `json:"cache_write" yaml:"cache_write"`
	Output     float64 `json:"output" yaml:"output"`
	// Long is the number of input tokens from which on a question costs twice as much, and its answer
	// one and a half times as much; 0: never.
	Long int64 `json:"long,omitempty" yaml:"long"`

	longTimes float64 // factor for the whole cost of such a question; 0: as Long says
}

// Check returns an error if a price is invalid.
func (p Price) Check() error {
	if _, err := path.Match(p.Model, ""); err != nil || p.Model == "" {
		return fmt.Errorf("%q names no model", p.Model)
	}
	for _, n := range []float64{p.Input, p.Cached, p.CacheWrite, p.Output, float64(p.Long)} {
		if !(n >= 0) || math.IsInf(n, 0) {
			return fmt.Errorf("%s: %v is not an amount", p.Model, n)
		}
	}
	return nil
}

// List is a list of prices, of which the first match counts.
type List []Price

// Of returns the price of a model, by the model's own name. The list may omit a prefix that ends with a
// slash, and a date at the end.
func (l List) Of(model string) (Price, bool) {
	model = strings.ToLower(model)
	if _, after, ok := strings.Cut(model, "/"); ok && after != "" {
		model = after
	}
	undated := withoutDate(model)
	for _, p := range l {
		for _, name := range []string{model, undated} {
			if ok, err := path.Match(p.Model, name); ok && err == nil {
				return p, true
			}
		}
	}
	return Price{}, false
}

// Dearest returns the highest price in the list. ok is false if the list is empty.
func (l List) Dearest() (dearest Price, ok bool) {
	for _, p := range l {
		if p.Output > dearest.Output {
			dearest = p
		}
	}
	return dearest, len(l) > 0
}

// withoutDate returns a name without a trailing date: -20260423 or -2026-04-23.
func withoutDate(model string) string {
	for _, form := range []string{"-00000000", "-0000-00-00"} {
		if n := len(model) - len(form); n > 0 && isDated(model[n:], form) {
			return model[:n]
		}
	}
	return model
}

func isDated(text, form string) bool {
	for i := range len(form) {
		if digit := text[i] >= '0' && text[i] <= '9'; digit != (form[i] == '0') || !digit && text[i] != form[i] {
			return false
		}
	}
	return true
}

// USD returns the cost of one answer's tokens. Hour counts the tokens of its cache writes that the
// cache keeps for an hour: these cost twice as much as uncached input.
func (p Price) USD(t spec.Tokens, hour int64) float64 {
	hour = min(hour, t.CacheWrite)
	in := float64(t.Input+2*hour)*p.Input + float64(t.Cached)*p.Cached + float64(t.CacheWrite-hour)*p.CacheWrite
	out := float64(t.Output) * p.Output
	if p.Long > 0 && t.Input+t.Cached+t.CacheWrite > p.Long {
		more, longer := 2.0, 1.5
		if p.longTimes > 0 {
			more, longer = p.longTimes, p.longTimes
		}
		in, out = more*in, longer*out
	}
	return (in + out) / 1e6
}
