package snapshot

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// TestChangedBeneath checks that files below a layer, and files that are only read, are judged by
// their change time (ctime), whatever their modification time is. Files that a sandbox writes to
// directly are in its checkpoints.
func TestChangedBeneath(t *testing.T) {
	dir, only := t.TempDir(), t.TempDir()
	for _, path := range []string{filepath.Join(dir, "sub", "file"), filepath.Join(only, "read")} {
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, nil, 0o644))
		must(t, os.Chtimes(path, time.Time{}, time.Unix(1_000_000_000, 0)))
	}
	must(t, os.Mkdir(filepath.Join(dir, "empty"), 0o755))
	s := newSnapshots(t)
	mounts := []spec.Mount{{Source: dir, Target: dir}, {Source: only, Target: only, ReadOnly: true}}
	now := time.Now()
	for _, c := range []struct {
		mode  string
		since time.Time
		want  []string
	}{
		{spec.WorkspaceReview, now.Add(-time.Hour), []string{filepath.Join(dir, "sub", "file"), filepath.Join(only, "read")}},
		{spec.WorkspaceReview, now.Add(time.Hour), nil},
		{spec.WorkspaceLive, now.Add(-time.Hour), []string{filepath.Join(only, "read")}},
	} {
		got, err := s.ChangedBeneath(&spec.Sandbox{WorkspaceMode: c.mode, Workspaces: mounts}, c.since)
		if must(t, err); !slices.Equal(got, c.want) {
			t.Errorf("%s, since %s: %q, want %q", c.mode, c.since.Sub(now), got, c.want)
		}
	}
	must(t, os.Remove(filepath.Join(dir, "sub", "file")))
	if got, err := s.ChangedBeneath(&spec.Sandbox{WorkspaceMode: spec.WorkspaceReview, Workspaces: mounts[:1]}, now.Add(-time.Hour)); err != nil || !slices.Contains(got, filepath.Join(dir, "sub")) {
		t.Errorf("a file was removed: %q, %v", got, err)
	}
}
