package gvisor_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/driver/drivertest"
	"github.com/bothy-dev/bothy/internal/driver/gvisor"
	"github.com/bothy-dev/bothy/internal/driver/gvisor/starter"
	"github.com/bothy-dev/bothy/internal/nsproc"
)

// stepVar names the directory of a step, and tells a test binary to run that step in a keeper's
// namespaces.
const stepVar = "BOTHY_TEST_GVISOR_STEP"

// TestMain plays gVisor's children, which run this binary again.
func TestMain(m *testing.M) {
	if code, ok := starter.Main(os.Args); ok {
		os.Exit(code)
	}
	if starter.IsChild(os.Args) {
		gvisor.RunChild(os.Args)
	}
	if os.Getenv(stepVar) != "" {
		if err := nsproc.Enter(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	if os.Getenv(stepVar) == "" {
		if err := namespaces(); err != nil {
			t.Skipf("skipped: no namespaces can be made here: %v", err)
		}
	}
	if withCgo {
		cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-run=^TestConformance$", "-v", ".")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("without cgo: %v\n%s", err, out)
		}
		return
	}
	can, err := driver.Table(nil).Find(gvisor.Driver{}.Name())
	if err != nil {
		t.Fatal(err)
	}
	drivertest.Run(t, drivertest.Subject{
		Driver: gvisor.Driver{}, Capabilities: can, Machine: machine, Process: process, CaseDir: caseDir,
		Owners: true, Isolated: true, Network: true,
	})
}

func namespaces() error {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = nsproc.Attributes()
	return cmd.Run()
}

func caseDir(t *testing.T) string {
	if dir := os.Getenv(stepVar); dir != "" {
		return dir
	}
	return t.TempDir()
}

// process runs a step in a process of its own, like a keeper.
func process(t *testing.T, dir string, step func(t *testing.T)) {
	t.Helper()
	if os.Getenv(stepVar) != "" {
		step(t)
		return
	}
	pattern := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run="+pattern, "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), stepVar+"="+dir)
	cmd.SysProcAttr = nsproc.Attributes()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		t.Errorf("%v:\n%s", err, out)
	case err != nil:
		t.Fatal(err)
	case !strings.Contains(string(out), "--- PASS: "+t.Name()) && !strings.Contains(string(out), "--- SKIP: "+t.Name()):
		t.Errorf("the step did not run:\n%s", out)
	case testing.Verbose():
		t.Logf("%s", out)
	}
}

// machine returns a machine with only the host's programs in its root.
func machine(t *testing.T, dir, id string) driver.Machine {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	base := filepath.Join(dir, "machine")
	must(os.MkdirAll(base, 0o700))
	must(unix.Mount("machine", base, "tmpfs", 0, "mode=0700"))
	root := filepath.Join(base, "root")
	for _, d := range []string{"usr", "proc", "sys", "dev", "tmp", "etc", "opt", "project"} {
		must(os.MkdirAll(filepath.Join(root, d), 0o755))
	}
	for name, target := range map[string]string{"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64", "sbin": "usr/sbin"} {
		if _, err := os.Readlink("/" + name); err == nil {
			must(os.Symlink(target, filepath.Join(root, name)))
		} else if _, err := os.Stat("/" + name); err == nil {
			must(os.Mkdir(filepath.Join(root, name), 0o755))
			must(unix.Mount("/"+name, filepath.Join(root, name), "", unix.MS_BIND|unix.MS_REC, ""))
		}
	}
	must(unix.Mount("/usr", filepath.Join(root, "usr"), "", unix.MS_BIND|unix.MS_REC, ""))
	must(os.WriteFile(filepath.Join(root, "opt", "below"), []byte("below"), 0o644))
	must(os.Chmod(filepath.Join(root, "opt"), 0o777))
	for _, d := range []string{"scratch", "overlay", "log"} {
		must(os.Mkdir(filepath.Join(base, d), 0o700))
	}
	work := filepath.Join(dir, "project")
	must(os.MkdirAll(work, 0o755))
	return driver.Machine{
		ID: id, Hostname: "test",
		HostPaths: driver.HostPaths{
			Scratch: filepath.Join(base, "scratch"), Root: root, Overlay: filepath.Join(base, "overlay"), PanicLog: filepath.Join(base, "log", "panic.log"),
		},
		Mounts: []driver.Mount{
			{Source: work, Target: "/project"},
			{Target: "/tmp", Memory: true, Mode: 0o1777},
		},
		UID: os.Geteuid(), GID: os.Getegid(), Env: []string{"PATH=/usr/bin:/bin"}, Files: 4096,
	}
}
