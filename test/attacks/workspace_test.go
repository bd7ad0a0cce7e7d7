package attacks

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/test/harness"
)

// TestWorkspaceSwappedByLink replaces a workspace with a link to a secret directory after the sandbox
// was made: the sandbox starts without the secret, or not at all. D1, D12.
func TestWorkspaceSwappedByLink(t *testing.T) {
	harness.AsUser(t)
	for _, how := range []string{"workspace", "parent", "volume", "file volume", "second workspace"} {
		t.Run(how, func(t *testing.T) {
			harness.Each(t, func(t *testing.T, c *harness.Caller) {
				secret := filepath.Join(c.Base, "secret")
				c.Mkdir(t, filepath.Join(secret, "inner"))
				k := &canaries{mark: newMark()}
				for _, rel := range []string{"note", "inner/note"} {
					c.Own(t, c.Write(t, filepath.Join(secret, rel), k.mark))
				}
				dir := filepath.Join(c.Work, "outer", "inner")
				c.Mkdir(t, dir)
				file := c.Write(t, filepath.Join(dir, "note"), "harmless")
				args, swapped, target := []string{"shell", dir}, dir, secret
				switch how {
				case "parent":
					swapped = filepath.Dir(dir)
				case "volume":
					args = []string{"-v", dir + ":/mnt/x", "shell"}
				case "file volume":
					args, swapped, target = []string{"-v", file + ":/mnt/x", "shell"}, file, filepath.Join(secret, "note")
				case "second workspace":
					other := filepath.Join(c.Work, "primary")
					c.Mkdir(t, other)
					args = []string{"shell", other, dir}
				}
				c.Must(t, append([]string{"create", "--name", "box"}, args...)...)
				for _, before := range []string{"first start", "second start"} {
					if before == "first start" {
						// Only the second time: it must hold for every start.
						c.Must(t, "exec", "box", "true")
						c.Must(t, "stop", "box")
						if err := os.Rename(swapped, swapped+".away"); err != nil {
							t.Fatal(err)
						}
						if err := os.Symlink(target, swapped); err != nil {
							t.Fatal(err)
						}
					}
					r := c.Sh("box", "", fmt.Sprintf("cat %s %s/note %s/inner/note /mnt/x /mnt/x/note; echo broken > %s/new; echo broken > /mnt/x/new; true", dir, dir, filepath.Dir(dir), dir))
					k.quiet(t, before, r.Stdout)
					if r.Code != 0 && !strings.Contains(r.Stderr, "bothy: error:") {
						t.Errorf("%s: no clear error: %v", before, r)
					}
				}
				for _, rel := range []string{"new", "inner/new"} {
					if _, err := os.Lstat(filepath.Join(secret, rel)); err == nil {
						t.Errorf("the sandbox wrote %s through the link", rel)
					}
				}
			})
		})
	}
}

// TestHostileWorkspace fills a workspace with names and files that trip programs: links to the
// host, hard links, pipes, sockets, names with control bytes, set-uid files. On the host no program
// follows a link, and no name reaches a terminal raw. D1, D3, D4, D13, F1.
func TestHostileWorkspace(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		k := &canaries{mark: newMark()}
		secret := c.Write(t, filepath.Join(c.Home, "secret"), k.mark)
		script := `set -u; cd "$1"
			ln -s /etc/passwd passwd; ln -s ` + secret + ` secret; ln -s ../secret up; ln -s / root
			ln -s /proc/self/root procroot; ln -s . loop; mkfifo pipe; : > plain; ln plain hard
			ln ` + secret + ` stolen; ln ../secret stolen2
			mkdir "$(printf 'a\nb')"; : > "$(printf 'esc\033[31m\007')"; : > "$(printf 'c1\302\2331m')"; : > -- ; : > '-rf'
			cp /bin/sh setuid; chmod 6755 setuid; chmod 6777 .; mkdir -m 6777 setdir; chmod u+s setdir plain
			install -m 6755 /bin/sh installed; tar c --mode=6755 plain | tar xp --transform s/plain/tarred/
			chown 0:0 plain; chown 1:1 plain; mknod dev b 8 0; mknod null c 1 3
			cat passwd secret up root/etc/passwd procroot/etc/passwd stolen stolen2; cat root` + secret + `; true`
		dir := filepath.Join(c.Work, "tree")
		c.Mkdir(t, dir)
		c.Must(t, "create", "--name", "box", "shell", dir)
		for _, user := range []string{"", "root"} {
			args := []string{"exec"}
			if user != "" {
				args = append(args, "-u", user)
			}
			r := c.Run(append(args, "box", "/bin/sh", "-c", script, "sh", dir)...)
			k.quiet(t, "as "+user, r.Stdout+r.Stderr)
			if host, err := os.ReadFile("/etc/passwd"); err == nil && strings.Contains(r.Stdout, string(host)) {
				t.Errorf("as %q: the host's /etc/passwd came out", user)
			}
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			var st unix.Stat_t
			path := filepath.Join(dir, e.Name())
			if err := unix.Lstat(path, &st); err != nil {
				t.Fatal(err)
			}
			if int(st.Uid) != c.UID || int(st.Gid) != c.GID {
				t.Errorf("%q belongs to %d:%d, not to the caller", path, st.Uid, st.Gid)
			}
			switch st.Mode & unix.S_IFMT {
			case unix.S_IFBLK, unix.S_IFCHR:
				t.Errorf("%q is a device on the host", path)
			case unix.S_IFIFO, unix.S_IFSOCK:
				t.Logf("%q is a pipe or socket on the host", path)
			}
			if st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
				t.Errorf("%q is set-uid on the host: mode %o of uid %d", path, st.Mode&0o7777, st.Uid)
			}
		}
		if err := unix.Access(secret, unix.F_OK); err != nil {
			t.Error(err)
		}
		if info, err := os.Stat(secret); err != nil || info.Sys().(*syscall.Stat_t).Nlink != 1 {
			t.Errorf("the secret has another name now: %v", err)
		}
		// Bothy's own output about it has no control bytes.
		for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"inspect", "box"}} {
			plain(t, strings.Join(args, " "), c.Must(t, args...))
		}
	})
}

