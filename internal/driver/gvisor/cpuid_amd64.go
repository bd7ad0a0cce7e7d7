package gvisor

import (
	"sync"
	_ "unsafe" // for go:linkname

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/bpf"
	"gvisor.dev/gvisor/pkg/cpuid"
	"gvisor.dev/gvisor/pkg/seccomp"
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

// leaveCPUID has programs inside ask the processor what it can do, instead of
// the sentry.
//
// Where the processor can make the instruction CPUID trap, gVisor has it trap,
// and answers with what the processor said when the sentry started. On a host
// that cannot, nothing traps, and gVisor says that this is fine too. But every
// program that is linked with glibc asks some seventy times before its first
// line, and each time costs a way to the sentry and back: two thirds of the time
// that true takes inside.
//
// So the request to let it trap succeeds, and does nothing. It is made by the
// processes in which programs run; they descend from the sentry, and are made
// before its own filter is there.
func leaveCPUID() error { return seccomp.SetFilter(cpuidFilter()) }

func cpuidFilter() []bpf.Instruction {
	allow := bpf.Stmt(bpf.Ret|bpf.K, uint32(linux.SECCOMP_RET_ALLOW))
	return []bpf.Instruction{
		bpf.Stmt(bpf.Ld|bpf.Abs|bpf.W, dataArch),
		bpf.Jump(bpf.Jmp|bpf.Jeq|bpf.K, linux.AUDIT_ARCH_X86_64, 0, 5),
		bpf.Stmt(bpf.Ld|bpf.Abs|bpf.W, dataNr),
		bpf.Jump(bpf.Jmp|bpf.Jeq|bpf.K, unix.SYS_ARCH_PRCTL, 0, 3),
		bpf.Stmt(bpf.Ld|bpf.Abs|bpf.W, dataArgs), // the lower half, which is all the kernel reads
		bpf.Jump(bpf.Jmp|bpf.Jeq|bpf.K, linux.ARCH_SET_CPUID, 0, 1),
		bpf.Stmt(bpf.Ret|bpf.K, uint32(linux.SECCOMP_RET_ERRNO)),
		allow,
	}
}
