package attacks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
)

// TestStateDirectoryStaysHidden shares directories that contain Bothy's own state: it is never
// visible inside, neither at its own path nor through a link to it, nor below the gofer's root. D7,
// D11.
func TestStateDirectoryStaysHidden(t *testing.T) {
	harness.AsUser(t)
	cases := []struct {
		name  string
		setup func(t *testing.T, c *harness.Caller) (args []string, inside string)
	}{
		{"forced home", func(_ *testing.T, c *harness.Caller) ([]string, string) {
			c.State = filepath.Join(c.Home, ".local/share/bothy")
			return []string{"--force-workspace", "shell", c.Home}, c.State
		}},
		{"forced home, state behind a link", func(t *testing.T, c *harness.Caller) ([]string, string) {
			real := filepath.Join(c.Home, "real-state")
			c.Mkdir(t, real)
			c.State = filepath.Join(c.Home, "link-state")
			if err := os.Symlink(real, c.State); err != nil {
				t.Fatal(err)
			}
			return []string{"--force-workspace", "shell", c.Home}, real
		}},
		{"volume above it, at another path", func(_ *testing.T, c *harness.Caller) ([]string, string) {
			return []string{"--force-workspace", "-v", c.Base + ":/mnt/base", "shell", c.Work}, "/mnt/base/state"
		}},
		{"read-only volume above it", func(_ *testing.T, c *harness.Caller) ([]string, string) {
			return []string{"--force-workspace", "-v", c.Base + ":/mnt/base:ro", "shell", c.Work}, "/mnt/base/state"
		}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			harness.Each(t, func(t *testing.T, c *harness.Caller) {
				args, inside := tc.setup(t, c)
				k := &canaries{mark: newMark()}
				r := c.Run(append(append([]string{"create", "--name", "box"}, args...), "-q")...)
				if r.Code != 0 {
					if strings.Contains(tc.name, "behind a link") && strings.Contains(r.Stderr, "not a directory") {
						c.Dirty = true
						return // a linked state directory is refused, which is just as good
					}
					t.Fatalf("%v", r)
				}
				path := filepath.Join(c.State, "sandboxes", "note")
				k.file(t, path, 0o644)
				k.files = append(k.files, filepath.Join(inside, "sandboxes", "note"))
				link := filepath.Join(c.Home, "shortcut")
				if err := os.Symlink(filepath.Join(c.State, "sandboxes"), link); err != nil {
					t.Fatal(err)
				}
				c.Own(t, link)
				me := filepath.Join(filepath.Dir(c.Plant(t, c.Work)), "intruder")
				for _, user := range []string{"0", ""} {
					out := c.Sh("box", user, me+" intruder search "+k.mark+" / 2>&1; "+
						me+" intruder read "+path+" "+filepath.Join(inside, "sandboxes/note")+" "+link+"/note 2>&1").Stdout
					k.quiet(t, "as "+user, out)
					list := c.Sh("box", user, "ls -A "+inside)
					if list.Code != 0 || strings.TrimSpace(list.Stdout) != "" {
						t.Errorf("as %q, the place of the state directory is not an empty directory: %v", user, list)
					}
				}
				m := c.Machine(t, "box")
				k.unreachable(t, "gofer", m.Gofer)
				k.unreachable(t, "sentry", m.Sentry)
			})
		})
	}
}

