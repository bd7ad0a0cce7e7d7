package gvisor

import "gvisor.dev/gvisor/pkg/abi/linux"

const auditArch = linux.AUDIT_ARCH_AARCH64

// processorRules is empty: no program can ask the processor directly.
var processorRules []hostRule
