package runner

import (
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/agent/transcript"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/spec"
)

// TestMeter checks that the gateway's count outweighs an agent's own figures.
func TestMeter(t *testing.T) {
	began := time.Now()
	until := began.Add(time.Hour)
	bill := func(tokens int64, limited *spec.Limited) spec.Bill {
		return spec.Bill{Models: []spec.BillItem{{Model: "m", Answers: tokens / 100, Tokens: spec.Tokens{Input: tokens}, USD: float64(tokens) / 100}}, Limited: limited}
	}
	old := &spec.Limited{At: began.Add(-time.Minute), Until: until}
	now := &spec.Limited{At: began.Add(time.Second), Until: until}
	silent := &spec.Limited{At: began.Add(time.Second)}
	over := &spec.Limited{At: began.Add(time.Second), Until: until, Over: true}
	full := func(b spec.Bill, l *spec.Limited) spec.Bill {
		b.Overloaded = l
		return b
	}
	for name, c := range map[string]struct {
		says    loop.Work
		after   spec.Bill
		verdict string
		tokens  int64
		until   time.Time
		full    bool
	}{
		"nobody was asked":           {loop.Work{Verdict: spec.VerdictLimit, Tokens: 7, Until: until}, bill(100, old), spec.VerdictLimit, 7, until, false},
		"it says less":               {loop.Work{Verdict: spec.VerdictOK, Tokens: 7}, bill(300, nil), spec.VerdictOK, 200, time.Time{}, false},
		"it says more":               {loop.Work{Verdict: spec.VerdictOK, Tokens: 700}, bill(300, nil), spec.VerdictOK, 700, time.Time{}, false},
		"a limit nobody saw":         {loop.Work{Verdict: spec.VerdictLimit, Until: until}, bill(200, old), spec.VerdictFailed, 100, time.Time{}, false},
		"a limit that it hides":      {loop.Work{Verdict: spec.VerdictFailed}, bill(200, now), spec.VerdictLimit, 100, until, false},
		"a limit at once":            {loop.Work{Verdict: spec.VerdictFailed}, bill(100, now), spec.VerdictLimit, 0, until, false},
		"a limit it got over":        {loop.Work{Verdict: spec.VerdictOK}, bill(200, now), spec.VerdictOK, 100, time.Time{}, false},
		"until when only it says":    {loop.Work{Verdict: spec.VerdictLimit, Until: until}, bill(200, silent), spec.VerdictLimit, 100, until, false},
		"until when the server says": {loop.Work{Verdict: spec.VerdictLimit, Until: began.Add(24 * time.Hour)}, bill(200, now), spec.VerdictLimit, 100, until, false},

		"a limit, got over, then a crash":  {loop.Work{Verdict: spec.VerdictFailed}, bill(200, over), spec.VerdictFailed, 100, time.Time{}, false},
		"a limit of one of two models":     {loop.Work{Verdict: spec.VerdictLimit}, bill(200, over), spec.VerdictLimit, 100, until, false},
		"overloaded":                       {loop.Work{Verdict: spec.VerdictFailed}, full(bill(200, nil), silent), spec.VerdictLimit, 100, time.Time{}, true},
		"overloaded at once, for so long":  {loop.Work{Verdict: spec.VerdictFailed}, full(bill(100, old), now), spec.VerdictLimit, 0, until, true},
		"overloaded, but it got over that": {loop.Work{Verdict: spec.VerdictOK}, full(bill(200, nil), now), spec.VerdictOK, 100, time.Time{}, false},
		"overloaded, then a crash":         {loop.Work{Verdict: spec.VerdictFailed}, full(bill(200, nil), over), spec.VerdictFailed, 100, time.Time{}, false},
		"overloaded before":                {loop.Work{Verdict: spec.VerdictFailed}, full(bill(200, nil), old), spec.VerdictFailed, 100, time.Time{}, false},
		"overloaded, and says of a limit":  {loop.Work{Verdict: spec.VerdictLimit, Until: until}, full(bill(200, nil), silent), spec.VerdictLimit, 100, time.Time{}, true},
		"a limit, then overloaded":         {loop.Work{Verdict: spec.VerdictFailed}, full(bill(200, now), silent), spec.VerdictLimit, 100, until, false},
	} {
		w := c.says
		meterWork(&w, bill(100, old), c.after, began)
		if w.Verdict != c.verdict || w.Tokens != c.tokens || !w.Until.Equal(c.until) || w.Overloaded != c.full {
			t.Errorf("%s: %+v", name, w)
		}
	}
}

// TestMeterKeepsBoth checks that an agent's own figures are kept beside the gateway's; an
// unreadable figure has no number.
func TestMeterKeepsBoth(t *testing.T) {
	seen := spec.Bill{Models: []spec.BillItem{{Answers: 1, Tokens: spec.Tokens{Input: 100}}}}
	for says, counts := range map[int64]int64{7: 100, 100: 100, 700: 700} {
		said := spec.Claimed{Tokens: says}
		w := loop.Work{Verdict: spec.VerdictOK, Tokens: says, Said: &said}
		meterWork(&w, spec.Bill{}, seen, time.Now())
		if w.Seen == nil || w.Seen.Counted() != 100 || w.Tokens != counts || *w.Said != (spec.Claimed{Tokens: says}) {
			t.Errorf("it says %d: %+v, said %+v", says, w, w.Said)
		}
	}
	unread := spec.Bill{Models: []spec.BillItem{{Unseen: 1}}}
	w := loop.Work{Verdict: spec.VerdictLimit, Tokens: 7}
	if meterWork(&w, spec.Bill{}, unread, time.Now()); w.Seen == nil || w.Seen.Unseen != 1 || w.Tokens != 7 || w.Verdict != spec.VerdictLimit {
		t.Errorf("over a WebSocket: %+v", w)
	}
	unpriced := spec.Bill{Models: []spec.BillItem{{Unpriced: 7}}}
	w = loop.Work{Verdict: spec.VerdictFailed} // the model was asked before, so the gateway refuses all further requests
	if meterWork(&w, unpriced, unpriced, time.Now()); !w.Unlisted || w.Seen != nil {
		t.Errorf("a model without a price: %+v", w)
	}
	if w := (&report{}).agentUsage(); w.Said != nil {
		t.Errorf("one that says nothing: %+v", w.Said)
	}
	if w := (&report{digest: transcript.Digest{Usage: spec.TranscriptUsage{Cached: 5}}}).agentUsage(); w.Said == nil || w.Said.Tokens != 0 {
		t.Errorf("one of which a cache had all: %+v", w.Said)
	}
}
