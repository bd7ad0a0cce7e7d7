package program

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestFind checks that Find finds a copy of this test's own program, which is of its build, and rejects
// it once it was written to.
func TestFind(t *testing.T) {
	self, err := executable()
	must(t, err)
	const name = "bothy-of-a-test"
	beside := filepath.Join(filepath.Dir(self), name)
	if _, err := Find(name); !errors.Is(err, spec.ErrSandbox) || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("a program that is not there: %v", err)
	}
	copyFile(t, self, beside)
	defer os.Remove(beside)
	for range 2 {
		path, err := Find(name)
		must(t, err)
		if path != beside {
			t.Errorf("found %s, not %s", path, beside)
		}
	}
	must(t, Untouched(name))
	must(t, os.Link(beside, beside+"-link"))
	must(t, os.Remove(beside+"-link"))
	if err := Untouched(name); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("it had a link for a moment: %v", err)
	}
	if _, err := Find(name); err != nil {
		t.Errorf("likewise, where no sandbox writes: %v", err)
	}
	must(t, os.Truncate(beside, 100))
	if _, err := Find(name); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("it was written to: %v", err)
	}
	must(t, os.Remove(beside))
	if _, err := Find(name); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("it was removed: %v", err)
	}
}

// TestCheck checks that a file that is not a Go program is rejected. For other builds see TestPrograms
// in test/faults.
func TestCheck(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	must(t, os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755))
	if err := checkBuild(text, own()); !errors.Is(err, spec.ErrSandbox) {
		t.Errorf("a text: %v", err)
	}
}

// TestTrusted checks that a program of another user, and one that others may write, is rejected.
func TestTrusted(t *testing.T) {
	self, err := executable()
	must(t, err)
	path := filepath.Join(t.TempDir(), "program")
	must(t, os.WriteFile(path, nil, 0o755))
	look := func() error {
		info, err := os.Stat(path)
		must(t, err)
		return trusted(path, info, self)
	}
	if err := look(); err != nil {
		t.Error(err)
	}
	must(t, os.Chmod(path, 0o757))
	if err := look(); !errors.Is(err, spec.ErrDenied) {
		t.Errorf("others may write it: %v", err)
	}
	must(t, os.Chmod(path, 0o755))
	if os.Geteuid() != 0 {
		return
	}
	must(t, syscall.Chown(path, 12345, 12345))
	if err := look(); !errors.Is(err, spec.ErrDenied) {
		t.Errorf("it is another user's: %v", err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	must(t, err)
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	must(t, err)
	_, err = io.Copy(out, in)
	must(t, err)
	must(t, out.Close())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