// plain reports bytes that affect a terminal.
func plain(t *testing.T, what, s string) {
	t.Helper()
	for i, r := range s {
		bad := r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f || r == 0xfffd && !strings.HasPrefix(s[i:], "\ufffd") ||
			r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f
		if bad {
			t.Errorf("%s prints a control character %U: %q", what, r, s[max(0, i-60):min(len(s), i+60)])
			return
		}
	}
}

// TestMountPointTricks replaces parents of mount points in the sandbox's home with links: at the next
// start nothing is made or mounted on the host. D12.
func TestMountPointTricks(t *testing.T) {
	harness.AsUser(t)
	for _, to := range []string{"/etc", "../../../../../../../../etc", ".", "/proc/self/root/tmp"} {
		t.Run(strings.ReplaceAll(to, "/", "_"), func(t *testing.T) {
			harness.Each(t, func(t *testing.T, c *harness.Caller) {
				home := c.Home
				if c.UID == 0 {
					home = "/home/agent"
				}
				extra := filepath.Join(c.Base, "extra")
				c.Mkdir(t, extra)
				file := c.Write(t, filepath.Join(c.Base, "file"), "content")
				mark := newMark() // in every name that could be made on the host
				c.Must(t, "create", "--name", "box",
					"-v", extra+":"+home+"/a/b/"+mark, "-v", file+":"+home+"/a/f-"+mark, "shell", c.Work)
				c.Must(t, "exec", "box", "ls", home+"/a/b/"+mark, home+"/a/f-"+mark)
				before := names(t, "/etc", "/", "/tmp", c.Base)
				c.Must(t, "stop", "box")
				// From inside, the mount points cannot be moved while mounted; a parent can, or a forged
				// copy of the home can be put in place.
				inHome := filepath.Join(c.Inspect(t, "box").Directory, "home")
				r := c.Sh("box", "root", "mv "+home+"/a "+home+"/a.away && ln -s "+to+" "+home+"/a")
				c.Run("stop", "box")
				if _, err := os.Readlink(filepath.Join(inHome, "a")); err != nil {
					t.Logf("the inside could not plant the link (%v): planted from outside", strings.TrimSpace(r.Stderr))
					if err := os.RemoveAll(filepath.Join(inHome, "a")); err != nil {
						t.Fatal(err)
					}
					if err := os.Symlink(to, filepath.Join(inHome, "a")); err != nil {
						t.Fatal(err)
					}
					c.Own(t, filepath.Join(inHome, "a"))
				}
				r = c.Run("exec", "box", "true")
				if r.Code != 0 && (!strings.Contains(r.Stderr, "bothy: error:") || r.TimedOut) {
					t.Errorf("no clear error: %v", r)
				}
				t.Logf("start with the link to %s: %v", to, r)
				after := names(t, "/etc", "/", "/tmp", c.Base)
				for n := range after {
					if !before[n] && (strings.Contains(n, mark) || filepath.Base(n) == "b") {
						t.Errorf("made on the host: %s", n)
					}
				}
				for _, gone := range []string{"/etc/b", "/b", "/etc/f-" + mark, "/f-" + mark} {
					if _, err := os.Lstat(gone); err == nil {
						t.Errorf("made on the host: %s", gone)
					}
				}
				if b, err := os.ReadFile("/proc/self/mountinfo"); err == nil && strings.Contains(string(b), mark) {
					t.Error("something was mounted on the host")
				}
			})
		})
	}
}

