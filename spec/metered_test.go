package spec

import (
	"encoding/json"
	"testing"
)

// TestMetered checks that usage unknown to one side is not counted as zero, and that a sum reports
// its gaps.
func TestMetered(t *testing.T) {
	seen := func(tokens int64, usd float64, unpriced, unseen int64) *BillItem {
		return &BillItem{Answers: 1, Tokens: Tokens{Input: tokens, Cached: 999}, USD: usd, Unpriced: unpriced, Unseen: unseen}
	}
	both := Meter(seen(100, 1, 0, 0), &Claimed{Tokens: 100, USD: 1})
	less := Meter(seen(100, 1, 0, 0), &Claimed{Tokens: 90, USD: 1})
	near := Meter(seen(100, 1, 0, 0), &Claimed{Tokens: 91, USD: 1})
	for name, c := range map[string]struct {
		works []Metered
		want  string
	}{
		"no work": {nil, `{"seen":{"tokens":null,"usd":null},"said":{"tokens":null,"usd":null},"differ":false}`},
		"both":    {[]Metered{both, both}, `{"seen":{"tokens":200,"usd":2},"said":{"tokens":200,"usd":2},"differ":false}`},
		"less":    {[]Metered{less}, `{"seen":{"tokens":100,"usd":1},"said":{"tokens":90,"usd":1},"differ":true}`},
		"near":    {[]Metered{near}, `{"seen":{"tokens":100,"usd":1},"said":{"tokens":91,"usd":1},"differ":false}`},
		"nobody":  {[]Metered{Meter(nil, nil)}, `{"seen":{"tokens":null,"usd":null},"said":{"tokens":null,"usd":null},"differ":false}`},
		"not seen": {
			[]Metered{Meter(nil, &Claimed{Tokens: 7, USD: .5})},
			`{"seen":{"tokens":null,"usd":null},"said":{"tokens":7,"usd":0.5},"differ":false}`,
		},
		"not seen, then seen": {
			[]Metered{Meter(nil, &Claimed{Tokens: 7}), both},
			`{"seen":{"tokens":100,"usd":1,"tokens_partly":true,"usd_partly":true},"said":{"tokens":107,"usd":1,"usd_partly":true},"differ":false}`,
		},
		"seen, then nobody": {
			[]Metered{less, Meter(nil, nil)},
			`{"seen":{"tokens":100,"usd":1,"tokens_partly":true,"usd_partly":true},"said":{"tokens":90,"usd":1,"tokens_partly":true,"usd_partly":true},"differ":false}`,
		},
		"without a price":         {[]Metered{Meter(seen(100, 0, 100, 0), nil)}, `{"seen":{"tokens":100,"usd":null,"usd_partly":true},"said":{"tokens":null,"usd":null},"differ":false}`},
		"some without a price":    {[]Metered{Meter(seen(100, 1, 50, 0), nil)}, `{"seen":{"tokens":100,"usd":1,"usd_partly":true},"said":{"tokens":null,"usd":null},"differ":false}`},
		"some nobody could read":  {[]Metered{Meter(seen(100, 1, 0, 1), nil)}, `{"seen":{"tokens":100,"usd":1,"tokens_partly":true,"usd_partly":true},"said":{"tokens":null,"usd":null},"differ":false}`},
		"nothing could be read":   {[]Metered{Meter(&BillItem{Unseen: 2}, nil)}, `{"seen":{"tokens":null,"usd":null,"tokens_partly":true,"usd_partly":true},"said":{"tokens":null,"usd":null},"differ":false}`},
		"refused before anything": {[]Metered{Meter(&BillItem{}, nil)}, `{"seen":{"tokens":0,"usd":0},"said":{"tokens":null,"usd":null},"differ":false}`},
		"a claim below nothing":   {[]Metered{Meter(nil, &Claimed{Tokens: -7, USD: -1})}, `{"seen":{"tokens":null,"usd":null},"said":{"tokens":0,"usd":null},"differ":false}`},
	} {
		var sum Metered
		for _, m := range c.works {
			sum.Add(m)
		}
		got, err := json.Marshal(sum)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}
