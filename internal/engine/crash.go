package engine

import (
	"os"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/store"
)

// oldKeeperLog keeps the log of a keeper that died.
const oldKeeperLog = "keeper.log.1"

// keepLastWords renames the log of a keeper that died, so that it outlives the next start, and adds
// the crash to the sandbox's events.
func keepLastWords(d store.Sandbox, reason string) {
	_ = os.Rename(d.Log("keeper.log"), d.Log(oldKeeperLog))
	events, err := audit.Open(d.Log("events.jsonl"), audit.Options{})
	if err != nil {
		return
	}
	_ = events.Write("crashed", map[string]any{"reason": reason})
	_ = events.Close()
}
