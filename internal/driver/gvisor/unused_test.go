package gvisor

import (
	"reflect"
	"testing"

	"gvisor.dev/gvisor/pkg/abi"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
)

// TestCloseUnusedFiles fails if gVisor has renamed the calls, or looks them up elsewhere.
func TestCloseUnusedFiles(t *testing.T) {
	table, ok := kernel.LookupSyscallTable(abi.Linux, arch.Host)
	if !ok {
		t.Fatal("there are no system calls")
	}
	call := func(name string) uintptr {
		nr, err := table.LookupNo(name)
		if err != nil {
			return 0 // arm64 has no open, creat and utime
		}
		return reflect.ValueOf(table.Lookup(nr)).Pointer()
	}
	before := map[string]uintptr{}
	for _, name := range []string{"open", "openat", "openat2", "creat", "truncate", "utime", "utimes", "futimesat", "utimensat"} {
		before[name] = call(name)
	}
	read := call("read")
	closeUnusedFiles()
	for _, name := range []string{"openat", "openat2", "truncate", "utimensat"} {
		if before[name] == 0 {
			t.Errorf("gVisor has no %s", name)
		}
	}
	for name, old := range before {
		if old != 0 && call(name) == old {
			t.Errorf("%s is gVisor's", name)
		}
	}
	if call("read") != read {
		t.Error("read is another")
	}
}
