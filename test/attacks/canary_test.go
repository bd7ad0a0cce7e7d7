package attacks

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/test/harness"
)

// canaries are secrets planted on the host, all of which carry a mark.
type canaries struct {
	mark    string
	files   []string
	sockets []string

	mu     sync.Mutex
	visits []string // the sockets that a client connected to
}

func newMark() string {
	var b [8]byte
	rand.Read(b[:])
	return "canary-" + hex.EncodeToString(b[:])
}

// plant puts canaries wherever the tests may write, and removes them at the end.
func plant(t *testing.T, c *harness.Caller) *canaries {
	t.Helper()
	k := &canaries{mark: newMark()}
	for _, rel := range []string{
		".aws/credentials", ".config/gcloud/application_default_credentials.json", ".ssh/id_ed25519",
		".ssh/authorized_keys", ".netrc", ".docker/config.json", ".kube/config", ".bash_history",
		".gnupg/secring.gpg", "other-project/.env", "note",
	} {
		path := filepath.Join(c.Home, rel)
		c.Mkdir(t, filepath.Dir(path))
		k.file(t, path, 0o600)
		c.Own(t, path)
	}
	k.file(t, filepath.Join(c.State, "note"), 0o600)
	c.Own(t, filepath.Join(c.State, "note"))
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		k.file(t, filepath.Join(dir, "bothy-"+k.mark), 0o644)
	}
	k.listen(t, filepath.Join(c.Home, ".ssh/agent.sock"))
	k.listen(t, filepath.Join(c.Work, "docker.sock"))
	k.listen(t, "@bothy-"+k.mark)
	if os.Geteuid() != 0 {
		return k
	}
	for _, dir := range []string{"/root", "/root/.ssh", "/run", "/var/run", "/home", "/srv", "/mnt", "/media", "/var/lib", "/var/log", "/var/spool", "/boot", "/"} {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			k.file(t, filepath.Join(dir, "bothy-"+k.mark), 0o644)
		}
	}
	// Secrets in /etc: by mode, by name, by content, and by the directory.
	k.file(t, "/etc/bothy-"+k.mark+"-shadow", 0o600)
	k.file(t, "/etc/shadow-"+k.mark, 0o640)
	k.file(t, "/etc/bothy-"+k.mark+".key", 0o644)
	k.write(t, "/etc/bothy-"+k.mark+".conf", "x\n-----BEGIN PRIVATE KEY-----\n"+k.mark+"\n", 0o644)
	dir := "/etc/bothy-" + k.mark
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	k.file(t, dir+"/open", 0o644)
	for _, sock := range []string{"/run/docker.sock", "/var/run/docker.sock", "/run/bothy-" + k.mark + ".sock"} {
		if _, err := os.Lstat(sock); err != nil { // never over a real one
			k.listen(t, sock)
		}
	}
	return k
}

func (k *canaries) file(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	k.write(t, path, "secret "+k.mark+"\n", mode)
}

func (k *canaries) write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, os.ErrExist) || errors.Is(err, os.ErrPermission) {
		return // /var/run is /run, or the test may not write here
	}
	if err != nil {
		t.Logf("no canary: %v", err)
		return
	}
	t.Cleanup(func() { os.Remove(path) })
	if _, err := f.WriteString(content); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Chmod(mode), f.Close()); err != nil {
		t.Fatal(err)
	}
	k.files = append(k.files, path)
}

// listen makes a socket that every user may use and counts its clients.
func (k *canaries) listen(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	k.sockets = append(k.sockets, path)
	if !strings.HasPrefix(path, "@") {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			k.mu.Lock()
			k.visits = append(k.visits, path)
			k.mu.Unlock()
			conn.Close()
		}
	}()
}

// quiet reports output of the inside that contains the mark.
func (k *canaries) quiet(t *testing.T, what, output string) {
	t.Helper()
	if i := strings.Index(output, k.mark); i >= 0 {
		t.Errorf("%s: a canary came out:\n%s", what, output[max(0, i-200):min(len(output), i+200)])
	}
}

