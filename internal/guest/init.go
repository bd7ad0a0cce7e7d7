// Package guest holds the programs that Bothy runs inside a sandbox. Init is process 1 and owns
// long-lived sessions and their terminals. The others are sudo, the two halves of cp, and the program
// that keeps the sandbox's authority in bundles that are written inside. The package runs behind the
// wall, next to hostile code. No program outside trusts it.
package guest

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
)

// Names under which the binary is started inside.
const (
	InitName = "bothy-init"
	SudoName = "sudo"
	CopyName = "bothy-copy"
)

// Path is the path of the binary inside.
const Path = "/.bothy/guest"

// pidsMax is the sentry's own control file for the cgroup of everything inside. Root inside can write it
// too: it keeps accidents small, and the host's cgroup stops an attacker.
const pidsMax = "/sys/fs/cgroup/pids/pids.max"

// initFD is where the keeper put init's socket (driver.InitFD).
const initFD = 7

// Init is process 1. It returns only when the keeper is gone. Its arguments are the greatest number of
// processes and threads inside (0 means no limit), whether the root has files of earlier starts
// ("true"), and the use of Docker's socket (DockerOn, DockerOff; empty means none).
func Init(args []string) int {
	err := become(0, 0, nil)
	if err == nil && len(args) > 0 && args[0] != "0" {
		err = os.WriteFile(pidsMax, []byte(args[0]), 0)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "init: %v\n", err)
		return 1
	}
	if len(args) > 1 && args[1] == "true" {
		reportError("bothy", renewTrust("/"))
	}
	setClock()
	unix.CloseOnExec(initFD)
	sock := os.NewFile(initFD, "keeper")
	hello := wire.Greeting{Protocol: wire.Protocol}
	hello.Attached, err = attachAll()
	hello.Errno = attachError(err)
	in := &initProc{out: sock, sessions: map[uint32]*session{}, waits: map[int]chan unix.WaitStatus{}}
	// Received and dropped, not ignored: programs would inherit an ignored signal.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
	go in.reapChildren()
	if len(args) > 2 {
		in.serveDocker(args[2])
	}
	fmt.Fprintf(os.Stderr, "init: %v\n", in.serveKeeper(sock, hello))
	return 1
}

// initProc is the state of process 1.
type initProc struct {
	wmu sync.Mutex // held while init is silent
	out *os.File
	// silent is used by serve alone.
	silent bool

	mu       sync.Mutex
	sessions map[uint32]*session

	// forks is held for reading while a child is started and recorded, and for writing while children
	// are collected: no child ends unnoticed in between.
	forks sync.RWMutex

	worktrees placeholders

	wm    sync.Mutex
	waits map[int]chan unix.WaitStatus

	watching watching
}

// serveKeeper answers the keeper until it goes away, and returns why.
func (in *initProc) serveKeeper(sock *os.File, greeting wire.Greeting) error {
	hello, err := wire.JSON(wire.Hello, 0, greeting)
	if err != nil {
		return err
	}
	if err := in.sendFrame(hello); err != nil {
		return err
	}
	r := bufio.NewReaderSize(sock, wire.Chunk)
	for {
		f, err := wire.Read(r)
		if err != nil {
			return err
		}
		if err := in.handleFrame(f); err != nil {
			return err
		}
	}
}

func (in *initProc) sendFrame(f wire.Frame) error {
	in.wmu.Lock()
	defer in.wmu.Unlock()
	return in.writeFrame(f)
}

func (in *initProc) writeFrame(f wire.Frame) error {
	_, err := in.out.Write(f.Append(nil))
	return err
}

func (in *initProc) handleFrame(f wire.Frame) error {
	if f.Kind == wire.Request && f.Stream == 0 {
		return in.handleAsk(f)
	}
	if f.Kind == wire.Request {
		var sp wire.Spawn
		if err := f.Decode(&sp); err != nil {
			return err
		}
		in.openSession(f.Stream, sp)
		return nil
	}
	in.mu.Lock()
	s := in.sessions[f.Stream]
	in.mu.Unlock()
	if s == nil {
		return nil // ended meanwhile
	}
	return s.handleFrame(f)
}

