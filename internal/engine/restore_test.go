package engine

import (
	"os"
	"testing"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// What a sandbox keeps is looked for anew where its files are about to be others, and not
// where nothing comes of that.
func TestForgetsDisk(t *testing.T) {
	e, sb := newEngine(t), wish(t.TempDir())
	must(t, e.Create(t.Context(), sb))
	d := e.Store.Sandbox(sb.ID)
	must(t, store.WriteJSON(d.Status(), spec.Status{Version: spec.Version, State: spec.Stopped, Disk: &spec.DiskUse{}}))
	_, mine, err := e.openCheckpoints(sb)
	must(t, err)
	defer mine.Unlock()
	keep := func() error {
		_, err := e.keepBefore(sb, checkpoint.Point{Name: "there"}, e.kept(sb, d), false)
		return err
	}
	must(t, os.Mkdir(d.ReviewLock(), 0o700)) // nobody can hold it
	if err := keep(); err == nil || d.ReadStatus().Disk == nil {
		t.Errorf("%v, %+v", err, d.ReadStatus().Disk)
	}
	must(t, os.Remove(d.ReviewLock()))
	if err := keep(); err != nil || d.ReadStatus().Disk != nil {
		t.Errorf("%v, %+v", err, d.ReadStatus().Disk)
	}
}
