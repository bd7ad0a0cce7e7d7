// Package doctor checks whether this host can run sandboxes and, if it cannot, tells what to change. It
// tries operations rather than reading settings: a setting may permit something that a security module
// forbids.
package doctor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/cgroup"
	"github.com/bothy-dev/bothy/internal/hostroot"
	"github.com/bothy-dev/bothy/internal/nsproc"
	"github.com/bothy-dev/bothy/internal/program"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/trust"
	"github.com/bothy-dev/bothy/spec"
)

// Result is the result of a check.
type Result string

// Results of checks. Only Fail keeps sandboxes from running.
const (
	OK   Result = "ok"
	Warn Result = "warn"
	Fail Result = "FAIL"
)

// Check is one finding.
type Check struct {
	Name   string `json:"name"`
	Result Result `json:"result"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

// Run makes all checks. state is the state directory.
func Run(ctx context.Context, state string) []Check {
	checks := []Check{checkPrograms(nsproc.Static), kernel(), namespaces(ctx)}
	checks = append(checks, limits()...)
	return append(checks, stateDir(state), checkSpace(state), authorities(""), WayOut(ctx, os.Environ()), inotify(), docker())
}

// checkPrograms checks how this program was built, and that its companion programs exist.
func checkPrograms(static bool) Check {
	if !static {
		return Check{
			Name: "build", Result: Fail, Detail: "bothy was built with cgo: its processes cannot start behind the wall, where no libraries are",
			Fix: "CGO_ENABLED=0 go install ./cmd/...",
		}
	}
	for _, name := range []string{program.Keeper, program.Guest} {
		if _, err := program.Find(name); err != nil {
			return Check{Name: "build", Result: Fail, Detail: err.Error(), Fix: spec.Hint(err)}
		}
	}
	return Check{Name: "build", Result: OK, Detail: "bothy needs no libraries, and its other programs are there"}
}

// kernel checks the processor and the kernel's age.
func kernel() Check {
	c := Check{Name: "kernel", Result: OK}
	var u unix.Utsname
	_ = unix.Uname(&u)
	release := unix.ByteSliceToString(u.Release[:])
	c.Detail = fmt.Sprintf("linux %s on %s", release, runtime.GOARCH)
	var major, minor int
	_, _ = fmt.Sscanf(release, "%d.%d", &major, &minor)
	switch {
	case runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64":
		c.Result, c.Fix = Fail, "gVisor runs on amd64 and arm64"
	case major < 4 || major == 4 && minor < 15:
		c.Result, c.Fix = Fail, "a kernel of 4.15 or later is needed"
	case runtime.GOARCH == "arm64":
		c.Result, c.Detail = Warn, c.Detail+", which is not tested"
	}
	return c
}

// ProbeArgv0 is the name under which the binary tries the keeper's namespaces.
const ProbeArgv0 = "bothy-probe"

// Probe runs inside the namespaces and performs a keeper's first steps.
func Probe() int {
	if err := nsproc.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := unix.Mount("probe", "/tmp", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64k"); err != nil {
		fmt.Fprintln(os.Stderr, "mount a tmpfs:", err)
		return 1
	}
	inner := exec.Command("/proc/self/exe")
	inner.Args = []string{ProbeArgv0, "inner"}
	inner.SysProcAttr = nsproc.Attributes()
	if out, err := inner.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "make a second user namespace within the first: %v %s\n", err, bytes.TrimSpace(out))
		return 1
	}
	return 0
}

// namespaces tries the operations that every start of a sandbox needs.
func namespaces(ctx context.Context) Check {
	c := Check{Name: "namespaces", Result: OK, Detail: "user, mount and pid namespaces can be made, and mounts in them"}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = []string{ProbeArgv0}
	cmd.Env = []string{}
	cmd.SysProcAttr = nsproc.Attributes()
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	start := cmd.Start
	if os.Geteuid() == 0 { // as the engine does: root's sandboxes start in a mount namespace of the host
		at, err := os.MkdirTemp("", "bothy-doctor-")
		if err != nil {
			c.Result, c.Detail, c.Fix = Fail, err.Error(), "make room in the directory for temporary files"
			return c
		}
		defer os.Remove(at)
		start = func() error { return hostroot.Disown(at, cmd.Start) }
	}
	err := start()
	if err == nil {
		err = cmd.Wait()
	} else if errors.Is(err, unix.EPERM) && os.Geteuid() == 0 {
		c.Fix = "this root lacks CAP_SYS_ADMIN, as in a container: give it that (docker: --cap-add SYS_ADMIN --security-opt seccomp=unconfined --security-opt systempaths=unconfined), or run bothy as an ordinary user"
	}
	if err == nil {
		return c
	}
	c.Result = Fail
	c.Detail = strings.TrimSpace(said.String())
	if c.Detail == "" {
		c.Detail = err.Error()
	}
	c.Fix = cmp.Or(c.Fix, namespaceFix())
	return c
}

// namespaceFix looks for the usual reasons.
func namespaceFix() string {
	switch {
	case sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
		exe, _ := os.Executable()
		return "this system lets only listed programs use user namespaces; write /etc/apparmor.d/bothy: " +
			"abi <abi/4.0>, include <tunables/global> profile bothy " + exe + " flags=(unconfined) { userns, } and run apparmor_parser -r on it, " +
			"or: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
	case sysctl("kernel/unprivileged_userns_clone") == "0":
		return "sysctl -w kernel.unprivileged_userns_clone=1"
	case sysctl("user/max_user_namespaces") == "0":
		return "sysctl -w user.max_user_namespaces=15000"
	}
	return "inside a container, start it with a security profile that allows user namespaces and an unmasked /proc (docker: --security-opt seccomp=unconfined --security-opt systempaths=unconfined)"
}

func sysctl(name string) string {
	b, err := os.ReadFile(filepath.Join("/proc/sys", name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// limits checks which limits the host can enforce on a sandbox.
func limits() []Check {
	var out []Check
	for _, s := range cgroup.Support() {
		c := Check{Name: "limit " + s.Name, Result: OK, Detail: "by " + s.By}
		if !s.Enforceable {
			c.Result, c.Detail, c.Fix = Warn, s.Reason, s.Fix
		}
		out = append(out, c)
	}
	return out
}

// stateDir checks that state can be stored.
func stateDir(dir string) Check {
	c := Check{Name: "state directory", Result: OK, Detail: dir}
	if dir == "" {
		c.Result, c.Detail, c.Fix = Fail, "HOME is not set", "set BOTHY_HOME to a directory for Bothy's state"
		return c
	}
	s, err := store.Open(dir)
	if err == nil {
		probe := filepath.Join(s.Path(), ".doctor")
		if err = store.WriteFile(probe, nil); err == nil {
			err = os.Remove(probe)
		}
	}
	if err != nil {
		c.Result, c.Detail, c.Fix = Fail, err.Error(), "make it writable for you, or set BOTHY_HOME to another directory"
	}
	return c
}

// minSpace is the free space that a sandbox should have, in bytes.
const minSpace = 1 << 30

func checkSpace(dir string) Check {
	c := Check{Name: "disk space", Result: OK}
	for dir != "/" && dir != "." && dir != "" {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		dir = filepath.Dir(dir)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		c.Result, c.Detail = Warn, err.Error()
		return c
	}
	free := int64(st.Bavail) * st.Bsize
	c.Detail = fmt.Sprintf("%.1f GiB free", float64(free)/(1<<30))
	if free < minSpace {
		c.Result, c.Fix = Warn, "free some space, or set BOTHY_HOME to another disk"
	}
	return c
}

// authorities looks for the bundle of public certificate authorities on the host whose tree starts at
// root.
func authorities(root string) Check {
	c := Check{Name: "certificates", Result: OK, Detail: "programs inside trust the public authorities this host trusts"}
	if trust.Find(root).Empty() {
		c.Result, c.Detail = Warn, "no bundle of public authorities was found on this host: programs inside can speak TLS only where Bothy reads along"
		c.Fix = "install ca-certificates, and start the sandboxes again"
	}
	return c
}

// inotify reminds the user of a difference inside, which is not a fault.
func inotify() Check {
	return Check{Name: "file watching", Result: OK, Detail: "programs inside are told of changes made on the host, in up to 2048 directories that they watch; beyond them, let watchers poll"}
}
