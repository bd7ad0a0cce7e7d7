package flow

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/store"
)

// TestDiskGone checks that a flow fails if its disk goes away, and can be resumed when the disk is
// back.
func TestDiskGone(t *testing.T) {
	b := begin(t, three, nil)
	runs, into, away := filepath.Join(t.TempDir(), "runs"), t.TempDir(), t.TempDir()
	inputs := map[string][]byte{"content.md": []byte("what article says")}
	var err error
	b.run, err = run.CreateFlow(runs, into, b.run.ID, b.plan, func(dir string) error { return Fill(dir, inputs) })
	must(t, err)
	about, written := filepath.Join(runs, b.run.ID, "run.json"), map[string]any{}
	must(t, store.ReadJSON(about, &written))
	written["place"] = map[string]any{"device": 0, "inode": 0}
	must(t, store.WriteJSON(about, written))
	b.do = func(job Job) Done {
		must(t, os.Rename(b.run.Dir(), filepath.Join(away, b.run.ID)))
		return fine(job)
	}
	b.want(b.carry(), run.Failed, "error", "one.1")
	must(t, os.Rename(filepath.Join(away, b.run.ID), b.run.Dir()))
	b.do = fine
	b.want(b.carry(), run.Completed, "done", "one.2 two.1 three.1")
}

// TestRemoved checks that a flow ends if its files are removed, while it runs or later, and that it
// makes none of them again.
func TestRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		hang  bool
		steps string
	}{"between steps": {false, "one.1"}, "at work": {true, "one.1"}} {
		t.Run(name, func(t *testing.T) {
			b := begin(t, three, nil)
			b.do = func(job Job) Done {
				must(t, os.RemoveAll(b.run.Dir()))
				return fine(job)
			}
			b.hang = c.hang
			into := t.TempDir()
			inputs := map[string][]byte{"content.md": []byte("what article says")}
			var err error
			b.run, err = run.CreateFlow(filepath.Join(t.TempDir(), "runs"), into, b.run.ID, b.plan, func(dir string) error { return Fill(dir, inputs) })
			must(t, err)
			s := b.carry()
			b.want(s, run.Cancelled, ReasonRemoved, c.steps)
			if _, err := os.Lstat(b.run.Dir()); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("its directory: %v", err)
			}
		})
	}
}
