package gvisor

import (
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
)

const auditArch = linux.AUDIT_ARCH_X86_64

// processorRules let programs inside ask the processor for its features, instead of the sentry.
//
// If the processor can trap the instruction CPUID, gVisor lets it trap, and answers with the features
// that it read when the sentry started. On a host without that ability nothing traps, and gVisor accepts
// that, too. But every program linked with glibc asks some seventy times before its first line, and each
// time is a call to the sentry: two thirds of the time that true takes inside. So the request to trap it
// succeeds, and does nothing. The processes in which programs run make that request; they descend from
// the sentry, and are made before its own filter is installed.
var processorRules = []hostRule{{nr: unix.SYS_ARCH_PRCTL, is: linux.ARCH_SET_CPUID}}
