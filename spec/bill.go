package spec

import (
	"math"
	"time"
)

// Tokens counts a model's input and output tokens.
type Tokens struct {
	Input      int64 `json:"input_tokens"`       // not from a cache
	Cached     int64 `json:"cached_tokens"`      // read from a cache
	CacheWrite int64 `json:"cache_write_tokens"` // written to a cache
	Output     int64 `json:"output_tokens"`      // including thinking
}

// Plus returns the sum.
func (t Tokens) Plus(o Tokens) Tokens {
	return Tokens{t.Input + o.Input, t.Cached + o.Cached, t.CacheWrite + o.CacheWrite, t.Output + o.Output}
}

// Minus returns the difference.
func (t Tokens) Minus(o Tokens) Tokens {
	return Tokens{t.Input - o.Input, t.Cached - o.Cached, t.CacheWrite - o.CacheWrite, t.Output - o.Output}
}

// Counted returns how many tokens count towards a [Budget]: all but cached ones.
func (t Tokens) Counted() int64 { return t.Input + t.CacheWrite + t.Output }

// Bill is the usage of the models that a sandbox asked, as its gateway read it from their answers.
type Bill struct {
	Models []BillItem `json:"models"` // sorted by their names
	// Limited is the last time that a provider reported a used-up allowance; nil: none did.
	Limited *Limited `json:"limited,omitempty"`
	// Overloaded is likewise the last time that a provider reported that it can answer no client at the
	// moment.
	Overloaded *Limited `json:"overloaded,omitempty"`
	// Failed is the last time that a request failed for any other reason: the provider refused it, for
	// example without a key (401), or could not be reached.
	Failed *Limited `json:"failed,omitempty"`
}

// Refusal returns the last of these since the given time, unless the provider has answered since. Nil:
// every provider has answered.
func (b Bill) Refusal(since time.Time) (last *Limited) {
	for _, l := range []*Limited{b.Limited, b.Overloaded, b.Failed} {
		if l != nil && !l.Over && !l.At.Before(since) && (last == nil || l.At.After(last.At)) {
			last = l
		}
	}
	return last
}

// Limited is a refusal by a provider: because the client asked too much (429), because the provider was
// overloaded (502, 503, 504, 529), or for another reason.
type Limited struct {
	At    time.Time `json:"at"`
	Host  string    `json:"host"`
	Until time.Time `json:"until,omitzero"` // when to ask again; zero: the provider did not say
	Over  bool      `json:"over,omitempty"` // it has answered a request since
	// Status is the HTTP status; 0: the provider refused within an answer, or did not answer.
	Status int `json:"status,omitempty"`
	// Why says what happened to a request without an answer. Empty: the provider answered.
	Why string `json:"why,omitempty"`
}

// Claimed is the usage that an agent reports. It may be wrong.
type Claimed struct {
	Tokens int64   `json:"tokens"`
	USD    float64 `json:"usd"`
}

// BillItem is the usage of one model.
type BillItem struct {
	Model   string `json:"model"` // its own name; empty: no answer named one
	Answers int64  `json:"answers"`
	// Guessed is how many of the answers did not report their tokens, or broke off before: their tokens
	// are estimated from bytes.
	Guessed int64 `json:"guessed,omitempty"`
	// Unseen counts conversations in a protocol that the gateway cannot read. They add nothing to
	// the tokens.
	Unseen int64 `json:"unseen,omitempty"`
	Tokens
	USD      float64 `json:"usd"`                // of the tokens with a known price
	Unpriced int64   `json:"unpriced,omitempty"` // tokens without a known price
}

// Total returns the sum over all models.
func (b Bill) Total() (sum BillItem) {
	for _, m := range b.Models {
		sum.Answers += m.Answers
		sum.Guessed += m.Guessed
		sum.Unseen += m.Unseen
		sum.Tokens = sum.Plus(m.Tokens)
		sum.USD += m.USD
		sum.Unpriced += m.Unpriced
	}
	return sum
}

// Since returns the sum of the usage added since an earlier bill.
func (b Bill) Since(earlier Bill) BillItem {
	sum, was := b.Total(), earlier.Total()
	sum.Answers -= was.Answers
	sum.Guessed -= was.Guessed
	sum.Unseen -= was.Unseen
	sum.Tokens = sum.Minus(was.Tokens)
	sum.USD -= was.USD
	sum.Unpriced -= was.Unpriced
	return sum
}

// Budget bounds the model usage of a sandbox over its lifetime. Zero means unlimited.
type Budget struct {
	Tokens int64   `json:"tokens,omitempty"` // as counted by [Tokens.Counted]
	USD    float64 `json:"usd,omitempty"`
}

// Check refuses bounds that are not valid.
func (b Budget) Check() error {
	switch {
	case b.Tokens < 0:
		return Errorf(ErrUsage, "%s %d is negative", Option("max-tokens"), b.Tokens)
	case !(b.USD >= 0) || math.IsInf(b.USD, 0): // or NaN
		return Errorf(ErrUsage, "%s %v is not an amount of money", Option("max-cost"), b.USD)
	}
	return nil
}
