package gvisor

import (
	"reflect"
	"testing"

	"gvisor.dev/gvisor/pkg/abi"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
)

// TestSeekTerminalsAsLinux fails when gVisor names the calls otherwise, or looks them up elsewhere.
func TestSeekTerminalsAsLinux(t *testing.T) {
	table, ok := kernel.LookupSyscallTable(abi.Linux, arch.Host)
	if !ok {
		t.Fatal("there are no system calls")
	}
	before := map[string]uintptr{}
	call := func(name string) uintptr {
		nr, err := table.LookupNo(name)
		if err != nil {
			t.Fatal(err)
		}
		return reflect.ValueOf(table.Lookup(nr)).Pointer()
	}
	offsets := []string{"pread64", "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2"}
	for _, name := range append(offsets, "write") {
		before[name] = call(name)
	}
	seekTerminalsAsLinux()
	for _, name := range offsets {
		if call(name) == before[name] {
			t.Errorf("%s is gVisor's", name)
		}
	}
	if call("write") != before["write"] {
		t.Error("write is another")
	}
}
