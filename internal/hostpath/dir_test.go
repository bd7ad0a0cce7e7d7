package hostpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

func guardOf(sb *spec.Sandbox) *Guard {
	var list []Directory
	for _, m := range Live(sb) {
		list = append(list, Directory{Path: m.Source})
	}
	return NewGuard(list)
}

// TestOpenPlace checks that a link that the sandbox made in a workspace, in place of a directory to copy
// to, does not lead out.
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
		base + "/mine": outside, base + "/project": work, base + "/through": "work/out", base + "/deep": work + "/out/deep",
		base + "/sub": "work/sub", base + "/loop": "loop",
	} {
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(work+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(work+"/pipe", 0o600); err != nil {
		t.Fatal(err)
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
		{live, "through", spec.ErrDenied},
		{live, "deep", spec.ErrDenied},
		{live, "through/deep", spec.ErrDenied},
		{live, "sub/../out", spec.ErrDenied},
		{live, "work/sub/../../outside", spec.ErrDenied},
		{reviewed, "through", nil},
		{live, "loop", unix.ELOOP},
		{live, "work/file", unix.ENOTDIR},
		{live, "work/file/below", unix.ENOTDIR},
		{live, "work/pipe", unix.ENOTDIR},
		{live, "work/none", os.ErrNotExist},
		{live, "none", os.ErrNotExist},
	} {
		root, err := guardOf(tt.sb).Opener()(base + "/" + tt.dir)
		if !errors.Is(err, tt.wrong) || errors.Is(err, spec.ErrDenied) != errors.Is(tt.wrong, spec.ErrDenied) {
			t.Errorf("%s: %v, want %v", tt.dir, err, tt.wrong)
		}
		if err == nil {
			_ = root.Close()
		}
	}
}

// TestOpenPlaceFromLink checks that a relative path starts at the kernel's working directory, not at the
// path through which the caller entered it.
func TestOpenPlaceFromLink(t *testing.T) {
	base := t.TempDir()
	work := filepath.Join(base, "work")
	for _, d := range []string{work + "/sub", base + "/out", base + "/outside"} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{base + "/w": "work/sub", work + "/out": base + "/outside"} {
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(filepath.Join(base, "w")) // sets $PWD
	live := &spec.Sandbox{Workspaces: []spec.Mount{{Source: work, Target: work}}}
	for dir, wrong := range map[string]error{"../out": spec.ErrDenied, "../../out": nil, ".": nil, "..": nil} {
		root, err := guardOf(live).Opener()(dir)
		if !errors.Is(err, wrong) {
			t.Errorf("%s: %v, want %v", dir, err, wrong)
		}
		if err == nil {
			_ = root.Close()
		}
	}
}

// TestOpenPlaceShut checks that the error for a directory that may not be entered does not say
// that it leads out.
func TestOpenPlaceShut(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("nothing is shut to root")
	}
	work := t.TempDir()
	if err := os.MkdirAll(work+"/shut/sub", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(work+"/shut", 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(work+"/shut", 0o700) })
	live := &spec.Sandbox{Workspaces: []spec.Mount{{Source: work, Target: work}}}
	if _, err := guardOf(live).Opener()(work + "/shut/sub"); !errors.Is(err, fs.ErrPermission) || errors.Is(err, spec.ErrDenied) {
		t.Error(err)
	}
}
