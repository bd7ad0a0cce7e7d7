package gvisor

import (
	"gvisor.dev/gvisor/pkg/abi"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
)

// wrapper makes a system call out of gVisor's own.
type wrapper func(kernel.SyscallFn) kernel.SyscallFn

// wrapSyscalls wraps the system calls of these names. It skips names that this processor's table
// lacks. It must run before the kernel inside exists.
func wrapSyscalls(wrap wrapper, names ...string) {
	table, ok := kernel.LookupSyscallTable(abi.Linux, arch.Host)
	if !ok {
		return
	}
	for _, name := range names {
		nr, err := table.LookupNo(name)
		if err != nil {
			continue
		}
		call := table.Table[nr]
		call.Fn = wrap(call.Fn)
		table.Table[nr] = call
	}
	table.Init() // the kernel uses a copy for its lookups
}
