package gvisor

import (
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
)

const auditArch = linux.AUDIT_ARCH_X86_64

// processorRules have programs inside ask the processor what it can do, instead of
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
var processorRules = []hostRule{{nr: unix.SYS_ARCH_PRCTL, is: linux.ARCH_SET_CPUID}}
