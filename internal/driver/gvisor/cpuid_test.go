package gvisor

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// arch_prctl's words.
const (
	archGetFS    = 0x1003
	archGetCPUID = 0x1011
	archSetCPUID = 0x1012
)

// TestLeaveCPUID asks, behind the filter, for CPUID to trap.
func TestLeaveCPUID(t *testing.T) {
	if len(sentryFilters) == 0 {
		t.Skip("nothing asks for CPUID to trap on this processor")
	}
	const step = "BOTHY_TEST_CPUID"
	if os.Getenv(step) == "" {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestLeaveCPUID$", "-test.v", "-test.count=1")
		cmd.Env = append(os.Environ(), step+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestLeaveCPUID") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if err := leaveCPUID(); err != nil {
		t.Fatal(err)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, archSetCPUID, 0, 0); errno != 0 {
		t.Errorf("asked for CPUID to trap: %v", errno)
	}
	// Every thread is behind the filter, and other requests are what they were.
	done := make(chan struct{})
	go func() {
		defer close(done)
		allowed, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, archGetCPUID, 0, 0)
		if errno != 0 || allowed != 1 {
			t.Errorf("CPUID is allowed: %d, %v; want 1", allowed, errno)
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, archGetFS, 0, 0); errno != unix.EFAULT {
			t.Errorf("ask for FS without a place for it: %v, want %v", errno, unix.EFAULT)
		}
	}()
	<-done
}
