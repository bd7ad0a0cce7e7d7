package guest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// TestLead checks that a link is made only where nothing exists and the path is the sandbox's own.
func TestLead(t *testing.T) {
	root := t.TempDir()
	shared, own := filepath.Join(root, "shared"), filepath.Join(root, "own")
	for _, d := range []string{shared, own, filepath.Join(own, "taken")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"away": shared, "right": shared, "wrong": root} {
		if err := os.Symlink(target, filepath.Join(own, name)); err != nil {
			t.Fatal(err)
		}
	}
	mounts := []wire.Place{{Path: shared}}
	for _, tt := range []struct {
		path string
		led  bool
		made string // the path that must exist, or must not
		want bool
	}{
		{own + "/code/proj", true, own + "/code/proj", true},
		{own + "/right", true, own + "/right", true},
		{own + "/wrong", false, own + "/wrong", true},
		{own + "/taken", false, own + "/taken", true},
		{own + "/away/proj", false, shared + "/proj", false},
		{shared + "/proj", false, shared + "/proj", false},
		{own + "/../shared/proj", false, shared + "/proj", false},
		{"relative", false, "relative", false},
	} {
		got := makeNamedLinks([]spec.Named{{Path: tt.path, Target: shared}}, mounts)
		if got[0] != tt.led {
			t.Errorf("%s leads there: %v, want %v", tt.path, got[0], tt.led)
		}
		if _, err := os.Lstat(tt.made); (err == nil) != tt.want {
			t.Errorf("%s: %s exists: %v, want %v", tt.path, tt.made, err == nil, tt.want)
		}
	}
	if to, err := os.Readlink(own + "/wrong"); err != nil || to != root {
		t.Errorf("a link that was there leads to %s, %v", to, err)
	}
}

// TestKnownTerminal checks that TERM is replaced exactly if it is not described and another name is.
func TestKnownTerminal(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"x/xterm-256color", "73/screen"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	usual := terminfoDirs
	defer func() { terminfoDirs = usual }()
	terminfoDirs = []string{dir}
	for _, tt := range []struct{ have, want string }{
		{"xterm-kitty", "xterm-256color"},
		{"xterm-256color", "xterm-256color"},
		{"screen", "screen"},
		{"../x/xterm-256color", "xterm-256color"},
		{"", "xterm-256color"},
	} {
		env := []string{"A=1", "TERM=" + tt.have}
		if got := knownTerminal(env, []string{"missing", "xterm-256color"}); got[1] != "TERM="+tt.want {
			t.Errorf("%s became %s, want %s", tt.have, got[1], tt.want)
		}
		if env[1] != "TERM="+tt.have {
			t.Error("the caller's list was changed")
		}
	}
	if got := knownTerminal([]string{"TERM=foot"}, []string{"missing"}); got[0] != "TERM=foot" {
		t.Errorf("nothing is known: %s", got[0])
	}
	if got := knownTerminal([]string{"TERM=foot", "HOME=/h", "TERMINFO=" + dir}, []string{"screen"}); got[0] != "TERM=screen" {
		t.Errorf("by TERMINFO: %s", got[0])
	}
}
