package failcall

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Supported reports whether calls can be made to fail on this kind of processor.
const Supported = true

// Run describes how to run a program.
type Run struct {
	// Programs are the programs whose calls count. They are followed, with the shells between them;
	// others are released when they start.
	Programs []string
	// Base is a directory whose path is not part of a point's name.
	Base string
	// Mark is the last argument of a command, such as `true MARK`. Calls count from the start of that
	// command, or from the beginning if Mark is empty.
	Mark string
	// Fail returns the error with which a call fails; 0 lets the call be made.
	Fail func(Point) unix.Errno
	// Kill, if set, returns whether the process is killed before a call.
	Kill func(Point) bool
	// Limit bounds the run. Processes that still run then are killed.
	Limit time.Duration
}

// Result is the outcome of a run.
type Result struct {
	Points   []Point // in the order of the calls
	Failed   bool    // whether Fail made a call fail, or Kill killed the process
	Code     int     // exit code of the command; -1 if it was killed
	TimedOut bool
}

// Of runs cmd, which must have no pipes that a goroutine copies, and returns when it has ended.
// Processes that it left running continue untraced.
func (r Run) Of(cmd *exec.Cmd) (Result, error) {
	var res Result
	var err error
	onOwnThread(func() { res, err = r.trace(cmd) })
	return res, err
}

// onOwnThread calls f on a thread that ends with it: only then does the kernel release the processes
// that the thread traces. The first thread of a process does not end, so it is not used.
func onOwnThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and not unlocked
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			onOwnThread(f)
			return
		}
		f()
	}()
	<-done
}

// run is a run in progress. Only its own thread uses it.
type run struct {
	Run
	res      Result
	counts   map[Point]int
	programs map[int]string     // by thread
	inCall   map[int]bool       // threads between entry and exit of a call
	failing  map[int]unix.Errno // calls that were refused, until their exit
	begun    map[int]bool       // threads that have run since they are traced
	counting bool
}

const options = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK |
	unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACEEXEC

