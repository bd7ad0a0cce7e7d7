package flow

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/internal/run"
)

// A flow whose files somebody removes ends, at work or not, and makes none of them anew.
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
			b.run, err = run.CreateFlowIn(filepath.Join(t.TempDir(), "runs"), into, b.run.ID, b.plan, func(dir string) error { return Fill(dir, inputs) })
			must(t, err)
			s := b.carry()
			b.want(s, Cancelled, ReasonRemoved, c.steps)
			if _, err := os.Lstat(b.run.Dir()); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("its directory: %v", err)
			}
		})
	}
}
