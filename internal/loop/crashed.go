package loop

import (
	"context"
	"errors"
	"fmt"

	"github.com/bothy-dev/bothy/internal/run"
)

// ErrCrashed says that a sandbox ended under the agent: its wall crashed, or was killed. The agent is
// not to blame, and the work does not count as an iteration.
var ErrCrashed = errors.New("the sandbox ended under the agent")

// maxCrashes is how often in a row an iteration is repeated after a crash. The agent's own work may be
// the cause of the crashes.
const maxCrashes = 3

// sandboxCrashed reports whether a crash cut the work short, and not a user who ended the loop
// meanwhile.
func sandboxCrashed(ctx context.Context, w *Work) bool {
	if ctx.Err() != nil {
		w.Crashed = ""
	}
	return w.Crashed != ""
}

// countCrash counts a crash.
func (s *State) countCrash(w Work) {
	if w.Crashed != "" {
		s.Crashes, s.crashedBy = s.Crashes+1, w.Crashed
	}
}

// crashedTooOften ends a loop whose sandbox keeps crashing.
func crashedTooOften(s *State) *End {
	if s.Crashes < maxCrashes {
		return nil
	}
	return &End{Status: run.Failed, Reason: reasonCrashed, Detail: fmt.Sprintf("%d times in a row, now: %s", s.Crashes, s.crashedBy)}
}

// reasonCrashed is the reason of a loop that failed because its sandbox crashed again and again.
const reasonCrashed = "sandbox_crashed"
