package gvisor

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Requests of arch_prctl.
const (
	archGetFS    = 0x1003
	archGetCPUID = 0x1011
	archSetCPUID = 0x1012
)

// TestLeaveCPUID checks that with the rules a request to trap CPUID reports success.
func TestLeaveCPUID(t *testing.T) {
	if !inChild(t) {
		return
	}
	if err := keepHostRules(); err != nil {
		t.Fatal(err)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, archSetCPUID, 0, 0); errno != 0 {
		t.Errorf("asked for CPUID to trap: %v", errno)
	}
	// The filter covers every thread, and other requests are unchanged.
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