func (r Run) trace(cmd *exec.Cmd) (Result, error) {
	s := &run{
		Run: r, counts: map[Point]int{}, programs: map[int]string{}, inCall: map[int]bool{},
		failing: map[int]unix.Errno{}, begun: map[int]bool{}, counting: r.Mark == "",
	}
	first, err := startStopped(cmd)
	if err != nil {
		return s.res, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	timer := time.AfterFunc(r.Limit, func() { _ = unix.Kill(-first, unix.SIGKILL) })
	err = s.seize(first)
	if err == nil {
		err = s.follow(first)
	}
	s.res.TimedOut = !timer.Stop()
	_ = unix.Kill(-first, unix.SIGKILL) // processes of the command that an error of ours left running
	return s.res, err
}

// startStopped starts a command, which stops before its first instruction.
func startStopped(cmd *exec.Cmd) (pid int, err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Ptrace, cmd.SysProcAttr.Setpgid = true, true
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	pid = cmd.Process.Pid
	var st unix.WaitStatus
	if _, err := unix.Wait4(pid, &st, unix.WALL, nil); err != nil {
		return 0, err
	}
	if !st.Stopped() {
		return 0, fmt.Errorf("it ended at once: %#x", uint32(st))
	}
	// If the command asked to be traced, its children would be stopped by SIGSTOP, and stay stopped when
	// we are gone. So it is detached, stopped, and seized.
	return pid, detachStopped(pid)
}

func detachStopped(pid int) error { return ptrace(unix.PTRACE_DETACH, pid, 0, uintptr(unix.SIGSTOP)) }

// seize starts to trace a stopped process and lets it continue.
func (s *run) seize(pid int) error {
	if err := ptrace(unix.PTRACE_SEIZE, pid, 0, options); err != nil {
		return fmt.Errorf("trace process %d: %w", pid, err)
	}
	s.programs[pid] = programOf(pid)
	return unix.Kill(pid, unix.SIGCONT)
}

func ptrace(request, pid int, addr, data uintptr) error {
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(pid), addr, data, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// follow handles all stops until the first process has ended.
func (s *run) follow(first int) error {
	const ownThread = 0x20000000 // __WNOTHREAD: do not wait for children of other threads
	for {
		var st unix.WaitStatus
		pid, err := unix.Wait4(-1, &st, unix.WALL|ownThread, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for traced processes: %w", err)
		}
		if st.Exited() || st.Signaled() {
			s.forget(pid)
			if pid != first {
				continue
			}
			s.res.Code = -1
			if st.Exited() {
				s.res.Code = st.ExitStatus()
			}
			return nil
		}
		if err := s.stopped(pid, st); err != nil && !errors.Is(err, unix.ESRCH) { // it may have been killed meanwhile
			return fmt.Errorf("process %d (%s): %w", pid, s.programs[pid], err)
		}
	}
}

// stopped handles one stop, and lets the process continue.
func (s *run) stopped(pid int, st unix.WaitStatus) error {
	if _, known := s.programs[pid]; !known {
		s.programs[pid] = programOf(pid)
	}
	sig, event := st.StopSignal(), int(st)>>16
	switch {
	case sig == unix.SIGTRAP|0x80:
		detached, err := s.atCall(pid)
		if detached || err != nil {
			return err
		}
	case event == unix.PTRACE_EVENT_EXEC:
		if detached, err := s.atExec(pid); detached || err != nil {
			return err
		}
	case event == unix.PTRACE_EVENT_STOP && sig != unix.SIGTRAP: // stopped by a signal: it stays stopped
		if s.begun[pid] {
			return ptrace(unix.PTRACE_LISTEN, pid, 0, 0)
		}
	case event != 0: // a new thread or process, or its parent
	default:
		return unix.PtraceSyscall(pid, int(sig))
	}
	s.begun[pid] = true
	return unix.PtraceSyscall(pid, 0)
}

// atExec handles the start of a program.
func (s *run) atExec(pid int) (detached bool, err error) {
	s.programs[pid] = programOf(pid)
	if s.Mark != "" && slices.Contains(commandLine(pid), s.Mark) {
		s.counting = true
	}
	if !s.followed(pid) {
		s.forget(pid)
		return true, unix.PtraceDetach(pid)
	}
	s.inCall[pid] = true // the exit of execve comes next
	return false, nil
}

func (s *run) forget(pid int) {
	delete(s.programs, pid)
	delete(s.inCall, pid)
	delete(s.failing, pid)
	delete(s.begun, pid)
}

// atCall handles the entry or the exit of a call.
func (s *run) atCall(pid int) (detached bool, err error) {
	if s.inCall[pid] {
		delete(s.inCall, pid)
		if errno, ok := s.failing[pid]; ok {
			delete(s.failing, pid)
			return false, answer(pid, errno)
		}
		return false, nil
	}
	s.inCall[pid] = true
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(pid, &regs); err != nil {
		return false, err
	}
	if tracesItself(&regs) {
		s.forget(pid)
		return true, unix.PtraceDetach(pid)
	}
	if !s.counting || !slices.Contains(s.Programs, s.programs[pid]) {
		return false, nil
	}
	p, ok := s.point(pid, &regs)
	if !ok {
		return false, nil
	}
	s.counts[p]++
	p.Nth = s.counts[p]
	s.res.Points = append(s.res.Points, p)
	if s.Kill != nil && s.Kill(p) {
		s.res.Failed = true
		return false, unix.Kill(pid, unix.SIGKILL)
	}
	if errno := s.Fail(p); errno != 0 {
		s.res.Failed = true
		s.failing[pid] = errno
		if goesOn(p, errno) {
			return false, nil
		}
		return false, refuse(pid, &regs)
	}
	return false, nil
}

// followed reports whether a program that has just started is one whose calls count, or a shell.
func (s *run) followed(pid int) bool {
	name := s.programs[pid]
	return slices.Contains(s.Programs, name) || name == "sh" || name == "true"
}

func commandLine(pid int) []string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
}

func programOf(pid int) string {
	args := commandLine(pid)
	if len(args) == 0 {
		return ""
	}
	return filepath.Base(args[0])
}

// readString reads a path from a traced process.
func readString(pid int, at uint64) string {
	var out []byte
	var word [8]byte
	for len(out) < unix.PathMax {
		if _, err := unix.PtracePeekData(pid, uintptr(at), word[:]); err != nil {
			return string(out)
		}
		if i := bytes.IndexByte(word[:], 0); i >= 0 {
			return string(append(out, word[:i]...))
		}
		out, at = append(out, word[:]...), at+uint64(len(word))
	}
	return string(out)
}

func readWord(pid int, at uint64) uint64 {
	var word [8]byte
	if _, err := unix.PtracePeekData(pid, uintptr(at), word[:]); err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(word[:])
}

// openFile returns the path of an open file, or "" if it is unknown.
func openFile(pid int, fd uint64) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(path, " (deleted)")
}
