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
	find := func(dir, want string) {
		t.Helper()
		if got, err := findBothy(dir, self); err != nil || got != want {
			t.Errorf("found %s, not %s: %v", got, want, err)
		}
	}
	if _, err := findBothy("", self); !errors.Is(err, spec.ErrSandbox) || spec.Hint(err) == "" {
		t.Errorf("there is none: %v", err)
	}
	find("", put("app/libexec/bothy", 0o755))
	find("", put("app/bin", 0o755))
	inPath := put("path", 0o755)
	find("", inPath)
	if _, err := findBothy(filepath.Join(top, "named"), self); !errors.Is(err, spec.ErrSandbox) {
		t.Errorf("not in the directory that was named: %v", err)
	}
	find(filepath.Join(top, "named"), put("named", 0o755))
	must(t, os.Chmod(inPath, 0o777))
	if _, err := findBothy("", self); !errors.Is(err, spec.ErrDenied) {
		t.Errorf("others may write it: %v", err)
	}
}

// TestUseInstalled checks that a foreign program starts nothing of an installation before its caller has
// accepted it, and asks its caller again when the installation has changed. The bothy of this test is a copy of the
// test's own program, which is of its build.
func TestUseInstalled(t *testing.T) {
	forget := func() {
		mu.Lock()
		defer mu.Unlock()
		foreign, found = nil, map[string]program{}
		isForeign.Store(false)
	}
	t.Cleanup(forget)
	self, err := executable()
	must(t, err)
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	install := func(dir string) string {
		dir = filepath.Join(top, dir)
		must(t, os.MkdirAll(dir, 0o755))
		for _, name := range []string{Bothy, Keeper} {
			_ = os.Remove(filepath.Join(dir, name))
			copyFile(t, self, filepath.Join(dir, name))
		}
		return dir
	}
	first, second := install("first"), install("second")
	t.Setenv("PATH", first)
	refused := errors.New("refused")
	var seen *Installed
	use := func(dir string, answer error, startable bool) error {
		t.Helper()
		seen = nil
		got, err := UseInstalled(dir, func(i *Installed) error {
			seen = i
			if path, err := Self(); (err == nil) != startable {
				t.Errorf("%s may be started while it is judged: %v", path, err)
			}
			return answer
		})
		if (got != nil) != (err == nil) {
			t.Errorf("%+v, %v", got, err)
		}
		return err
	}
	nothing := func() {
		t.Helper()
		if path, err := Self(); err == nil || errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s may be started: %v", path, err)
		}
	}

	if err := use("", refused, false); !errors.Is(err, refused) || seen.Named || seen.Changed || len(seen.Paths()) != 2 {
		t.Errorf("%v, %+v", err, seen)
	}
	nothing()
	if path, err := Find(Keeper); err == nil {
		t.Errorf("%s may be started", path)
	}
	must(t, use(second, nil, false))
	if path, err := Self(); err != nil || path != filepath.Join(second, Bothy) || !seen.Named {
		t.Errorf("%s, %v", path, err)
	}
	if path, err := Find(Keeper); err != nil || path != filepath.Join(second, Keeper) {
		t.Errorf("%s, %v", path, err)
	}
	if err := use(first, nil, false); !errors.Is(err, spec.ErrConflict) || spec.Hint(err) == "" || seen != nil {
		t.Errorf("another one: %v", err)
	}
	must(t, use("", nil, true)) // the one in use, although PATH leads to another
	if seen.Named || seen.Bothy() != filepath.Join(second, Bothy) {
		t.Errorf("%+v", seen)
	}
	if err := use("", refused, true); !errors.Is(err, refused) {
		t.Errorf("refused later: %v", err)
	}

	install("second")
	nothing()
	if _, err := Find(Keeper); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("it was replaced: %v", err)
	}
	if err := use(second, refused, false); !errors.Is(err, refused) || !seen.Changed {
		t.Errorf("%v, %+v", err, seen)
	}
	nothing()
	must(t, use("", nil, false))
	must(t, use("", nil, true))
	if _, err := Self(); err != nil || seen.Changed {
		t.Errorf("after another installation: %v", err)
	}
	if _, err := Find(Keeper); err != nil {
		t.Errorf("likewise: %v", err)
	}

	bothy := filepath.Join(second, Bothy)
	must(t, os.Link(bothy, bothy+"-link")) // a writer can set back the modification time, but not this one
	nothing()
	must(t, use("", nil, false))
	must(t, os.WriteFile(bothy, []byte("#!/bin/sh\n"), 0o755))
	if err := use("", nil, false); !errors.Is(err, spec.ErrSandbox) || seen != nil {
		t.Errorf("not a bothy: %v", err)
	}
	nothing()
	must(t, os.Remove(bothy))
	nothing()
}
