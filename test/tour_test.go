package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTour runs the first command of the README: it builds bothy from these
// sources and says only what is true.
func TestTour(t *testing.T) {
	needWall(t)
	t.Parallel()
	if lab.scripts == os.Getenv(scriptsVar) {
		t.Skip("the sources are out of this user's reach")
	}
	script, err := filepath.Abs("../examples/tour.sh")
	if err != nil {
		t.Fatal(err)
	}
	caches, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE", "GOFLAGS").Output()
	if err != nil {
		t.Fatal(err)
	}
	is := strings.Split(string(caches), "\n")
	l := newLodging(t)
	cmd := exec.CommandContext(t.Context(), "sh", script)
	cmd.Dir = l.proj
	cmd.Env = append(l.env, "PATH="+os.Getenv("PATH"), "TMPDIR="+t.TempDir(),
		"GOCACHE="+is[0], "GOMODCACHE="+is[1], "GOFLAGS="+is[2])
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "\n  ok  "); n < 8 || !strings.Contains(string(out), "All true.") {
		t.Errorf("%d facts:\n%s", n, out)
	}
	for _, dir := range []string{l.proj, filepath.Join(l.proj, "..", "home")} {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if e.Name() != ".config" {
				t.Errorf("the tour leaves %s", filepath.Join(dir, e.Name()))
			}
		}
	}
}
