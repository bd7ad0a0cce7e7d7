package attacks

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
)

// stranger is the uid of another user of the host.
const stranger = harness.OrdinaryID + 1

// TestControlSocket makes another user of the host connect to a keeper's control socket. The directories
// keep the user out. When the test opens those on purpose, the keeper itself refuses. F2, F3.
func TestControlSocket(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	callers := map[string]func(t *testing.T) *harness.Caller{
		"root": func(t *testing.T) *harness.Caller { return harness.New(t, "root") },
		"user": func(t *testing.T) *harness.Caller { return harness.New(t, "user") },
		// Every id that is not mapped into the keeper's namespace appears there as this one.
		"overflow uid": func(t *testing.T) *harness.Caller { return harness.NewAs(t, "nobody", 65534, 65534) },
		// The uid that the host's root has inside its keepers.
		"uid of root's keepers": func(t *testing.T) *harness.Caller { return harness.NewAs(t, "thousand", 1000, 1000) },
	}
	for name, caller := range callers {
		t.Run(name, func(t *testing.T) {
			c := caller(t)
			me := c.Plant(t, c.Base)
			if name == "overflow uid" {
				if r := c.Run("run", "-d", "--name", "box", "shell", ".", "--", "sleep", "1000"); r.Code == 0 {
					t.Errorf("its keeper cannot tell who calls, and starts all the same: %v", r)
				}
				return
			}
			c.Must(t, "run", "-d", "--name", "box", "shell", ".", "--", "sleep", "1000")
			dir := c.Inspect(t, "box").Directory
			sock := filepath.Join(dir, "control.sock")
			knock := func(uid int) harness.Result {
				ctx, cancel := context.WithTimeout(t.Context(), harness.Timeout)
				defer cancel()
				cmd := c.Command(ctx, "intruder", "knock", sock)
				cmd.Path, cmd.Dir = me, "/"
				cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
				return harness.Finish(ctx, cmd, cmd.Args)
			}
			for path, mode := range map[string]os.FileMode{c.State: 0o700, filepath.Join(c.State, "sandboxes"): 0o700, dir: 0o700, sock: 0o600} {
				info, err := os.Lstat(path)
				if err != nil || info.Mode().Perm() != mode {
					t.Errorf("%s: %v %v, want mode %o", path, info.Mode(), err, mode)
				}
			}
			if r := knock(c.UID); r.Code != 0 || !strings.Contains(r.Stdout, "ANSWERED") {
				t.Fatalf("the owner is not answered: %v", r)
			}
			others := []int{stranger, 1000, 65534, harness.OrdinaryID}
			for _, uid := range others {
				if uid == c.UID {
					continue
				}
				if r := knock(uid); r.Code != 10 || !strings.Contains(r.Stdout, "permission denied") {
					t.Errorf("uid %d gets to the socket: %v", uid, r)
				}
			}
			for _, path := range []string{c.State, filepath.Join(c.State, "sandboxes"), dir, sock} {
				if err := os.Chmod(path, 0o777); err != nil {
					t.Fatal(err)
				}
			}
			for _, uid := range append(others, 0) {
				if uid == c.UID {
					continue
				}
				if r := knock(uid); r.Code != 11 || strings.Contains(r.Stdout, "ANSWERED") {
					t.Errorf("uid %d is not refused by the keeper: %v", uid, r)
				}
			}
			// The next command of the owner closes the directories again, or tells what to do about
			// them.
			r := c.Run("ls")
			if info, err := os.Stat(c.State); r.Code == 0 && (err != nil || info.Mode().Perm() != 0o700) {
				t.Errorf("the state directory stays open: %v %v", info.Mode(), err)
			}
			if r.Code != 0 && !strings.Contains(r.Stderr, "bothy: hint:") {
				t.Errorf("%v", r)
			}
			for path, mode := range map[string]os.FileMode{c.State: 0o700, filepath.Join(c.State, "sandboxes"): 0o700, dir: 0o700, sock: 0o600} {
				if err := os.Chmod(path, mode); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestForeignStateDirectory offers a state directory that another user made: it is refused. D10.
func TestForeignStateDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	c := harness.New(t, "user")
	c.Dirty = true
	for name, uid := range map[string]int{"root's": 0, "a stranger's": stranger} {
		c.State = filepath.Join(c.Base, "foreign-"+name[:4])
		if err := os.Mkdir(c.State, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(c.State, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(c.State, uid, uid); err != nil {
			t.Fatal(err)
		}
		r := c.Run("create", "--name", "box", "shell", c.Work)
		if r.Code == 0 || !strings.Contains(r.Stderr, "bothy: hint:") {
			t.Errorf("%s directory is used: %v", name, r)
		}
	}
	// A link to such a directory, and a file.
	link := filepath.Join(c.Base, "link")
	if err := os.Symlink(c.State, link); err != nil {
		t.Fatal(err)
	}
	c.State = link
	if r := c.Run("create", "--name", "box", "shell", c.Work); r.Code == 0 {
		t.Errorf("a link to a foreign directory is used: %v", r)
	}
}
