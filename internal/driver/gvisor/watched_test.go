package gvisor

import (
	"reflect"
	"testing"

	"gvisor.dev/gvisor/pkg/abi"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
)

// TestPassHostEvents fails if gVisor has renamed the calls, or looks them up elsewhere.
func TestPassHostEvents(t *testing.T) {
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
	before := []uintptr{call("inotify_add_watch"), call("readlinkat")}
	passHostEvents()
	if call("inotify_add_watch") == before[0] || call("readlinkat") == before[1] {
		t.Error("a call is gVisor's")
	}
}
