package gvisor

import (
	"sync"
	_ "unsafe" // for go:linkname

	"gvisor.dev/gvisor/pkg/cpuid"
)

// What gVisor keeps of the processor, and how it reads it. None is exported.

//go:linkname cpuidOnce gvisor.dev/gvisor/pkg/cpuid.initOnce
var cpuidOnce sync.Once

//go:linkname hostFeatureSet gvisor.dev/gvisor/pkg/cpuid.hostFeatureSet
var hostFeatureSet cpuid.FeatureSet

//go:linkname readMaxCPUFreq gvisor.dev/gvisor/pkg/cpuid.readMaxCPUFreq
func readMaxCPUFreq()

//go:linkname initHWCap gvisor.dev/gvisor/pkg/cpuid.initHWCap
func initHWCap()

// readCPUID does what gVisor does first of all, but asks the processor each
// question once instead of once for each of three hundred features. On a virtual
// machine each time is a call to the hypervisor: 1 ms instead of 3.5.
func readCPUID() {
	cpuidOnce.Do(func() {
		hostFeatureSet = cpuid.FeatureSet{Function: answers{}}.Fixed()
		readMaxCPUFreq()
		initHWCap()
	})
}

// answers are what the processor said.
type answers map[cpuid.In]cpuid.Out

// Query asks the processor what it has not been asked yet.
func (a answers) Query(in cpuid.In) cpuid.Out {
	out, ok := a[in]
	if !ok {
		out = new(cpuid.Native).Query(in)
		a[in] = out
	}
	return out
}
