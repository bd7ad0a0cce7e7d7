package guest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/gateway/ca"
	"github.com/bothy-dev/bothy/internal/trust"
)

func authority(t *testing.T) string {
	t.Helper()
	a, err := ca.New("demo", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return string(a.Certificate())
}

// TestRenewTrust checks that a bundle written at an earlier start trusts this start's authority, and no
// earlier one. A bundle that was never written inside stays as it is, and so does a file that
// is not a bundle.
func TestRenewTrust(t *testing.T) {
	root, public, old, now := t.TempDir(), "# public\n", authority(t), authority(t)
	path := func(name string) string { return filepath.Join(root, name) }
	put := func(name, content string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path(name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	put(trust.Own, now, 0o644)
	put(trust.Bundle, public+now, 0o644)
	written, untouched, link, fifo := "/etc/"+trust.Bundles[0], "/etc/"+trust.Bundles[1], "/etc/"+trust.Bundles[4], "/etc/"+trust.Bundles[5]
	put(written, public+old, 0o640)
	put(untouched, public+now, 0o644)
	put("/etc/outside", "outside", 0o644)
	if err := os.Symlink("../outside", path(link)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(path(fifo), 0o644); err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(-time.Hour)
	for _, name := range []string{trust.Bundle, untouched} { // one file with two names
		if err := os.Chtimes(path(name), then, then); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.Stat(path(untouched))
	if err != nil {
		t.Fatal(err)
	}

	if err := renewTrust(root); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path(written))
	if string(b) != public+now {
		t.Errorf("%v: %s", err, b)
	}
	if info, err := os.Stat(path(written)); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("its mode is %v: %v", info.Mode(), err)
	}
	if after, err := os.Stat(path(untouched)); err != nil || !os.SameFile(before, after) {
		t.Errorf("what was right was written again: %v", err)
	}
	if b, err := os.ReadFile(path("/etc/outside")); string(b) != "outside" {
		t.Errorf("a link was followed: %s: %v", b, err)
	}
	left, err := filepath.Glob(path("/etc/ssl/certs/*.bothy"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %s: %v", strings.Join(left, " "), err)
	}
}
