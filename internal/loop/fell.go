package loop

import (
	"context"
	"errors"
	"fmt"

	"github.com/bothy-dev/bothy/internal/run"
)

// ErrFell says that a sandbox ended under the agent: its wall crashed, or was killed. The agent is
// not to blame, and the work does not count as an iteration.
var ErrFell = errors.New("the sandbox ended under the agent")

// maxFalls is how often in a row an iteration is begun again for that. The agent's own work may be
// what crashes the sandbox.
const maxFalls = 3

// fell reports whether that cut the work short, and not a user who ended the loop meanwhile.
func fell(ctx context.Context, w *Work) bool {
	if ctx.Err() != nil {
		w.Fell = ""
	}
	return w.Fell != ""
}

// fall counts it.
func (s *State) fall(w Work) {
	if w.Fell != "" {
		s.Falls, s.fellBy = s.Falls+1, w.Fell
	}
}

// fallen ends a loop whose sandbox keeps crashing.
func fallen(s *State) *End {
	if s.Falls < maxFalls {
		return nil
	}
	return &End{Status: run.Failed, Reason: reasonFell, Detail: fmt.Sprintf("%d times in a row, now: %s", s.Falls, s.fellBy)}
}

// reasonFell is why a loop failed whose sandbox ended under the agent again and again.
const reasonFell = "sandbox_crashed"
