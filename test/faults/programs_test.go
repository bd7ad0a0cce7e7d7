package faults

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
)

// stamped builds a program that claims to be of another build.
func stamped(t *testing.T, dir, name string) {
	t.Helper()
	if err := harness.Build(dir, "-X main.build=another", name); err != nil {
		t.Fatal(err)
	}
}

// TestPrograms removes programs next to bothy, and replaces them by others: each is named, with what to
// do, and nothing is left behind.
func TestPrograms(t *testing.T) {
	others := t.TempDir()
	if err := os.Chmod(others, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bothy", "bothy-keeper", "bothy-guest"} {
		stamped(t, others, name)
	}
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		whole := c.Binary
		dockerfile := filepath.Join(c.Work, "Dockerfile")
		c.Write(t, dockerfile, "FROM scratch\n")
		take := func(name string) func(dir string) {
			return func(dir string) { must(t, os.Remove(filepath.Join(dir, name))) }
		}
		replace := func(name string) func(dir string) {
			return func(dir string) {
				data, err := os.ReadFile(filepath.Join(others, name))
				must(t, err)
				must(t, os.WriteFile(filepath.Join(dir, name), data, 0o755))
			}
		}
		for _, x := range []struct {
			name   string
			change func(dir string)
			args   []string
			code   int
			says   string
		}{
			{"no keeper", take("bothy-keeper"), []string{"run", "--rm", "shell", c.Work, "--", "true"}, 125, "the program bothy-keeper is missing"},
			{"no guest", take("bothy-guest"), []string{"run", "--rm", "shell", c.Work, "--", "true"}, 125, "the program bothy-guest is missing"},
			{"no builder", func(string) {}, []string{"template", "build", "-t", "x", c.Work}, 125, "the program bothy-build is missing"},
			{"another keeper", replace("bothy"), []string{"run", "--rm", "shell", c.Work, "--", "true"}, 125, "bothy-keeper is of another build"},
			{"another guest", replace("bothy-guest"), []string{"run", "--rm", "shell", c.Work, "--", "true"}, 125, "bothy-guest is of another build"},
			{
				"a keeper that others may write", func(dir string) { must(t, os.Chmod(filepath.Join(dir, "bothy-keeper"), 0o777)) },
				[]string{"run", "--rm", "shell", c.Work, "--", "true"},
				3, "others may write it",
			},
		} {
			dir := filepath.Join(c.Base, strings.ReplaceAll(x.name, " ", "-"))
			c.Mkdir(t, dir)
			c.Binary = harness.CopyPrograms(t, whole, dir)
			x.change(dir)
			r := c.Run(x.args...)
			explained(t, r)
			if r.Code != x.code || !strings.Contains(r.Stderr, x.says) || !strings.Contains(r.Stderr, "go install") {
				t.Errorf("%s: %v", x.name, r)
			}
			if left := c.Must(t, "ls", "-q"); left != "" {
				t.Errorf("%s: left behind: %s", x.name, left)
			}
		}

		// A release has the programs that people do not call by name in libexec.
		release := filepath.Join(c.Base, "release")
		bin, libexec := filepath.Join(release, "bin"), filepath.Join(release, "libexec", "bothy")
		c.Mkdir(t, bin)
		c.Mkdir(t, libexec)
		c.Binary = harness.CopyPrograms(t, whole, bin)
		for _, name := range []string{"bothy-keeper", "bothy-guest"} {
			must(t, os.Rename(filepath.Join(bin, name), filepath.Join(libexec, name)))
		}
		if out := c.Must(t, "run", "--rm", "shell", c.Work, "--", "echo", "works"); out != "works\n" {
			t.Errorf("from libexec: %q", out)
		}

		// An upgrade replaces the files while a sandbox runs. The sandbox keeps using the files that
		// it was started from, also for work that its keeper hands to bothy. The next start uses the
		// new ones.
		c.Must(t, "create", "--name", "box", "--share-tasks", "read", "shell", c.Work)
		c.Must(t, "exec", "box", "true")
		for _, path := range []string{c.Binary, filepath.Join(libexec, "bothy-keeper"), filepath.Join(libexec, "bothy-guest")} {
			data, err := os.ReadFile(filepath.Join(others, filepath.Base(path)))
			must(t, err)
			must(t, os.WriteFile(path+".new", data, 0o755))
			must(t, os.Rename(path+".new", path))
		}
		c.Must(t, "exec", "box", "sudo", "-n", "true")
		c.Must(t, "exec", "box", "bd", "ready")
		if r := c.Run("checkpoint", "create", "--full", "box"); r.Code != 5 || !strings.Contains(r.Stderr, "another build of bothy") {
			t.Errorf("memory of the old keeper: %v", r)
		}
		c.Must(t, "stop", "box")
		c.Must(t, "exec", "box", "sudo", "-n", "true")
		c.Must(t, "exec", "box", "bd", "ready")
		c.Must(t, "checkpoint", "create", "--full", "box")
		c.Must(t, "rm", "-f", "box")
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
