package cgroup

import (
	"math"
	"testing"
)

func TestHostPids(t *testing.T) {
	for inside, want := range map[int64]int64{
		0: 32768, 1: 1028, 100: 1424, 4096: 17408, 2_000_000: maxPids, math.MaxInt64: maxPids,
	} {
		if got := hostPids(inside); got != want {
			t.Errorf("hostPids(%d) = %d, want %d", inside, got, want)
		}
	}
}

func TestFormatBytes(t *testing.T) {
	for n, want := range map[int64]string{
		1: "1", 1023: "1023", 1024: "1k", 1 << 20: "1m", 512 << 20: "512m", 3 << 29: "1536m",
		4 << 30: "4g", 1 << 40: "1t", 1 << 50: "1024t", 1<<30 + 1: "1073741825",
	} {
		if got := formatBytes(n); got != want {
			t.Errorf("formatBytes(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestCPUQuota(t *testing.T) {
	for cpus, want := range map[float64]string{
		0.001: "1000 100000", 0.5: "50000 100000", 1.25: "125000 100000", 64: "6400000 100000",
		math.Inf(1): "100000000000 100000",
	} {
		f := newFake(t)
		top := f.v2("cpu", "/")
		f.put(top, "cpu.max", "max 100000")
		if _, err := cpuQuota(cpus)(f.host(), 2, top); err != nil {
			t.Fatal(err)
		}
		if got := f.read("cg/unified/cpu.max"); got != want {
			t.Errorf("%v processors: cpu.max is %q, want %q", cpus, got, want)
		}
	}
}
