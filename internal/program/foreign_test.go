//go:build linux

package program

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestCompare checks which bothy a foreign program accepts, and that a version that is not known is
// never taken for the same.
func TestCompare(t *testing.T) {
	foreignWith := func(m *debug.Module) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Path: "example.com/app", Version: "v9.9.9"}, Deps: []*debug.Module{{Path: "example.com/other", Version: "v1.0.0"}, m}}
	}
	at := func(version string) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Path: module, Version: version}}
	}
	directory := &debug.Module{Path: module, Version: "v0.1.0", Replace: &debug.Module{Path: "../bothy", Version: "(devel)"}}
	fork := &debug.Module{Path: module, Version: "v0.1.0", Replace: &debug.Module{Path: "example.com/bothy", Version: "v0.2.0"}}
	summed := at("v0.1.0")
	summed.Main.Sum = "h1:b"
	for _, tt := range []struct {
		name         string
		mine, theirs *debug.BuildInfo
		unproven     bool
		refused      bool
	}{
		{"the same version", foreignWith(&debug.Module{Path: module, Version: "v0.1.0"}), at("v0.1.0"), false, false},
		{"another version", foreignWith(&debug.Module{Path: module, Version: "v0.1.0"}), at("v0.1.1"), false, true},
		{"a changed clone", foreignWith(&debug.Module{Path: module, Version: "v0.1.0"}), at("v0.1.0+dirty"), false, true},
		{"other contents", foreignWith(&debug.Module{Path: module, Version: "v0.1.0", Sum: "h1:a"}), summed, false, true},
		{"a fork of the same version", foreignWith(fork), at("v0.2.0"), false, false},
		{"a fork of another version", foreignWith(fork), at("v0.1.0"), false, true},
		{"a directory", foreignWith(directory), at("v0.1.0"), true, false},
		{"a directory, and no version", foreignWith(directory), at("(devel)"), true, false},
		{"no version installed", foreignWith(&debug.Module{Path: module, Version: "v0.1.0"}), at("(devel)"), true, false},
		{"nothing is known", nil, at("v0.1.0"), true, false},
		{"it does not link the module", foreignWith(&debug.Module{Path: "example.com/more", Version: "v1.0.0"}), at("v0.1.0"), true, false},
		{"not ours", foreignWith(&debug.Module{Path: module, Version: "v0.1.0"}), &debug.BuildInfo{Main: debug.Module{Path: "example.com/app", Version: "v0.1.0"}}, false, true},
		{"of this module, same commit", at("v0.0.0-2026"), at("v0.0.0-2026"), false, false},
		{"of this module, another commit", at("v0.0.0-2026"), at("v0.0.0-2025"), false, true},
		{"of this module, both without a commit", at("(devel)"), at("(devel)"), false, false},
		{"of this module, one without a commit", at("(devel)"), at("v0.1.0"), true, false},
	} {
		unproven, err := compare(tt.mine, tt.theirs, "/x/bothy")
		if (unproven != "") != tt.unproven || (err != nil) != tt.refused || err != nil && !errors.Is(err, spec.ErrSandbox) {
			t.Errorf("%s: unproven %q, %v", tt.name, unproven, err)
		}
	}
}

// TestFindBothy checks the order in which a foreign program looks for bothy, and that it does not pass
// over one that others may write.
func TestFindBothy(t *testing.T) {
	top := t.TempDir()
	self := filepath.Join(top, "app", "bin", "app")
	put := func(dir string, mode os.FileMode) string {
		path := filepath.Join(top, dir, Bothy)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, nil, 0o755))
		must(t, os.Chmod(path, mode))
		return path
	}
	must(t, os.MkdirAll(filepath.Dir(self), 0o755))
	must(t, os.WriteFile(self, nil, 0o755))
	t.Setenv("PATH", "relative::"+filepath.Join(top, "none")+":"+filepath.Join(top, "path"))
	find := func(dir, want string, fromPath bool) {
		t.Helper()
		got, from, err := findBothy(dir, self)
		if err != nil || got != want || from != fromPath {
			t.Errorf("found %s (by PATH: %t), %v", got, from, err)
		}
	}
	if _, _, err := findBothy("", self); !errors.Is(err, spec.ErrSandbox) || spec.Hint(err) == "" {
		t.Errorf("there is none: %v", err)
	}
	find("", put("app/libexec/bothy", 0o755), false)
	find("", put("app/bin", 0o755), false)
	inPath := put("path", 0o755)
	find("", inPath, true)
	if _, _, err := findBothy(filepath.Join(top, "named"), self); !errors.Is(err, spec.ErrSandbox) {
		t.Errorf("not in the directory that was named: %v", err)
	}
	find(filepath.Join(top, "named"), put("named", 0o755), false)
	must(t, os.Chmod(inPath, 0o777))
	if _, _, err := findBothy("", self); !errors.Is(err, spec.ErrDenied) {
		t.Errorf("others may write it: %v", err)
	}
}