func (in *initProc) handleAsk(f wire.Frame) error {
	var q wire.InitAsk
	if err := f.Decode(&q); err != nil {
		return err
	}
	if q.Ask == wire.AskSpeak { // the wall may have just resumed from an image
		setClock()
	}
	if q.Ask == wire.AskSilence || q.Ask == wire.AskSpeak {
		return in.setSilent(q.Ask == wire.AskSilence, wire.InitReply{ID: q.ID})
	}
	switch q.Ask {
	case wire.AskJoin, wire.AskListen, wire.AskTree, wire.AskWatched, wire.AskChanged, wire.AskWorktrees, wire.AskNamed: // other processes determine how long these take
		go func() { _ = in.answerAsk(q) }()
		return nil
	}
	return in.answerAsk(q)
}

// setSilent begins or ends a silence. Writers wait meanwhile, and no frame is half written: an image of
// init's memory from that time can resume with another socket.
func (in *initProc) setSilent(silent bool, r wire.InitReply) error {
	reply, err := wire.JSON(wire.Reply, 0, r)
	if err != nil {
		return err
	}
	if !in.silent {
		in.wmu.Lock()
	}
	err = in.writeFrame(reply)
	if in.silent = silent; !silent {
		in.wmu.Unlock()
	}
	return err
}

func (in *initProc) answerAsk(q wire.InitAsk) error {
	r := wire.InitReply{ID: q.ID}
	var err error
	switch q.Ask {
	case wire.AskUser:
		r.Account, err = findAccount(q.User)
	case wire.AskLargest:
		r.PID, r.Command = largestProcess()
	case wire.AskJoin:
		err = joinServer(q.Join)
	case wire.AskListen:
		err = listen(q.Listen)
	case wire.AskTree:
		err = endTree(q.Tree)
	case wire.AskWatched:
		r.Watched = in.watching.watched(q.Since)
	case wire.AskChanged:
		in.watching.changed(q.Changes)
	case wire.AskWorktrees:
		err = in.worktrees.update(q.Worktrees)
	case wire.AskNamed:
		r.Led = makeNamedLinks(q.Named, q.Places)
	default:
		err = fmt.Errorf("unknown question %q", q.Ask)
	}
	if err != nil {
		r.Error = err.Error()
	}
	reply, err := wire.JSON(wire.Reply, 0, r)
	if err != nil {
		return err
	}
	return in.sendFrame(reply)
}

// largestProcess finds the process with the most resident memory.
func largestProcess() (pid int, command string) {
	var most int64
	for _, n := range others() {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", n))
		var size, resident int64
		if err == nil {
			_, err = fmt.Sscan(string(b), &size, &resident)
		}
		if err == nil && resident >= most {
			comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", n))
			most, pid, command = resident, n, strings.TrimSpace(string(comm))
		}
	}
	return pid, command
}

// reapChildren collects all children, init's own and orphans, forever.
func (in *initProc) reapChildren() {
	chld := make(chan os.Signal, 1)
	signal.Notify(chld, unix.SIGCHLD)
	for {
		in.collect()
		<-chld
	}
}

func (in *initProc) collect() {
	in.forks.Lock()
	defer in.forks.Unlock()
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		in.wm.Lock()
		if ch := in.waits[pid]; ch != nil {
			ch <- ws
			delete(in.waits, pid)
		}
		in.wm.Unlock()
	}
}

// setClock makes the wall let programs read the time without a system call: see
// [wire.ClockFamily]. If the wall does not support that, programs only read the time more slowly.
func setClock() {
	if fd, err := unix.Socket(wire.ClockFamily, unix.SOCK_DGRAM, 0); err == nil {
		_ = unix.Close(fd)
	}
}
