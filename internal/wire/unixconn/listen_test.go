package unixconn

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestListen checks that a socket replaces what is left of a dead process, whatever the length of its path.
func TestListen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 30))
	must(t, os.MkdirAll(dir, 0o700))
	path := filepath.Join(dir, "control.sock")
	for _, leftover := range []string{path, filepath.Join(dir, ".control.sock")} {
		must(t, os.WriteFile(leftover, nil, 0o600))
	}
	for range 2 { // the second replaces the socket of a dead keeper
		l, err := Listen(path)
		must(t, err)
		info, err := os.Stat(path)
		must(t, err)
		if info.Mode() != os.ModeSocket|0o600 {
			t.Errorf("its mode is %v", info.Mode())
		}
		if names, _ := os.ReadDir(dir); len(names) != 1 {
			t.Errorf("there are %v", names)
		}
		l.Close()
		if _, err := os.Stat(path); err != nil {
			t.Error("closing took it away: a later keeper's would go too")
		}
	}
	if _, err := Listen(filepath.Join(dir, "none", "control.sock")); err == nil {
		t.Error("listens in a directory that is not there")
	}
}