// TestMountedBelowAWorkspace mounts the state directory, a part of it, a directory above it and views of
// the kernel below a workspace: none is visible inside, but other mounts there are. D7.
func TestMountedBelowAWorkspace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		c.Must(t, "create", "--name", "box", "-q", "shell", c.Work)
		for _, dir := range []string{"alias", "part", "up", "root/proc", "root/sys", "root/dev", "mem", "over/proc"} {
			c.Mkdir(t, filepath.Join(c.Work, dir))
		}
		state, err := filepath.Rel(c.Base, c.State)
		if err != nil || !filepath.IsLocal(state) {
			t.Fatalf("%s is not below %s", c.State, c.Base)
		}
		before := fmt.Sprintf(`mount --make-rprivate / && cd %s &&
			mount --bind %s alias && mount --bind %[2]s/sandboxes part && mount --bind %s up &&
			mount -t proc proc root/proc && mount -t sysfs sysfs root/sys && mount --rbind /dev root/dev &&
			mount -t tmpfs -o mode=755 none mem && echo shown > mem/file &&
			mount -t proc proc over/proc && mount -t tmpfs -o mode=755 none over && exec setpriv --reuid %d --regid %d --clear-groups "$0" "$@"`,
			c.Work, c.State, c.Base, c.UID, c.GID)
		run := func(args ...string) harness.Result {
			cmd := exec.CommandContext(t.Context(), "unshare", append([]string{"-m", "sh", "-ec", before, c.Binary}, args...)...)
			cmd.Dir, cmd.Env = c.Work, c.Environment()
			return harness.Finish(t.Context(), cmd, args)
		}
		const look = "ls -A alias part root/proc root/sys root/dev over up/"
		r := run("run", "shell", c.Work, "--name", "box", "--", "sh", "-c", look+state+"; cat mem/file")
		want := "alias:\n\nover:\n\npart:\n\nroot/dev:\n\nroot/proc:\n\nroot/sys:\n\nup/" + state + ":\nshown\n"
		if r.Code != 0 || r.Stdout != want {
			t.Errorf("inside is %v, want %q", r, want)
		}
	})
}

// TestStateDirectoryIsNotForged lets the inside move the state directory's parents away and put a
// state of its own there, with a sandbox that has mounts of its choice. D11.
func TestStateDirectoryIsNotForged(t *testing.T) {
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		shared := filepath.Join(c.Base, "shared")
		c.Mkdir(t, filepath.Join(shared, "deep"))
		c.State = filepath.Join(shared, "deep", "state")
		made := c.Run("create", "--name", "box", "-v", shared+":/mnt/shared", "shell", c.Work)
		if made.Code == 3 && strings.Contains(made.Stderr, "bothy: hint:") {
			return // such a directory is not shared
		}
		if made.Code != 0 {
			t.Fatalf("%v", made)
		}
		id := c.Inspect(t, "box").ID
		r := c.Sh("box", "", "cd /mnt/shared && mv deep moved && mkdir -p deep/state/sandboxes && chmod 700 deep deep/state deep/state/sandboxes; ls -A moved/state deep/state")
		t.Logf("the inside tried: %v", r)
		if _, err := os.Lstat(filepath.Join(c.State, "sandboxes", id, "spec.json")); err != nil {
			t.Errorf("the inside moved the state directory away and put its own there: %v", harness.Tree(shared))
			c.Dirty = true
			c.KillAll()
		}
	})
}

// TestWorkspaceRefusals checks the directories that no sandbox gets without force. D7, F7.
func TestWorkspaceRefusals(t *testing.T) {
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		c.Must(t, "ls")
		link := filepath.Join(c.Work, "to-state")
		if err := os.Symlink(c.State, link); err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			args []string
			code int
		}{
			{[]string{"shell", "/"}, 3},
			{[]string{"shell", c.Home}, 3},
			{[]string{"shell", c.Home + "/."}, 3},
			{[]string{"shell", c.Work + "/.."}, 3},
			{[]string{"shell", c.Base}, 3}, // above the home
			{[]string{"-v", c.Home + ":/mnt/x", "shell", c.Work}, 3},
			{[]string{"shell", c.State}, 3},
			{[]string{"--force-workspace", "shell", c.State}, 3},
			{[]string{"--force-workspace", "shell", filepath.Join(c.State, "sandboxes")}, 3},
			{[]string{"shell", link}, 3},
			{[]string{"-v", "/dev/null:/mnt/null", "shell", c.Work}, 3},
			{[]string{"-v", "/dev:/mnt/dev", "shell", c.Work}, 3},
			{[]string{"-v", "/proc:/mnt/proc", "shell", c.Work}, 3},
			{[]string{"-v", "/sys:/mnt/sys", "shell", c.Work}, 3},
		} {
			r := c.Run(append([]string{"create", "--name", "box"}, tc.args...)...)
			if r.Code != tc.code {
				t.Errorf("want exit code %d: %v", tc.code, r)
			}
			if r.Code == 0 {
				c.Must(t, "rm", "-f", "box")
			}
		}
	})
}