// unreachable checks from the host whether a hostile process of the wall could reach the canaries, through
// its root or through a directory that it has open.
func (k *canaries) unreachable(t *testing.T, what string, pid int) {
	t.Helper()
	dirs := []string{fmt.Sprintf("/proc/%d/root", pid), fmt.Sprintf("/proc/%d/cwd", pid)}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	for _, fd := range fds {
		dirs = append(dirs, fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
	}
	looked := 0
	for _, dir := range dirs {
		at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		var fs unix.Statfs_t
		if unix.Fstatfs(at, &fs) == nil && fs.Type == unix.PROC_SUPER_MAGIC {
			unix.Close(at) // its own small process table: its links lead back here
			continue
		}
		looked++
		for _, path := range k.files {
			for _, how := range []struct {
				path  string
				flags uint64
			}{
				{path, unix.RESOLVE_IN_ROOT},
				{strings.Repeat("../", 40) + path[1:], unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_SYMLINKS},
			} {
				fd, err := unix.Openat2(at, how.path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: how.flags})
				if err == nil {
					unix.Close(fd)
					t.Errorf("%s: %s is there under %s", what, path, dir)
				}
			}
		}
		unix.Close(at)
	}
	if looked < 2 {
		t.Errorf("%s: only %d directories could be looked at", what, looked)
	}
}

// TestCanaries tests the allow-list from outside: of the host's files, the user and root inside can read
// only programs and the workspace. An attacker who controls the sentry or the gofer can reach no others
// either. D7, D17, F1, F16.
func TestCanaries(t *testing.T) {
	harness.AsUser(t)
	harness.EachAlone(t, func(t *testing.T, c *harness.Caller) {
		c.Must(t, "create", "shell", c.Work)
		k := plant(t, c)
		c.Env = append(c.Env, "SSH_AUTH_SOCK="+filepath.Join(c.Home, ".ssh/agent.sock"), "DOCKER_HOST=unix:///run/docker.sock")
		me := c.Plant(t, c.Work)
		const name = "shell-project"
		for _, user := range []string{"", "root"} {
			as := "as user"
			if user != "" {
				as = "as root inside"
			}
			run := func(args ...string) string {
				all := append([]string{"exec", "-u", user, name, me, "intruder"}, args...)
				if user == "" {
					all = append([]string{"exec", name, me, "intruder"}, args...)
				}
				r := c.Run(all...)
				if r.Code != 0 {
					t.Errorf("%s: %v", as, r)
				}
				return r.Stdout + r.Stderr
			}
			k.quiet(t, as+", by path", run(append([]string{"read"}, k.files...)...))
			out := run("search", k.mark[:8+len("canary-")], "/", "/proc/1/root", "/proc/self/root", "/proc/1/cwd")
			k.quiet(t, as+", by search", out)
			// Docker's is one of the sandbox's own; connections to the host's are counted below.
			for line := range strings.Lines(run(append([]string{"connect"}, k.sockets...)...)) {
				if strings.HasPrefix(line, "CONNECTED") && !strings.Contains(line, " /run/docker.sock ") {
					t.Errorf("%s: a socket of the host answered: %s", as, line)
				}
			}
		}
		k.mu.Lock()
		if len(k.visits) > 0 {
			t.Errorf("somebody came to sockets of the host: %q", k.visits)
		}
		k.mu.Unlock()
		m := c.Machine(t, name)
		k.unreachable(t, "gofer", m.Gofer)
		k.unreachable(t, "sentry", m.Sentry)

		// The same copied out by bothy itself.
		for _, path := range k.files {
			r := c.Run("cp", "-u", "root", name+":"+path, "-")
			k.quiet(t, "cp "+path, r.Stdout)
		}
	})
}

// TestCanariesBite checks that the tests above can fail: each of their means finds a canary in the
// workspace.
func TestCanariesBite(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		k := &canaries{mark: newMark()}
		path := c.Write(t, filepath.Join(c.Work, "open"), k.mark)
		me := c.Plant(t, c.Work)
		out := c.Must(t, "run", "shell", c.Work, "--", me, "intruder", "read", path)
		out += c.Must(t, "exec", "shell-project", me, "intruder", "search", k.mark, "/")
		if strings.Count(out, "READ ") < 3 || !strings.Contains(out, "CONTENT of") {
			t.Errorf("the intruder finds less than it should:\n%s", out)
		}
		at, err := unix.Open(fmt.Sprintf("/proc/%d/root", c.Machine(t, "shell-project").Gofer), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(at)
		fd, err := unix.Openat2(at, path, &unix.OpenHow{Flags: unix.O_PATH, Resolve: unix.RESOLVE_IN_ROOT})
		if err != nil {
			t.Fatalf("the workspace is not under the gofer's root: %v", err)
		}
		unix.Close(fd)
	})
}
