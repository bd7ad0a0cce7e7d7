package gvisor

import (
	"sync"
	_ "unsafe" // for go:linkname

	"gvisor.dev/gvisor/pkg/cpuid"
)

// gVisor's cache of processor features, and how it reads them. None of it is exported.

//go:linkname cpuidOnce gvisor.dev/gvisor/pkg/cpuid.initOnce
var cpuidOnce sync.Once

//go:linkname hostFeatureSet gvisor.dev/gvisor/pkg/cpuid.hostFeatureSet
var hostFeatureSet cpuid.FeatureSet

//go:linkname readMaxCPUFreq gvisor.dev/gvisor/pkg/cpuid.readMaxCPUFreq
func readMaxCPUFreq()

//go:linkname initHWCap gvisor.dev/gvisor/pkg/cpuid.initHWCap
func initHWCap()

// readCPUID does the first step of gVisor's start, but asks the processor each question once instead
// of once for each of three hundred features. On a virtual machine each question is a call to
// the hypervisor: this takes 1 ms instead of 3.5.
func readCPUID() {
	cpuidOnce.Do(func() {
		hostFeatureSet = cpuid.FeatureSet{Function: answers{}}.Fixed()
		readMaxCPUFreq()
		initHWCap()
	})
}

// answers caches the processor's answers.
type answers map[cpuid.In]cpuid.Out

// Query asks the processor, unless the answer is cached.
func (a answers) Query(in cpuid.In) cpuid.Out {
	out, ok := a[in]
	if !ok {
		out = new(cpuid.Native).Query(in)
		a[in] = out
	}
	return out
}
