package cli

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// A link that the inside made in a workspace, in the place of a directory that is named to
// copy to, leads nowhere else.
func TestOpenPlace(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work, outside := filepath.Join(base, "work"), filepath.Join(base, "outside")
	for _, d := range []string{work + "/sub/deep", outside + "/deep"} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		work + "/out": outside, work + "/up": "../outside", work + "/in": "sub", work + "/sub/out": outside,
		base + "/mine": outside, base + "/project": work,
	} {
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	live := &spec.Sandbox{Workspaces: []spec.Mount{{Source: work, Target: work}}}
	volume := &spec.Sandbox{Volumes: []spec.Mount{{Source: work, Target: "/data"}}}
	reviewed := &spec.Sandbox{Workspaces: live.Workspaces, WorkspaceMode: spec.WorkspaceReview}
	for _, tt := range []struct {
		sb    *spec.Sandbox
		dir   string
		wrong error
	}{
		{live, "work", nil},
		{live, "work/sub/deep", nil},
		{live, "work/in/deep", nil},
		{live, "project/in", nil},
		{live, "outside", nil},
		{live, "mine/deep", nil},
		{live, "work/../mine", nil},
		{live, "work/out", spec.ErrDenied},
		{live, "work/out/deep", spec.ErrDenied},
		{live, "work/up", spec.ErrDenied},
		{live, "work/in/out", spec.ErrDenied},
		{live, "project/out/deep", spec.ErrDenied},
		{volume, "work/out", spec.ErrDenied},
		{reviewed, "work/out", nil},
		{live, "work/none", os.ErrNotExist},
		{live, "none", os.ErrNotExist},
	} {
		root, err := openPlace(tt.sb, filepath.Join(base, tt.dir))
		if !errors.Is(err, tt.wrong) {
			t.Errorf("%s: %v, want %v", tt.dir, err, tt.wrong)
		}
		if err == nil {
			_ = root.Close()
		}
	}
}
