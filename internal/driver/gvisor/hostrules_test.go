package gvisor

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
)

// TestHostRules checks that the rules change the system calls that they name, and no others.
func TestHostRules(t *testing.T) {
	p := runnable(t, hostRulesCode())
	values := constants(hostRulesCode())
	rules, changed := slices.Concat(hostRules, processorRules), 0
	for nr := range int32(600) {
		for arg := range 6 {
			for _, v := range values {
				d := linux.SeccompData{Nr: nr, Arch: auditArch}
				d.Args[arg] = v
				want := uint32(linux.SECCOMP_RET_ALLOW)
				for _, r := range rules {
					value := uint32(d.Args[r.arg])
					if nr == int32(r.nr) && (r.mask == 0 || value&r.mask != 0) && (r.is == 0 || value == r.is) {
						want = uint32(linux.SECCOMP_RET_ERRNO) | r.errno
						changed++
					}
				}
				if got := decide(t, p, d); got != want {
					t.Fatalf("%+v: %#x, want %#x", d, got, want)
				}
			}
		}
	}
	if changed == 0 {
		t.Error("nothing was changed")
	}
}

// inChild runs the rest of a test in a process of its own.
func inChild(t *testing.T) bool {
	const step = "BOTHY_TEST_RULES"
	if os.Getenv(step) != "" {
		return true
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), step+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

// TestKeepHostRules checks that a process under the rules leaves no set-uid file on the host, whatever it
// calls.
func TestKeepHostRules(t *testing.T) {
	if !inChild(t) {
		return
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := keepHostRules(); err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(dir, "made")
	for name, err := range map[string]error{
		"fchmod":    unix.Fchmod(int(f.Fd()), 0o4755),
		"fchmodat":  unix.Fchmodat(unix.AT_FDCWD, file, 0o2755, 0),
		"fchmodat2": unix.Fchmodat(unix.AT_FDCWD, file, 0o6755, unix.AT_SYMLINK_NOFOLLOW),
		"mknodat":   unix.Mknodat(unix.AT_FDCWD, made, unix.S_IFREG|0o4755, 0),
		"openat":    open(made, 0o4755),
	} {
		if err != unix.EPERM {
			t.Errorf("%s: %v, want %v", name, err, unix.EPERM)
		}
	}
	if err := unix.Fchownat(unix.AT_FDCWD, file, 4321, 4321, 0); err != nil {
		t.Errorf("fchownat: %v", err)
	}
	if err := unix.Fchmod(int(f.Fd()), 0o755); err != nil {
		t.Errorf("fchmod with no such bit: %v", err)
	}
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil || st.Mode&0o7777 != 0o755 || int(st.Uid) != os.Getuid() {
		t.Errorf("mode %o of %d, %v", st.Mode, st.Uid, err)
	}
	if _, err := os.Lstat(made); err == nil {
		t.Error("a file was made")
	}
}

func open(path string, mode uint32) error {
	fd, err := unix.Openat(unix.AT_FDCWD, path, unix.O_CREAT|unix.O_WRONLY, mode)
	if err == nil {
		unix.Close(fd)
	}
	return err
}
