package snapshot

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/spec"
)

// reviewedBox is a sandbox with a layer over its workspace, in which nothing runs.
type reviewedBox struct {
	*testing.T
	*Snapshots
	sb       *spec.Sandbox
	up, home string
}

func newReviewedBox(t *testing.T) reviewedBox {
	s := newSnapshots(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	sb := wish(dir)
	sb.WorkspaceMode = spec.WorkspaceReview
	must(t, s.engine.Create(t.Context(), sb))
	must(t, NewExchange(s).ReadyToJoin(t.Context(), sb))
	list, err := s.engine.Changes().Reviewed(sb)
	must(t, err)
	return reviewedBox{t, s, sb, list[0].Layer.Upper(), s.directory(sb).Home()}
}

func (b reviewedBox) write(dir, name, text string) {
	b.Helper()
	must(b.T, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

func (b reviewedBox) keep() checkpoint.Point {
	b.Helper()
	p, err := b.Checkpoint(b.Context(), b.sb, "", "test", false)
	must(b.T, err)
	return p
}

// want checks the text of a file; "" means that the file does not exist.
func (b reviewedBox) want(dir, name, text string) {
	b.Helper()
	if got, _ := os.ReadFile(filepath.Join(dir, name)); string(got) != text {
		b.Errorf("%s is %q, want %q", name, got, text)
	}
}

// TestReadyToJoinKnowsNames checks that ReadyToJoin records the host's names. They tell whether a
// file from another sandbox is new, or replaces one that the host deleted.
func TestReadyToJoinKnowsNames(t *testing.T) {
	b := newReviewedBox(t)
	list, err := b.engine.Changes().Reviewed(b.sb)
	must(t, err)
	if _, err := os.Stat(filepath.Join(list[0].Layer.Dir, "names")); err != nil {
		t.Error(err)
	}
}

// TestSettle checks that Settle changes the workspaces, and restores nothing else.
func TestSettle(t *testing.T) {
	b := newReviewedBox(t)
	b.write(b.home, "mine", "before")
	ours := b.keep()
	b.write(b.up, "done", "done")
	done := b.keep()
	must(t, os.Remove(filepath.Join(b.up, "done")))
	b.write(b.home, "mine", "since")
	moved, err := NewExchange(b.Snapshots).Settle(t.Context(), b.sb, ours, done)
	if must(t, err); moved {
		t.Error("it is said to be changed")
	}
	b.want(b.up, "done", "done")
	b.want(b.home, "mine", "since")
	p := b.keep()
	changes, err := b.Changes(b.sb, done, p)
	if must(t, err); len(changes) != 1 || changes[0].Tree != "home" {
		t.Errorf("what is kept then is otherwise: %v", changes)
	}
}

// TestSettleMoved checks that Settle does not overwrite a change that was made meanwhile.
func TestSettleMoved(t *testing.T) {
	b := newReviewedBox(t)
	ours := b.keep()
	b.write(b.up, "file", "theirs")
	done := b.keep()
	b.write(b.up, "file", "yours")
	moved, err := NewExchange(b.Snapshots).Settle(t.Context(), b.sb, ours, done)
	if must(t, err); !moved {
		t.Error("it is not said to be changed")
	}
	b.want(b.up, "file", "yours")
}
