package review

import (
	"testing"

	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/risk"
)

// TestMatters checks which of git's own files hold work.
func TestMatters(t *testing.T) {
	file := beneath.Entry{Form: beneath.File, Mode: 0o644}
	for path, want := range map[string]bool{
		".git/refs/heads/main": true, ".git/packed-refs": true, ".git/HEAD": true, "sub/.GIT/HEAD": true, ".git/worktrees/x/HEAD": true,
		".git/index": false, ".git/logs/HEAD": false, ".git/ORIG_HEAD": false, ".git/objects/ab/cd": false,
	} {
		c := Change{Path: path, Kind: Modified, New: file}
		if c.Flags = (risk.Repositories{}).Flags(risk.Case{Path: path, New: file}); c.Matters() != want {
			t.Errorf("%s matters: %v", path, c.Matters())
		}
	}
}
