package guest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// session is one program under init, with its terminal or pipes.
type session struct {
	in  *initProc
	id  uint32
	pid int
	tty *os.File // the master side; nil without a terminal

	stdin   *os.File
	toStdin chan []byte // closed by the end of input
	eofOnce sync.Once

	mu     sync.Mutex
	cond   *sync.Cond
	credit int         // bytes of output that the keeper accepts
	moved  int         // bytes of output read so far
	sizing *time.Timer // checks a new size once more; nil before the first
}

// drainTime is how long output is still read after a program ended while a child of it holds the
// terminal open.
const drainTime = 100 * time.Millisecond

// openSession starts a session and tells the keeper the result.
func (in *initProc) openSession(id uint32, sp wire.Spawn) {
	s := &session{in: in, id: id, credit: wire.Window, toStdin: make(chan []byte, wire.MaxFrames)}
	s.cond = sync.NewCond(&s.mu)
	outputs, wait, err := s.startProgram(sp)
	if err != nil {
		if f, ferr := wire.JSON(wire.Failure, id, spec.ToWire(err)); ferr == nil {
			_ = in.sendFrame(f)
		}
		return
	}
	in.mu.Lock()
	in.sessions[id] = s
	in.mu.Unlock()
	if f, err := wire.JSON(wire.Reply, id, wire.Spawned{PID: s.pid}); err == nil {
		_ = in.sendFrame(f)
	}
	go s.feedInput()
	go s.runToEnd(outputs, wait)
}

// output is a stream of the program and the kind of frame that carries it.
type output struct {
	f    *os.File
	kind wire.Kind
}

// startProgram starts the program. The caller reads the returned streams until their end.
func (s *session) startProgram(sp wire.Spawn) ([]output, chan unix.WaitStatus, error) {
	if st, err := os.Stat(sp.Dir); err != nil || !st.IsDir() {
		return nil, nil, spec.Errorf(spec.ErrNotRunnable, "working directory %s: no such directory in the sandbox", sp.Dir)
	}
	if sp.TTY {
		sp.Env = knownTerminal(sp.Env, sp.Terminals)
	}
	path, err := lookPath(sp.Args[0], sp.Env, sp.Dir)
	if err != nil {
		return nil, nil, err
	}
	attr := &syscall.ProcAttr{Dir: sp.Dir, Env: sp.Env, Sys: &syscall.SysProcAttr{
		Setsid:     true,
		Credential: credential(sp),
	}}
	if sp.Elevate && sp.UID != 0 {
		attr.Sys.AmbientCaps = []uintptr{unix.CAP_SETGID, unix.CAP_SETUID}
	}
	var outputs []output
	var theirs []*os.File
	if sp.TTY {
		master, slave, err := openTerminal(sp)
		if err != nil {
			return nil, nil, err
		}
		attr.Sys.Setctty, attr.Sys.Ctty = true, 0
		s.tty, s.stdin = master, master
		theirs = []*os.File{slave, slave, slave}
		outputs = []output{{master, wire.Data}}
	} else {
		mine, child, err := makePipes()
		if err != nil {
			return nil, nil, err
		}
		s.stdin, theirs = mine[0], child
		outputs = []output{{mine[1], wire.Data}, {mine[2], wire.Data2}}
	}
	for _, f := range theirs {
		attr.Files = append(attr.Files, f.Fd())
	}
	var wait chan unix.WaitStatus
	masked(sp.Umask, func() { wait, err = s.forkProgram(path, sp.Args, attr) })
	for _, f := range theirs {
		f.Close()
	}
	if err != nil {
		s.stdin.Close()
		return nil, nil, err
	}
	return outputs, wait, nil
}

func (s *session) forkProgram(path string, args []string, attr *syscall.ProcAttr) (chan unix.WaitStatus, error) {
	pid, wait, err := s.in.spawnChild(path, args, attr)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, spec.Errorf(spec.ErrNoSuchBinary, "%s: cannot be run: %w", args[0], err)
	case err != nil:
		return nil, spec.Errorf(spec.ErrNotRunnable, "%s: %w", args[0], err)
	}
	s.pid = pid
	return wait, nil
}

// masked calls f with a file mode mask of one thread alone: init makes its other files with its
// own mask.
func masked(umask string, f func()) {
	mask, err := strconv.ParseUint(umask, 8, 9)
	if err != nil { // the caller's mask is unknown
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with its mask
		if unix.Unshare(unix.CLONE_FS) == nil {
			unix.Umask(int(mask))
		}
		f()
	}()
	<-done
}

func credential(sp wire.Spawn) *syscall.Credential {
	c := &syscall.Credential{Uid: uint32(sp.UID), Gid: uint32(sp.GID)}
	for _, g := range sp.Groups {
		c.Groups = append(c.Groups, uint32(g))
	}
	return c
}

// makePipes makes the three standard streams: ours and the child's.
func makePipes() (mine, child []*os.File, err error) {
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			for _, f := range append(mine, child...) {
				f.Close()
			}
			return nil, nil, err
		}
		if i == 0 {
			mine, child = append(mine, w), append(child, r)
		} else {
			mine, child = append(mine, r), append(child, w)
		}
	}
	return mine, child, nil
}

