package cli

import (
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/spec"
)

// What the gateway has counted outweighs what an agent says of itself.
func TestMeter(t *testing.T) {
	began := time.Now()
	until := began.Add(time.Hour)
	bill := func(tokens int64, limited *spec.Limited) spec.Bill {
		return spec.Bill{Models: []spec.BillItem{{Model: "m", Answers: tokens / 100, Tokens: spec.Tokens{Input: tokens}, USD: float64(tokens) / 100}}, Limited: limited}
	}
	old := &spec.Limited{At: began.Add(-time.Minute), Until: until}
	now := &spec.Limited{At: began.Add(time.Second), Until: until}
	silent := &spec.Limited{At: began.Add(time.Second)}
	for name, c := range map[string]struct {
		says    loop.Work
		after   spec.Bill
		verdict string
		tokens  int64
		until   time.Time
	}{
		"nobody was asked":           {loop.Work{Verdict: spec.VerdictLimit, Tokens: 7, Until: until}, bill(100, old), spec.VerdictLimit, 7, until},
		"it says less":               {loop.Work{Verdict: spec.VerdictOK, Tokens: 7}, bill(300, nil), spec.VerdictOK, 200, time.Time{}},
		"it says more":               {loop.Work{Verdict: spec.VerdictOK, Tokens: 700}, bill(300, nil), spec.VerdictOK, 700, time.Time{}},
		"a limit nobody saw":         {loop.Work{Verdict: spec.VerdictLimit, Until: until}, bill(200, old), spec.VerdictFailed, 100, time.Time{}},
		"a limit that it hides":      {loop.Work{Verdict: spec.VerdictFailed}, bill(200, now), spec.VerdictLimit, 100, until},
		"a limit at once":            {loop.Work{Verdict: spec.VerdictFailed}, bill(100, now), spec.VerdictLimit, 0, until},
		"a limit it got over":        {loop.Work{Verdict: spec.VerdictOK}, bill(200, now), spec.VerdictOK, 100, time.Time{}},
		"until when only it says":    {loop.Work{Verdict: spec.VerdictLimit, Until: until}, bill(200, silent), spec.VerdictLimit, 100, until},
		"until when the server says": {loop.Work{Verdict: spec.VerdictLimit, Until: began.Add(24 * time.Hour)}, bill(200, now), spec.VerdictLimit, 100, until},
	} {
		w := c.says
		meter(&w, bill(100, old), c.after, began)
		if w.Verdict != c.verdict || w.Tokens != c.tokens || !w.Until.Equal(c.until) {
			t.Errorf("%s: %+v", name, w)
		}
	}
}
