package hostroot

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// inNamespace marks a test binary that runs in namespaces as a keeper does.
const inNamespace = "BOTHY_TEST_TEMPLATE_NS"

// noNamespace says why the tests that need namespaces are skipped.
var noNamespace = "this process has no user namespace of its own"

// TestMain runs the whole binary again in a user and mount namespace with a keeper's one-entry maps: an
// ordinary user keeps the uid, and root becomes 1000. Without namespaces the tests that need them are
// skipped.
func TestMain(m *testing.M) {
	if os.Getenv(inNamespace) != "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			fmt.Fprintln(os.Stderr, "make the mount namespace private:", err)
			os.Exit(1)
		}
		noNamespace = ""
		os.Exit(m.Run())
	}
	err := runAgain(again(os.Args[1:]...))
	if err == nil && os.Getuid() == 0 {
		err = runDisowned()
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	}
	noNamespace = "this host does not let you make user namespaces: " + err.Error()
	fmt.Fprintln(os.Stderr, noNamespace)
	os.Exit(m.Run())
}

func runAgain(cmd *exec.Cmd) error {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

// again returns a command that runs this binary in new namespaces.
func again(args ...string) *exec.Cmd {
	uid, gid := os.Getuid(), os.Getgid()
	inner := func(id int) int {
		if id == 0 {
			return 1000
		}
		return id
	}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: inner(uid), HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: inner(gid), HostID: gid, Size: 1}},
	}
	for c := range unix.CAP_LAST_CAP + 1 {
		cmd.SysProcAttr.AmbientCaps = append(cmd.SysProcAttr.AmbientCaps, uintptr(c))
	}
	return cmd
}

func needNamespace(t testing.TB) {
	t.Helper()
	if noNamespace != "" {
		t.Skip("skipped: " + noNamespace)
	}
}

// someone is the user of the tests.
var someone = User{Name: "someone", UID: 1234, GID: 1234, Home: "/home/someone"}

// fakeHost makes a small host under a directory: programs and an /etc.
func fakeHost(t testing.TB) source {
	t.Helper()
	s := source{root: t.TempDir()}
	put(t, s, "/usr/bin/bash", "#!", 0o755)
	put(t, s, "/usr/bin/tool", "tool", 0o755)
	put(t, s, "/usr/local/bin/mine", "mine", 0o755)
	put(t, s, "/opt/vendor/app", "app", 0o755)
	put(t, s, "/home/victim/.ssh/id_rsa", "CANARY", 0o644)
	put(t, s, "/root/.bashrc", "CANARY", 0o644)
	put(t, s, "/run/docker.sock", "CANARY", 0o666)
	put(t, s, "/tmp/x", "CANARY", 0o666)
	put(t, s, "/mnt/disk/x", "CANARY", 0o666)
	put(t, s, "/var/lib/dpkg/status", "Package: tool\n", 0o644)
	put(t, s, "/var/lib/dpkg/lock", "", 0o600)
	put(t, s, "/var/lib/apt/lists/index", "index", 0o644)
	put(t, s, "/var/lib/apt/lists/partial/x", "CANARY", 0o644)
	put(t, s, "/var/log/syslog", "CANARY", 0o644)
	symlink(t, s, "usr/bin", "/bin")
	symlink(t, s, "/usr/sbin", "/sbin")
	symlink(t, s, "/home/victim", "/snap")
	put(t, s, "/etc/passwd", "root:x:0:0:root:/root:/bin/bash\nnews:x:9:9:CANARY:/var/spool/news:/usr/sbin/nologin\nvictim:x:1001:1001:V:/home/victim:/bin/bash\n", 0o644)
	put(t, s, "/etc/group", "root:x:0:victim\nnews:x:9:victim\nvictim:x:1001:\n", 0o644)
	put(t, s, "/etc/hosts", "10.0.0.1 CANARY\n", 0o644)
	put(t, s, "/etc/services", "ssh 22/tcp\n", 0o644)
	put(t, s, "/etc/profile", "umask 022\n", 0o644)
	return s
}

func put(t testing.TB, s source, name, content string, mode os.FileMode) {
	t.Helper()
	p := s.path(name)
	must(t, os.MkdirAll(filepath.Dir(p), 0o755))
	must(t, os.WriteFile(p, []byte(content), 0o600))
	must(t, os.Chmod(p, mode))
}

func symlink(t testing.TB, s source, target, name string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(s.path(name)), 0o755))
	must(t, os.Symlink(target, s.path(name)))
}

func prepare(t testing.TB, s source, cache string) *Host {
	t.Helper()
	h, err := s.prepare(cache, someone)
	must(t, err)
	t.Cleanup(func() { release(t, h) })
	return h
}

// release releases the copy of /etc, as the end of the process does.
func release(t testing.TB, h *Host) {
	t.Helper()
	if h.lock >= 0 {
		must(t, unix.Close(h.lock))
		h.lock = -1
	}
}

func newCache(t testing.TB) string { return filepath.Join(t.TempDir(), "cache") }

func (h *Host) snapshotDir() string { return filepath.Join(h.cache, h.name) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return string(b)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// newRoot returns an empty directory in a tmpfs.
func newRoot(t testing.TB) string {
	t.Helper()
	needNamespace(t)
	dir := t.TempDir()
	must(t, unix.Mount("bothy", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700"))
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// list lists a directory.
func list(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var b []string
	for _, e := range entries {
		b = append(b, e.Name())
	}
	return strings.Join(b, " ")
}