// feedInput writes arriving data to the program's standard input, and gives credit for the bytes that
// the program took.
func (s *session) feedInput() {
	broken := false
	for b := range s.toStdin {
		if !broken {
			if _, err := s.stdin.Write(b); err != nil {
				broken = true
			}
		}
		_ = s.in.sendFrame(wire.CreditFrame(s.id, wire.Cost(len(b))))
	}
	if s.tty == nil {
		s.stdin.Close()
	}
}

// runToEnd carries the output until the program has ended, then reports how it ended.
func (s *session) runToEnd(outputs []output, wait chan unix.WaitStatus) {
	var wg sync.WaitGroup
	for _, o := range outputs {
		wg.Go(func() { s.carryOutput(o) })
	}
	ws := <-wait
	drained := make(chan struct{})
	go func() { wg.Wait(); close(drained) }()
	select {
	case <-drained:
	case <-s.patience(outputs):
	}
	ended := wire.Ended{Code: ws.ExitStatus()}
	if ws.Signaled() {
		ended = wire.Ended{Signal: int(ws.Signal())}
	}
	s.in.mu.Lock()
	delete(s.in.sessions, s.id)
	s.in.mu.Unlock()
	_ = s.in.sendFrame(wire.ExitFrame(s.id, ended))
	s.endInput()
	for _, o := range outputs {
		o.f.Close() // hangs up the processes that still use the terminal
	}
	s.mu.Lock()
	s.credit = wire.MaxPayload // frees carriers that wait for credit
	s.cond.Broadcast()
	s.mu.Unlock()
}

// patience ends some time after output stops moving. Children that hold the streams open do not
// keep a session alive; unread output does. The program's own output fits into the stream
// buffers, so a process that writes more is a child.
func (s *session) patience(outputs []output) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		first, _ := s.progress()
		for {
			before, blocked := s.progress()
			time.Sleep(drainTime)
			after, _ := s.progress()
			quiet := after == before && !blocked && !waiting(outputs)
			if quiet || after-first > maxBuffered {
				return
			}
		}
	}()
	return done
}

// progress returns how much output was read, and whether it waits for credit.
func (s *session) progress() (moved int, blocked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moved, s.credit <= 0
}

// maxBuffered exceeds the buffers of all streams of a program, in bytes.
const maxBuffered = 4 << 20

// waiting reports whether some output is unread: on a busy machine the goroutine that carries it may
// be late.
func waiting(outputs []output) bool {
	for _, o := range outputs {
		ready := false
		_ = control(o.f, func(fd int) error {
			ready = pollEvents(fd, unix.POLLIN)&unix.POLLIN != 0
			return nil
		})
		if ready {
			return true
		}
	}
	return false
}

func (s *session) carryOutput(o output) {
	buf := make([]byte, wire.Chunk)
	for {
		n, err := o.f.Read(buf)
		if n > 0 {
			s.takeCredit(n)
			if s.in.sendFrame(wire.Frame{Kind: o.kind, Stream: s.id, Payload: buf[:n]}) != nil {
				return
			}
		}
		if err != nil {
			return // EOF, or EIO once the terminal's last user is gone
		}
	}
}

// takeCredit waits for credit and uses n of it.
func (s *session) takeCredit(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved += n
	for s.credit <= 0 {
		s.cond.Wait()
	}
	s.credit -= wire.Cost(n)
}

func (s *session) endInput() { s.eofOnce.Do(func() { close(s.toStdin) }) }

// handleFrame handles one message of the keeper for this session.
func (s *session) handleFrame(f wire.Frame) error {
	switch f.Kind {
	case wire.Data:
		select {
		case s.toStdin <- f.Payload:
		default:
			return errors.New("the keeper sent more than it had credit for")
		}
	case wire.EOF:
		if s.tty == nil {
			s.endInput()
		}
	case wire.Credit:
		n, err := f.CreditValue()
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.credit += n
		s.cond.Broadcast()
		s.mu.Unlock()
	case wire.Resize:
		w, err := f.Winsize()
		if err != nil {
			return err
		}
		if s.tty != nil {
			s.resize(w)
		}
	case wire.Signal:
		sig, err := f.SignalValue()
		if err != nil {
			return err
		}
		_ = unix.Kill(-s.pid, unix.Signal(sig)) // its whole group
	}
	return nil
}

// lookPath finds a program in the PATH of env, as seen from dir.
func lookPath(name string, env []string, dir string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, nil
	}
	for _, kv := range env {
		list, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for _, d := range filepath.SplitList(list) {
			if !filepath.IsAbs(d) {
				d = filepath.Join(dir, d)
			}
			p := filepath.Join(d, name)
			if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
				return p, nil
			}
		}
	}
	return "", spec.Errorf(spec.ErrNoSuchBinary, "%s: command not found in the sandbox", name)
}
