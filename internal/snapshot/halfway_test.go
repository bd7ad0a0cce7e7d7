package snapshot

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// wantHalf checks that no operation trusts a sandbox's files.
func (b reviewedBox) wantHalf(sb *spec.Sandbox) {
	b.Helper()
	w := review.Of(sb, b.directory(sb).Review)[0]
	_, reviewed := b.engine.Changes().Reviewed(sb)
	_, applied := b.engine.Changes().Apply(sb, w, nil)
	_, kept := b.Checkpoint(b.Context(), sb, "", "test", false)
	_, saved := b.engine.Templates().Save(b.Context(), sb, "half")
	for what, err := range map[string]error{"review": reviewed, "apply": applied, "discard": b.engine.Changes().DiscardAll(sb, w), "checkpoint": kept, "template": saved} {
		if !errors.Is(err, spec.ErrConflict) || spec.Hint(err) == "" {
			b.Errorf("%s says %v", what, err)
		}
	}
	if !b.engine.Changes().Pending(sb) {
		b.Error("nothing is said to wait in it")
	}
}

// TestReviewWaitsForRestore checks that a half-restored layer is neither shown nor applied nor
// discarded.
func TestReviewWaitsForRestore(t *testing.T) {
	b := newReviewedBox(t)
	b.write(b.up, "file", "one")
	p := b.keep()
	must(t, os.Remove(filepath.Join(b.up, "file")))
	shelf, mine, err := b.openCheckpoints(b.sb)
	must(t, err)
	full := errors.New("the disk is full")
	if _, err := shelf.Restore(p, b.sourcesIn(b.sb, b.directory(b.sb)), func() error { return full }); !errors.Is(err, full) {
		t.Fatal(err)
	}
	if _, err := b.engine.Changes().Reviewed(b.sb); !errors.Is(err, spec.ErrConflict) || spec.Hint(err) != "try again in a moment" {
		t.Errorf("while somebody is at it, it says %v", err)
	}
	mine.Unlock()
	b.wantHalf(b.sb)
	lock, err := store.TryLock(b.directory(b.sb).Lock())
	must(t, err)
	must(t, b.engine.BeforeStart(b.sb))
	lock.Unlock()
	_, err = b.engine.Changes().Reviewed(b.sb)
	must(t, err)
	b.want(b.up, "file", "one")
}

// TestHandOutCutShort checks that files of an interrupted handover are not trusted either, and that
// the sandbox does not start. It is whole once the handover was repeated.
func TestHandOutCutShort(t *testing.T) {
	b := newReviewedBox(t)
	b.write(b.up, "file", "one")
	p := b.keep()
	to := wish(b.sb.Workspaces[0].Source)
	to.WorkspaceMode = spec.WorkspaceReview
	must(t, b.engine.Create(t.Context(), to))
	stone := filepath.Join(b.Checkpoints(b.sb).Dir, "known-"+to.ID, "stone")
	must(t, os.MkdirAll(stone, 0o700))
	if err := NewExchange(b.Snapshots).HandOut(t.Context(), b.sb, p, to); err == nil {
		t.Fatal("it was handed out")
	}
	b.wantHalf(to)
	if err := b.engine.BeforeStart(to); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("a start says %v", err)
	}
	if _, err := NewExchange(b.Snapshots).HandIn(t.Context(), b.sb, to, "test"); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("handing it in says %v", err)
	}
	must(t, os.RemoveAll(filepath.Dir(stone)))
	must(t, NewExchange(b.Snapshots).HandOut(t.Context(), b.sb, p, to))
	list, err := b.engine.Changes().Reviewed(to)
	must(t, err)
	b.want(list[0].Layer.Upper(), "file", "one")
}
