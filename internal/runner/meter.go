package runner

import (
	"time"

	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/spec"
)

// meterWork adds the gateway's count to the agent's own figures: the agent may be wrong, or lie. before
// and after are the bills around the work, which began at began. Only the last refusal by a model
// counts: the agent did not fail because of a refusal that it got over.
func meterWork(w *loop.Work, before, after spec.Bill, began time.Time) {
	w.Unlisted = after.Total().Unpriced > 0
	seen := after.Since(before)
	if seen.Answers > 0 || seen.Unseen > 0 {
		w.Seen = &seen
	}
	limited, overloaded := refusedSince(after.Limited, began), refusedSince(after.Overloaded, began)
	if seen.Answers == 0 && limited == nil && overloaded == nil {
		return // it asks an unknown provider, or none
	}
	w.Seen = &seen
	w.Tokens, w.USD = max(w.Tokens, seen.Counted()), max(w.USD, seen.USD)
	switch {
	case w.Verdict == spec.VerdictOK:
	case limited != nil && (!limited.Over || w.Verdict == spec.VerdictLimit): // another model may have answered
		w.Verdict = spec.VerdictLimit
		if !limited.Until.IsZero() {
			w.Until = limited.Until
		}
	case overloaded != nil && !overloaded.Over:
		w.Verdict, w.Overloaded, w.Until = spec.VerdictLimit, true, overloaded.Until
	case w.Verdict == spec.VerdictLimit:
		w.Verdict, w.Until = spec.VerdictFailed, time.Time{}
		w.Error = "it says that its allowance is used up, and no provider has refused a question: " + w.Error
	}
}

// refusedSince returns a provider's refusal, unless it happened before the work.
func refusedSince(l *spec.Limited, began time.Time) *spec.Limited {
	if l == nil || l.At.Before(began) {
		return nil
	}
	return l
}
