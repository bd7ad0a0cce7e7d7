package gvisor

import (
	"reflect"
	"slices"
	"sync"
	"time"
	"unsafe"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
)

// continueOrphans keeps processes of orphaned groups from being stopped by SIGTSTP, SIGTTIN and SIGTTOU.
//
// A process group is orphaned if no shell of its session could continue it: none of its members has a
// parent in another group of the same session. Every agent is in such a group, since init starts it in a
// session of its own. Linux ignores the default action of these three signals there. gVisor stops the
// process, so Ctrl-Z would stop an agent for good. So the watch sends such a process SIGCONT as soon as
// it has stopped. SIGSTOP stops it as on Linux.
//
// On Linux, a group that is orphaned while it is stopped gets SIGHUP and SIGCONT. gVisor does so in some
// cases, but not when the parent has ended.
//
// gVisor does not report stops. But all causes of a stop pass here: the system calls that send signals,
// and writes to the master of a terminal. They start a watch, which repeats for a while: the process
// stops a little later.
func continueOrphans() {
	for name, arg := range signalingCalls() {
		wrapSyscalls(afterStopSignal(arg), name)
	}
	wrapSyscalls(afterTerminalInput, "write", "writev")
}

// signalingCalls returns the system calls that send a signal, with the index of the signal argument.
func signalingCalls() map[string]int {
	return map[string]int{
		"kill": 1, "tkill": 1, "tgkill": 2, "rt_sigqueueinfo": 1, "rt_tgsigqueueinfo": 2, "pidfd_send_signal": 1,
	}
}

// jobStops are the signals that stop a job, but no process of an orphaned group.
var jobStops = linux.MakeSignalSet(linux.SIGTSTP, linux.SIGTTIN, linux.SIGTTOU)

// afterStopSignal looks for stopped orphans after a call whose argument sig is one of jobStops.
func afterStopSignal(sig int) wrapper {
	return func(fn kernel.SyscallFn) kernel.SyscallFn {
		return func(t *kernel.Task, nr uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
			n, ctl, err := fn(t, nr, args)
			if s := linux.Signal(args[sig].Int()); err == nil && s.IsValid() && linux.SignalSetOf(s)&jobStops != 0 {
				stopped.startWatch(t.Kernel())
			}
			return n, ctl, err
		}
	}
}

// afterTerminalInput looks for stopped orphans after a write to the master of a terminal. The write
// may have been Ctrl-Z. The terminal's settings determine that key, so any key counts.
func afterTerminalInput(fn kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, nr uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		n, ctl, err := fn(t, nr, args)
		if err == nil && isTerminalMaster(t, args[0].Int()) {
			stopped.startWatch(t.Kernel())
		}
		return n, ctl, err
	}
}

// terminalMaster is the type of a master's open file. The type is not exported.
const terminalMaster = "*devpts.masterFileDescription"

func isTerminalMaster(t *kernel.Task, fd int32) bool {
	file := t.GetFile(fd)
	if file == nil {
		return false
	}
	defer file.DecRef(t)
	return reflect.TypeOf(file.Impl()).String() == terminalMaster
}

// The delays between checks for stopped orphans, and the time that checks continue after the last cause.
// They also continue while a receiver blocks a pending signal, and while a job is stopped.
const (
	firstLook = time.Millisecond
	slowLook  = time.Second
	lookFor   = 2 * time.Second
)

// stopped is the sentry's one orphanWatch.
var stopped orphanWatch

// orphanWatch looks for stopped orphans while some may exist.
type orphanWatch struct {
	mu      sync.Mutex
	running bool
	again   bool // a new cause came since the last check

	// jobs are the stopped processes whose shell exists. Only run uses them.
	jobs map[*kernel.ThreadGroup]bool
}

// startWatch starts the watch, or restarts it.
func (w *orphanWatch) startWatch(k *kernel.Kernel) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.again = true
	if !w.running {
		w.running = true
		go w.watchOrphans(k)
	}
}

func (w *orphanWatch) watchOrphans(k *kernel.Kernel) {
	var since, wait time.Duration
	for {
		if w.renewed() {
			since, wait = 0, firstLook
		}
		time.Sleep(wait)
		since, wait = since+wait, min(2*wait, slowLook)
		w.tendOrphans(k)
		if since >= lookFor && len(w.jobs) == 0 && !stopPending(k) && w.endsWatch() {
			return
		}
	}
}

// renewed reports whether a new cause came since its last call.
func (w *orphanWatch) renewed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	again := w.again
	w.again = false
	return again
}

// endsWatch ends the watch unless a new cause came.
func (w *orphanWatch) endsWatch() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = w.again
	return !w.running
}

// tendOrphans sends SIGCONT to processes of orphaned groups that one of jobStops has stopped. It sends SIGHUP
// first if they were a shell's jobs at the last check.
func (w *orphanWatch) tendOrphans(k *kernel.Kernel) {
	jobs := map[*kernel.ThreadGroup]bool{}
	groups := k.TaskSet().Root.ThreadGroups()
	for _, tg := range groups {
		if s := stopSignal(tg); !s.IsValid() || linux.SignalSetOf(s)&jobStops == 0 {
			continue
		}
		if !orphaned(tg.ProcessGroup(), groups) {
			jobs[tg] = true
			continue
		}
		// SendExternalSignalThreadGroup waits while memory is saved. It fails for a dead process.
		if w.jobs[tg] {
			_ = k.SendExternalSignalThreadGroup(tg, kernel.SignalInfoPriv(linux.SIGHUP))
		}
		_ = k.SendExternalSignalThreadGroup(tg, kernel.SignalInfoPriv(linux.SIGCONT))
	}
	w.jobs = jobs
}

// stopPending reports whether one of jobStops is pending because its receiver blocks it.
func stopPending(k *kernel.Kernel) bool {
	return slices.ContainsFunc(k.TaskSet().Root.Tasks(), func(t *kernel.Task) bool {
		return t.PendingSignals()&jobStops != 0
	})
}

// orphaned reports whether no process could continue the group: no member has a parent in another group
// of its session. gVisor's own ProcessGroup.IsOrphan treats processes without a parent, which `exec`
// starts, as members that have one.
func orphaned(pg *kernel.ProcessGroup, groups []*kernel.ThreadGroup) bool {
	if pg == nil {
		return false
	}
	for _, member := range groups {
		leader := member.Leader()
		if member.ProcessGroup() != pg || leader.ExitState() >= kernel.TaskExitZombie && member.Count() <= 1 {
			continue
		}
		parent := leader.Parent()
		if parent == nil {
			continue
		}
		if of := parent.ThreadGroup().ProcessGroup(); of != nil && of != pg && of.Session() == pg.Session() {
			return false
		}
	}
	return true
}

// stopSignal returns the signal that has stopped the process, or 0. gVisor keeps it in an unexported
// field, and changes it under an unexported lock. So the value may be outdated when it is used;
// the next check reads it again.
func stopSignal(tg *kernel.ThreadGroup) linux.Signal {
	offset := stopSignalOffset()
	if offset == nil {
		return 0
	}
	return *(*linux.Signal)(unsafe.Add(unsafe.Pointer(tg), *offset))
}

// stopSignalOffset returns the offset of that field; nil if gVisor has no such field.
var stopSignalOffset = sync.OnceValue(func() *uintptr {
	f, ok := reflect.TypeFor[kernel.ThreadGroup]().FieldByName(stopSignalField)
	if !ok || f.Type != reflect.TypeFor[linux.Signal]() {
		return nil
	}
	return &f.Offset
})

const stopSignalField = "groupStopSignal"
