package gvisor

import (
	"reflect"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/cpuid"
)

// TestReadCPUID compares the features that we read with those that gVisor would have read.
func TestReadCPUID(t *testing.T) {
	readCPUID()
	if hostFeatureSet.Function == nil {
		t.Fatal("gVisor's own variable is another one now")
	}
	// A processor reports its own number, so both must ask the same one.
	runtime.LockOSThread()
	var one unix.CPUSet
	one.Set(firstProcessor(t))
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	want := cpuid.FeatureSet{Function: new(cpuid.Native)}.Fixed()
	got := cpuid.FeatureSet{Function: answers{}}.Fixed()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read\n%v\nwant\n%v", got, want)
	}
	cpuid.Initialize() // does nothing any more
	if have := cpuid.HostFeatureSet(); !reflect.DeepEqual(have, hostFeatureSet) {
		t.Error("gVisor read it again")
	}
	if hostFeatureSet.HasFeature(cpuid.X86FeatureSSE2) != want.HasFeature(cpuid.X86FeatureSSE2) || len(hostFeatureSet.FlagString()) == 0 {
		t.Errorf("features: %q", hostFeatureSet.FlagString())
	}
}

func firstProcessor(t *testing.T) int {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for i := range 1024 {
		if set.IsSet(i) {
			return i
		}
	}
	t.Fatal("no processor is ours")
	return -1
}
