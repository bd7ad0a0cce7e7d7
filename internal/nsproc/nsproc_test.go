package nsproc

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// role is set when this binary is started again in namespaces.
const role = "BOTHY_TEST_NSPROC_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "look":
		os.Exit(look())
	case "nest":
		os.Exit(nest())
	case "sleep":
		time.Sleep(time.Minute)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// look prints the process's view after Enter.
func look() int {
	if err := Enter(); err != nil {
		fmt.Println("enter:", err)
		return 1
	}
	self, _ := os.Readlink("/proc/self")
	status, _ := os.ReadFile("/proc/self/status")
	caps := ""
	for line := range strings.Lines(string(status)) {
		if v, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps = strings.TrimSpace(v)
		}
	}
	sid, _ := unix.Getsid(0)
	fmt.Println(os.Getpid(), self, os.Getuid(), os.Getgid(), sid, caps, unix.Mount("x", "/tmp", "tmpfs", 0, "size=64k") == nil)
	return 0
}

// nest leaves a child in the namespace and prints its own pid.
func nest() int {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{role + "=sleep"}
	cmd.Stdout = os.Stdout
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("up")
	time.Sleep(time.Minute)
	return 0
}

func start(t *testing.T, r string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = []string{role + "=" + r}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = Attributes()
	return cmd
}

// denied skips the test if the host allows no namespaces.
func denied(t *testing.T, err error) {
	t.Helper()
	if err != nil && (os.IsPermission(err) || strings.Contains(err.Error(), "no space left")) {
		t.Skipf("this host makes no user namespaces: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestEnter(t *testing.T) {
	before, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	out, err := start(t, "look").Output()
	denied(t, err)
	f := strings.Fields(string(out))
	if len(f) != 7 {
		t.Fatalf("it says %q", out)
	}
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid = InnerID
	}
	if gid == 0 {
		gid = InnerID
	}
	if f[0] != "1" || f[1] != "1" {
		t.Errorf("it is process %s, and %s in /proc", f[0], f[1])
	}
	if f[2] != strconv.Itoa(uid) || f[3] != strconv.Itoa(gid) {
		t.Errorf("it is %s:%s, want %d:%d", f[2], f[3], uid, gid)
	}
	if f[4] != "1" {
		t.Errorf("its session is %s: a signal for our terminal would reach it", f[4])
	}
	caps, err := strconv.ParseUint(f[5], 16, 64)
	if want := uint64(1)<<(lastCapability()+1) - 1; err != nil || caps != want {
		t.Errorf("it has the capabilities %x, want %x", caps, want)
	}
	if f[6] != "true" {
		t.Error("it cannot mount")
	}
	if after, _ := os.ReadFile("/proc/self/mountinfo"); string(after) != string(before) {
		t.Error("its mounts are ours too")
	}
}

// TestKillTakesAll checks that no process in the namespaces outlives their first process.
func TestKillTakesAll(t *testing.T) {
	cmd := start(t, "nest")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	denied(t, cmd.Start())
	buf := make([]byte, 16)
	if n, err := out.Read(buf); err != nil || string(buf[:n]) != "up\n" {
		t.Fatalf("it says %q, %v", buf[:n], err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, err := out.Read(buf); done <- err }() // the child holds the pipe
	select {
	case err := <-done:
		if err == nil {
			t.Error("the child talks")
		}
	case <-time.After(30 * time.Second):
		t.Error("the child lives on")
	}
	_ = cmd.Wait()
}

func TestAttributes(t *testing.T) {
	a := Attributes()
	if a.Cloneflags != unix.CLONE_NEWUSER|unix.CLONE_NEWNS|unix.CLONE_NEWPID || !a.Setsid {
		t.Errorf("flags %x, session of its own %t", a.Cloneflags, a.Setsid)
	}
	for _, m := range [][]syscall.SysProcIDMap{a.UidMappings, a.GidMappings} {
		if len(m) != 1 || m[0].Size != 1 || m[0].ContainerID == 0 {
			t.Errorf("mapping %+v: one id, and no root inside", m)
		}
	}
	if a.GidMappingsEnableSetgroups {
		t.Error("groups could be dropped to get around a deny")
	}
}

// TestKeepDescriptors checks that descriptors left open by our own parents do not reach the
// processes we start, except for the standard streams.
func TestKeepDescriptors(t *testing.T) {
	fd, err := unix.Open("/dev/null", unix.O_RDONLY, 0) // without O_CLOEXEC
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	std := make([]int, 3)
	for i := range std {
		std[i], _ = unix.FcntlInt(uintptr(i), unix.F_GETFD, 0)
	}
	KeepDescriptors()
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("descriptor %d is inherited (%v)", fd, err)
	}
	for i := range std {
		if flags, _ := unix.FcntlInt(uintptr(i), unix.F_GETFD, 0); flags != std[i] {
			t.Errorf("standard stream %d was changed", i)
		}
	}
}
