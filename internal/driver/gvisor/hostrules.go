package gvisor

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/bpf"
	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
)

// hostRule changes what one system call of the sentry does to the host.
type hostRule struct {
	nr    uint32
	arg   int    // the argument that is looked at
	mask  uint32 // the rule holds if one of these bits is set; 0: always
	errno uint32 // what the call returns instead of being made; 0: success
}

// hostRules stand before gVisor's own filter of the sentry.
//
// Only one uid exists in a sentry's user namespace: the caller's. Files made in
// a workspace belong to it whatever the inside does; but gVisor also asks the
// host to give a new file to the user who made it inside, which fails for
// everybody but the caller, root inside included, and takes the file away
// again. So changes of ownership succeed and do nothing, as on other shared
// folders that know only one owner.
//
// Nothing the inside does may leave a set-uid or set-gid file on the host: it
// would run as the caller for whoever finds it.
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

// withHostRules gives a compiled filter that decides by our rules first.
func withHostRules(p precompiledseccomp.Program) precompiledseccomp.Program {
	prefix := words(hostRulesCode())
	q := precompiledseccomp.Program{
		Name:       p.Name,
		Bytecode32: append(prefix, p.Bytecode32...), // jumps are relative
		VarOffsets: map[string][]int{},
	}
	for name, offsets := range p.VarOffsets {
		q.VarOffsets[name] = nil
		for _, o := range offsets {
			q.VarOffsets[name] = append(q.VarOffsets[name], o+len(prefix))
		}
	}
	return q
}

// hostRulesCode ends by running on into whatever comes behind it.
func hostRulesCode() []bpf.Instruction {
	var rules []bpf.Instruction
	for _, r := range hostRules {
		body := []bpf.Instruction{bpf.Stmt(bpf.Ret|bpf.K, uint32(linux.SECCOMP_RET_ERRNO)|r.errno)}
		if r.mask != 0 {
			body = append([]bpf.Instruction{
				bpf.Stmt(bpf.Ld|bpf.Abs|bpf.W, uint32(dataArgs+8*r.arg)), // the lower half, on little endian
				bpf.Jump(bpf.Jmp|bpf.Jset|bpf.K, r.mask, 0, 1),
			}, body...)
		}
		rules = append(rules,
			bpf.Stmt(bpf.Ld|bpf.Abs|bpf.W, dataNr),
			bpf.Jump(bpf.Jmp|bpf.Jeq|bpf.K, r.nr, 0, uint8(len(body))))
		rules = append(rules, body...)
	}
	arch := []bpf.Instruction{
		bpf.Stmt(bpf.Ld|bpf.Abs|bpf.W, dataArch),
		bpf.Jump(bpf.Jmp|bpf.Jeq|bpf.K, linux.AUDIT_ARCH_X86_64, 0, uint8(len(rules))),
	}
	return append(arch, rules...)
}

// words is the form in which compiled filters are kept.
func words(code []bpf.Instruction) []uint32 {
	b := bpf.ToBytecode(code)
	out := make([]uint32, 0, len(b)/4)
	for ; len(b) >= 4; b = b[4:] {
		out = append(out, binary.NativeEndian.Uint32(b))
	}
	return out
}