func names(t *testing.T, dirs ...string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			all[filepath.Join(dir, e.Name())] = true
		}
	}
	return all
}

// TestProjectFilesWidenNothing puts files into the workspace that other products obey: none changes what
// the sandbox gets, none runs on the host. F4, F5, F8, F9, F14, F19, D8.
func TestProjectFilesWidenNothing(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		k := &canaries{mark: newMark()}
		secret := c.Write(t, filepath.Join(c.Home, "secret"), k.mark)
		ran := filepath.Join(c.Home, "ran")
		run := "#!/bin/sh\ntouch " + ran + "\n"
		for name, content := range map[string]string{
			"bothy.yaml":                         "workspaces: [/]\nvolumes: [\"" + c.Home + ":/mnt/home\"]\nforce_workspace: true\ninitialize: touch " + ran + "\n",
			".bothy/config.yaml":                 "detach_keys: x\nvolumes: [\"" + c.Home + ":/mnt/home\"]\n",
			".bothy/spec.json":                   `{"workspaces":[{"source":"/","target":"/mnt/root"}]}`,
			".devcontainer/devcontainer.json":    `{"initializeCommand":"touch ` + ran + `","mounts":["source=` + c.Home + `,target=/mnt/home,type=bind"],"runArgs":["--privileged"]}`,
			".env":                               "BOTHY_HOME=" + c.Work + "\nGVISOR_SIDECAR_BINARIES_DIR=" + c.Work + "/gvisor-bin\n",
			".envrc":                             "touch " + ran + "\n",
			"config.json":                        `{"annotations":{"dev.gvisor.flag.host-uds":"open"}}`,
			"gvisor-bin/gvisor_sentry":           run,
			"gvisor-bin/gvisor-sentry-prewarmer": run,
			"go":                                 run, "sh": run, "newuidmap": run, "bothy": run, "sudo": run,
		} {
			c.Mkdir(t, filepath.Dir(filepath.Join(c.Work, name)))
			path := c.Write(t, filepath.Join(c.Work, name), content)
			if strings.HasPrefix(content, "#!") {
				if err := os.Chmod(path, 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		c.Env = append(c.Env, "PATH="+c.Work+":/usr/bin:/bin") // "." in PATH, in effect
		out := c.Must(t, "run", "--name", "box", "-e", "dev.gvisor.flag.host-uds=open", "shell", ".", "--", "sh", "-c",
			"ls /mnt /mnt/home /mnt/root 2>&1; cat "+secret+" /mnt/home/secret 2>&1; cat /proc/mounts; true")
		k.quiet(t, "project files", out)
		i := c.Inspect(t, "box")
		if len(i.Workspaces) != 1 || len(i.Volumes) != 0 {
			t.Errorf("the project changed its sandbox: %+v", i.Sandbox)
		}
		if _, err := os.Lstat(ran); err == nil {
			t.Error("a file of the project ran on the host")
		}
		// F14: no annotation reached gVisor.
		conf, err := os.ReadFile(fmt.Sprintf("/proc/%d/fd/3", c.Machine(t, "box").Gofer))
		if err != nil || !strings.Contains(string(conf), "ociVersion") {
			t.Errorf("the configuration gVisor got was not found: %v", err)
		}
		var spec struct{ Annotations map[string]string }
		if err := json.Unmarshal(conf, &spec); err != nil {
			t.Error(err)
		}
		for key, value := range spec.Annotations {
			// The driver's own, about its mounts.
			if !strings.HasPrefix(key, "dev.gvisor.spec.mount.") || strings.Contains(value, c.Work) {
				t.Errorf("annotation %s=%s reached gVisor", key, value)
			}
		}
	})
}

// TestNoStubs looks for files that a sandbox leaves in a workspace although no program inside wrote
// them. None may exist, even after a crash. D9.
func TestNoStubs(t *testing.T) {
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		c.Mkdir(t, filepath.Join(c.Work, "sub"))
		extra := filepath.Join(c.Base, "extra")
		c.Mkdir(t, extra)
		c.Must(t, "create", "--name", "box", "-v", extra+":"+filepath.Join(c.Work, "sub"), "shell", c.Work)
		c.Must(t, "exec", "box", "true")
		if err := syscall.Kill(c.Machine(t, "box").Keeper, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		c.Must(t, "exec", "box", "true")
		c.Must(t, "rm", "-f", "box")
		if r := c.Run("create", "--name", "box", "-v", extra+":"+filepath.Join(c.Work, "missing"), "shell", c.Work); r.Code == 0 {
			if r := c.Run("exec", "box", "true"); r.Code == 0 {
				t.Logf("a mount point that is missing in the workspace: %v", r)
			}
		}
		if left := harness.Tree(c.Work); len(left) != 2 {
			t.Errorf("left in the workspace: %v", left)
		}
	})
}
