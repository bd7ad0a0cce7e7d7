package attacks

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
)

// TestBesidePrograms shares directories within the host's directories of programs. Those are shown
// inside anyway; if root is the caller, their files belong to the overflow uid. The test shares them as
// workspace and as volume, at their own path and at another, live and reviewed, and in a directory that
// only root may enter. They work like any others, and root's files in the same directory stay
// unreadable.
func TestBesidePrograms(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root can make directories there")
	}
	harness.EachAlone(t, func(t *testing.T, c *harness.Caller) {
		for _, top := range []string{"/opt", "/usr/local/lib"} {
			b := beside{c, filepath.Join(top, filepath.Base(c.Base))}
			b.lay(t)
			if top != "/opt" {
				b.live(t, b.path("app"), "-v "+b.path("data"))
				continue
			}
			for _, how := range []string{"", "-v " + b.path("data"), "-v " + b.path("data") + ":/mnt/data", "-v " + b.path("data") + ":" + b.path("app/in")} {
				b.live(t, b.path("app"), how)
			}
			b.reviewed(t)
			if c.UID == 0 {
				b.live(t, b.path("closed/app"), "")
			}
		}
	})
}

// TestStateBesidePrograms puts the state directory into one of the host's directories of programs.
// All of them are shown inside, but the state directory must not be.
func TestStateBesidePrograms(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root can make directories there")
	}
	harness.EachAlone(t, func(t *testing.T, c *harness.Caller) {
		for _, top := range []string{"/opt", "/usr/local/lib"} {
			b := beside{c, filepath.Join(top, filepath.Base(c.Base))}
			b.lay(t)
			was := c.State
			c.State = b.path("data/state")
			c.Must(t, "create", "--name", "box", "shell", b.path("app"))
			for _, user := range []string{"", "0"} {
				if r := c.Sh("box", user, "ls -A "+c.State+"; cat "+c.State+"/sandboxes/*/spec.json"); r.Code == 0 || strings.TrimSpace(r.Stdout) != "" {
					t.Errorf("the state directory %s is visible inside: %v", c.State, r)
				}
			}
			if r := c.Sh("box", "", "cat "+b.path("app/own")+"; touch "+b.path("app/new")); r.Code != 0 || r.Stdout != "it\n" {
				t.Errorf("a workspace beside the state directory does not work: %v", r)
			}
			c.Must(t, "reset", "-f")
			c.State = was
		}
	})
}

// beside is a directory in one of the host's directories of programs.
type beside struct {
	*harness.Caller
	dir string
}

func (b beside) path(rel string) string { return filepath.Join(b.dir, rel) }

func (b beside) lay(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { os.RemoveAll(b.dir) })
	for _, dir := range []string{"app/in", "data", "closed/app"} {
		if err := os.MkdirAll(b.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
		b.Own(t, b.path(dir))
	}
	b.Own(t, b.path("app"))
	for _, file := range []string{"app/own", "data/own", "roots"} {
		if err := os.WriteFile(b.path(file), []byte("it\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if file != "roots" {
			b.Own(t, b.path(file))
		}
	}
	if err := os.Chmod(b.path("closed"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// live writes to a workspace, and to the volume that how shares.
func (b beside) live(t *testing.T, workspace, how string) {
	t.Helper()
	script := fmt.Sprintf(`set -e; echo it > made; mkdir -p d; mv made d/made; test ! -e own || cat own
test "$(stat -c %%u .)" = "$(id -u)"; if cat %s; then exit 9; fi`, b.path("roots"))
	written := []string{filepath.Join(workspace, "d/made")}
	if how != "" {
		_, at, _ := strings.Cut(how, b.path("data"))
		if at = strings.TrimPrefix(at, ":"); at == "" {
			at = b.path("data")
		}
		script += fmt.Sprintf("; cat %[1]s/own; echo it >> %[1]s/own; echo it > %[1]s/made", at)
		written = append(written, b.path("data/made"))
	}
	args := append([]string{"run", "--rm", "--name", "beside"}, strings.Fields(how)...)
	if r := b.Run(append(args, "shell", workspace, "--", "/bin/sh", "-c", script)...); r.Code != 0 {
		t.Errorf("%s %s: %v", workspace, how, r)
		return
	}
	for _, file := range written {
		info, err := os.Stat(file)
		if err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != b.UID {
			t.Errorf("%s %s: %s: %v, %v", workspace, how, file, info, err)
		}
		os.Remove(file)
	}
}

// reviewed brings a change from a layer over the workspace.
func (b beside) reviewed(t *testing.T) {
	t.Helper()
	b.Must(t, "create", "--name", "beside", "--workspace", "review", "shell", b.path("app"))
	b.Must(t, "exec", "beside", "/bin/sh", "-c", "cat own && echo new > own")
	b.Must(t, "apply", "beside")
	b.Must(t, "rm", "-f", "beside")
	if got, err := os.ReadFile(b.path("app/own")); err != nil || string(got) != "new\n" {
		t.Errorf("own is %q, %v", got, err)
	}
}
