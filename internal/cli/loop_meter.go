package cli

import (
	"time"

	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/spec"
)

// meter puts what the gateway has counted beside what the agent says of itself: the
// agent may be wrong, or lie. Before and after are the bills around the work that
// began then.
func meter(w *loop.Work, before, after spec.Bill, began time.Time) {
	seen := after.Since(before)
	limited := after.Limited
	if limited != nil && limited.At.Before(began) {
		limited = nil
	}
	if seen.Answers == 0 && limited == nil {
		return // it asks somebody whom nobody here knows, or nobody
	}
	w.Seen = &seen
	w.Tokens, w.USD = max(w.Tokens, seen.Counted()), max(w.USD, seen.USD)
	switch {
	case w.Verdict == spec.VerdictLimit && limited == nil:
		w.Verdict, w.Until = spec.VerdictFailed, time.Time{}
		w.Error = "it says that its allowance is used up, and no provider has refused a question: " + w.Error
	case w.Verdict != spec.VerdictOK && limited != nil:
		w.Verdict = spec.VerdictLimit
		if !limited.Until.IsZero() {
			w.Until = limited.Until
		}
	}
}
