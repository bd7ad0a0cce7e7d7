package gvisor

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"gvisor.dev/gvisor/pkg/abi"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
)

// TestWrapSyscalls fails if gVisor has renamed the calls, or looks them up elsewhere.
func TestWrapSyscalls(t *testing.T) {
	table, ok := kernel.LookupSyscallTable(abi.Linux, arch.Host)
	if !ok {
		t.Fatal("there are no system calls")
	}
	call := func(name string) uintptr {
		nr, err := table.LookupNo(name)
		if err != nil {
			t.Fatal(err)
		}
		return reflect.ValueOf(table.Lookup(nr)).Pointer()
	}
	for what, c := range map[string]struct {
		wrap  func()
		names []string
	}{
		"seekTerminalsAsLinux": {seekTerminalsAsLinux, []string{"pread64", "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2"}},
		"openFifosAsLinux":     {openFifosAsLinux, []string{"open", "openat", "openat2", "creat"}},
		"signalBrokenPipes":    {signalBrokenPipes, slices.Collect(maps.Keys(writingCalls()))},
		"continueOrphans":      {continueOrphans, append(slices.Collect(maps.Keys(signalingCalls())), "write", "writev")},
	} {
		before, read := map[string]uintptr{}, call("read")
		for _, name := range c.names {
			before[name] = call(name)
		}
		c.wrap()
		for _, name := range c.names {
			if call(name) == before[name] {
				t.Errorf("%s leaves %s as it was", what, name)
			}
		}
		if call("read") != read {
			t.Errorf("%s changes read", what)
		}
	}
}

// TestStopSignalOffset fails if gVisor has moved the signal.
func TestStopSignalOffset(t *testing.T) {
	if stopSignalOffset() == nil {
		t.Errorf("a thread group has no field %s of the type Signal", stopSignalField)
	}
}
