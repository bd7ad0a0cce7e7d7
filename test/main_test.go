package test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/test/harness"
)

// ordinary is the uid and gid of the user as whom root runs the tests a second time. No account has it.
const ordinary = 54321

// lab is shared by all tests of this process.
var lab struct {
	bin     string // directory with the bothy under test
	scripts string // directory with the scripts
	user    string // directory of the ordinary user; only for root
	self    string // this test binary, where the ordinary user can access it
	wall    error  // why no sandbox can be made here
}

// Variables through which root's process passes paths to the ordinary user's. Set by hand, the first
// names a directory with a bothy to test instead of one built from these sources.
const (
	binVar     = "BOTHY_TEST_BIN"
	scriptsVar = "BOTHY_TEST_SCRIPTS"
)

func TestMain(m *testing.M) { os.Exit(runMain(m)) }

func runMain(m *testing.M) int {
	flag.Parse()
	if testing.Short() {
		return m.Run()
	}
	dir, err := prepare()
	if dir != "" {
		defer func() { _ = store.RemoveTree(dir) }()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare the tests:", err)
		return 1
	}
	if lab.wall = namespaces(); lab.wall != nil {
		fmt.Fprintln(os.Stderr, "SKIP: no sandboxes on this host:", lab.wall)
	}
	return m.Run()
}

// prepare builds the binary, once, where every user can run it.
func prepare() (dir string, err error) {
	if scripts := os.Getenv(scriptsVar); scripts != "" {
		lab.bin, lab.scripts = os.Getenv(binVar), scripts
		return "", nil
	}
	if dir, err = os.MkdirTemp("/tmp", "bothy-test-"); err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return dir, err
	}
	lab.bin, lab.scripts = filepath.Join(dir, "bin"), filepath.Join(dir, "script")
	if err := os.Mkdir(lab.bin, 0o755); err != nil {
		return dir, err
	}
	for _, name := range []string{"bothy", "bothy-keeper", "bothy-guest", "bothy-build"} {
		if err := build(name); err != nil {
			return dir, err
		}
	}
	if err := compile("examples/loop", filepath.Join(lab.bin, "loop")); err != nil {
		return dir, err
	}
	for _, name := range []string{"sandbox-ralph.sh", "looplia", "webhook.py"} {
		if err := copyProgram(filepath.Join("..", "examples", name), filepath.Join(lab.bin, name)); err != nil {
			return dir, err
		}
	}
	for _, name := range []string{"sandbox", "devcontainer", "flows"} {
		if err := os.CopyFS(filepath.Join(lab.bin, name), os.DirFS(filepath.Join("..", "examples", name))); err != nil {
			return dir, err
		}
	}
	if os.Geteuid() != 0 {
		lab.scripts = filepath.Join("testdata", "script")
		return dir, nil
	}
	return dir, prepareUser(dir)
}

func build(name string) error {
	to := filepath.Join(lab.bin, name)
	if bin := os.Getenv(binVar); bin != "" {
		err := copyProgram(filepath.Join(bin, name), to)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return compile("cmd/"+name, to)
}

func compile(pkg, to string) error {
	cmd := exec.Command("go", "build", "-o", to, "../"+pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ./%s: %w\n%s", pkg, err, out)
	}
	return nil
}

func copyProgram(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}

// prepareUser gives the ordinary user a copy of what the tests need: the user may not have access
// to the sources.
func prepareUser(dir string) error {
	if err := os.CopyFS(lab.scripts, os.DirFS(filepath.Join("testdata", "script"))); err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	lab.self = filepath.Join(dir, "bothy.test")
	if err := copyProgram(exe, lab.self); err != nil {
		return err
	}
	lab.user = filepath.Join(dir, "user")
	if err := os.Mkdir(lab.user, 0o755); err != nil {
		return err
	}
	return os.Chown(lab.user, ordinary, ordinary)
}

// namespaces tries the namespaces that every sandbox needs.
func namespaces() error {
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("user namespaces cannot be made: %w", err)
	}
	return nil
}

// asBoth runs a test as root and as an ordinary user, or only as the latter if we are not root.
func asBoth(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	callers(t, test, func(t *testing.T) { t.Parallel(); again(t) })
}

// callers runs a function for each caller: root also runs it as the ordinary user, unless an ordinary
// user runs the same tests anyway.
func callers(t *testing.T, test, again func(t *testing.T)) {
	t.Helper()
	for _, name := range harness.Callers() {
		if name == "user" && os.Geteuid() == 0 {
			t.Run(name, again)
			continue
		}
		t.Run(name, test)
	}
}

func needWall(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("short: no sandboxes are started")
	}
	if lab.wall != nil {
		harness.Missing(t, "no sandboxes on this host: %v", lab.wall)
	}
}

// again runs the calling test, and only that, in a process of the ordinary
// user.
func again(t *testing.T) {
	t.Helper()
	pattern := ""
	for name := range strings.SplitSeq(t.Name(), "/") {
		pattern += "/^" + regexp.QuoteMeta(name) + "$"
	}
	cmd := exec.CommandContext(t.Context(), lab.self, "-test.v", "-test.run="+pattern[1:])
	cmd.Dir = lab.user
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + lab.user, "TMPDIR=" + lab.user,
		binVar + "=" + lab.bin, scriptsVar + "=" + lab.scripts,
		harness.CompleteVar + "=" + os.Getenv(harness.CompleteVar),
		installsVar + "=" + os.Getenv(installsVar),
		soakTime + "=" + os.Getenv(soakTime), soakSeed + "=" + os.Getenv(soakSeed), soakIterations + "=" + os.Getenv(soakIterations),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary},
		Pdeathsig:  syscall.SIGTERM,
	}
	out, err := cmd.CombinedOutput()
	result := regexp.MustCompile(`(?m)^\s*--- (PASS|SKIP|FAIL): ` + regexp.QuoteMeta(t.Name()) + ` `).FindSubmatch(out)
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit):
		t.Fatal(err)
	case err != nil:
		t.Fatalf("as uid %d:\n%s", ordinary, out)
	case result == nil:
		t.Fatalf("as uid %d: the test did not run:\n%s", ordinary, out)
	case bytes.Equal(result[1], []byte("SKIP")):
		t.Skipf("as uid %d:\n%s", ordinary, out)
	case testing.Verbose():
		t.Logf("%s", out)
	}
}
