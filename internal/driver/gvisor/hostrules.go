package gvisor

import (
	"slices"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/bpf"
	"gvisor.dev/gvisor/pkg/seccomp"
)

// hostRule changes the effect of one system call of the sentry on the host.
type hostRule struct {
	nr    uint32
	arg   int    // the argument that is checked
	mask  uint32 // the rule applies if one of these bits is set; 0: always
	is    uint32 // the rule applies if the argument equals this; 0: for any argument
	errno uint32 // the call returns this without being made; 0: success
}

// hostRules apply to the sentry and all its children. They form a filter of their own, with
// processorRules, next to gVisor's filter.
//
// Only one uid exists in a sentry's user namespace: the caller's. It owns all files made in a workspace,
// whatever the inside does. But gVisor also asks the host to give a new file to the user who made it
// inside. That fails for every user except the caller, root inside included, and gVisor then removes the
// file. So changes of ownership succeed and do nothing, as on other shared folders that know only one
// owner.
//
// The inside must never leave a set-uid or set-gid file on the host: it would run as the caller for any
// user who finds it.
var hostRules = []hostRule{
	{nr: unix.SYS_FCHOWNAT},
	{nr: unix.SYS_FCHMOD, arg: 1, mask: setIDBits, errno: uint32(unix.EPERM)},
	{nr: unix.SYS_FCHMODAT, arg: 2, mask: setIDBits, errno: uint32(unix.EPERM)},
	{nr: unix.SYS_FCHMODAT2, arg: 2, mask: setIDBits, errno: uint32(unix.EPERM)},
	{nr: unix.SYS_OPENAT, arg: 3, mask: setIDBits, errno: uint32(unix.EPERM)},
	{nr: unix.SYS_MKNODAT, arg: 2, mask: setIDBits, errno: uint32(unix.EPERM)},
}

const setIDBits = unix.S_ISUID | unix.S_ISGID

// Offsets in struct seccomp_data.
const (
	dataNr   = 0
	dataArch = 4
	dataArgs = 16
)

// keepHostRules applies the rules to all threads of this process and its descendants, permanently.
func keepHostRules() error { return seccomp.SetFilter(hostRulesCode()) }

func hostRulesCode() []bpf.Instruction {
	code := []bpf.Instruction{
		bpf.Stmt(bpf.Ld|bpf.Abs|bpf.W, dataArch),
		bpf.Jump(bpf.Jmp|bpf.Jeq|bpf.K, auditArch, 1, 0),
		bpf.Stmt(bpf.Ret|bpf.K, uint32(linux.SECCOMP_RET_ALLOW)), // gVisor's own filter rejects other architectures
		bpf.Stmt(bpf.Ld|bpf.Abs|bpf.W, dataNr),
	}
	for _, r := range slices.Concat(hostRules, processorRules) {
		body := r.compileRule()
		code = append(code, bpf.Jump(bpf.Jmp|bpf.Jeq|bpf.K, r.nr, 0, uint8(len(body))))
		code = append(code, body...)
	}
	return append(code, bpf.Stmt(bpf.Ret|bpf.K, uint32(linux.SECCOMP_RET_ALLOW)))
}

// compileRule returns the decision for a call with the rule's number; each number has one rule.
func (r hostRule) compileRule() []bpf.Instruction {
	changed := bpf.Stmt(bpf.Ret|bpf.K, uint32(linux.SECCOMP_RET_ERRNO)|r.errno)
	var holds bpf.Instruction
	switch {
	case r.mask != 0:
		holds = bpf.Jump(bpf.Jmp|bpf.Jset|bpf.K, r.mask, 0, 1)
	case r.is != 0:
		holds = bpf.Jump(bpf.Jmp|bpf.Jeq|bpf.K, r.is, 0, 1)
	default:
		return []bpf.Instruction{changed}
	}
	return []bpf.Instruction{
		bpf.Stmt(bpf.Ld|bpf.Abs|bpf.W, uint32(dataArgs+8*r.arg)), // the lower half, on little endian
		holds, changed,
		bpf.Stmt(bpf.Ret|bpf.K, uint32(linux.SECCOMP_RET_ALLOW)),
	}
}
