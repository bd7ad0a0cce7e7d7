package snapshot

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// TestForgetsDisk checks that the use of the disk is measured again if a sandbox's files are about
// to change, and not if the attempt fails.
func TestForgetsDisk(t *testing.T) {
	s, sb := newSnapshots(t), wish(t.TempDir())
	must(t, s.engine.Create(t.Context(), sb))
	d := s.directory(sb)
	must(t, store.WriteJSON(d.Status(), spec.Status{Version: spec.Version, State: spec.Stopped, Disk: &spec.DiskUse{}}))
	_, mine, err := s.openCheckpoints(sb)
	must(t, err)
	defer mine.Unlock()
	keep := func() error {
		_, err := s.keepPresent(sb, checkpoint.Point{Name: "there"}, s.sourcesIn(sb, d), false)
		return err
	}
	must(t, os.Mkdir(d.ReviewLock(), 0o700)) // no process can hold it
	if err := keep(); err == nil || d.ReadStatus().Disk == nil {
		t.Errorf("%v, %+v", err, d.ReadStatus().Disk)
	}
	must(t, os.Remove(d.ReviewLock()))
	if err := keep(); err != nil || d.ReadStatus().Disk != nil {
		t.Errorf("%v, %+v", err, d.ReadStatus().Disk)
	}
}

// TestRestoreWorkspaceAway checks that a restore begins nothing while the workspace is moved away:
// otherwise it would be finished, without a request, once the workspace is back. A restore that does not
// need the workspace works.
func TestRestoreWorkspaceAway(t *testing.T) {
	s, dir, sb := newMovable(t)
	b := reviewedBox{t, s, sb, dir, s.directory(sb).Home()}
	must(t, os.MkdirAll(b.home, 0o700))
	b.write(b.home, "file", "one")
	b.write(dir, "file", "one")
	p := b.keep()
	b.write(b.home, "file", "two")
	b.write(dir, "file", "two")
	refused := func(class error) {
		t.Helper()
		_, err := b.Checkpoint(t.Context(), sb, "", "test", false)
		if !errors.Is(err, class) || spec.Hint(err) == "" {
			t.Errorf("a checkpoint says %v", err)
		}
		for _, o := range []RestoreOptions{{}, {Discard: true}} {
			if r, err := b.Restore(t.Context(), sb, p, o); !errors.Is(err, class) || !strings.Contains(spec.Hint(err), "put it back") || r.Before != nil {
				t.Errorf("with %+v going back says %v", o, err)
			}
			must(t, b.engine.Whole(sb))
		}
	}
	must(t, os.Rename(dir, dir+"-away"))
	refused(spec.ErrNotFound)
	r, err := b.Restore(t.Context(), sb, p, RestoreOptions{NoWorkspace: true})
	must(t, err)
	b.want(b.home, "file", "one")
	must(t, os.Symlink(dir+"-away", dir))
	refused(spec.ErrDenied)
	must(t, os.Remove(dir))
	must(t, os.Rename(dir+"-away", dir))
	_, err = b.Restore(t.Context(), sb, *r.Before, RestoreOptions{})
	must(t, err)
	b.want(b.home, "file", "two")
	b.want(dir, "file", "two")
}

// TestFinishWorkspaceAway checks that the error asks for a directory that was moved away during a
// restore, and not for more room.
func TestFinishWorkspaceAway(t *testing.T) {
	s, dir, sb := newMovable(t)
	p, err := s.Checkpoint(t.Context(), sb, "", "test", false)
	must(t, err)
	shelf := s.Checkpoints(sb)
	full := errors.New("the disk is full")
	if _, err := shelf.Restore(p, s.sourcesIn(sb, s.directory(sb)), func() error { return full }); !errors.Is(err, full) {
		t.Fatal(err)
	}
	must(t, os.Remove(dir))
	if err := s.finishRestore(sb); !errors.Is(err, spec.ErrNotFound) || !strings.Contains(spec.Hint(err), "put it back") {
		t.Errorf("a start says %v", err)
	}
}
