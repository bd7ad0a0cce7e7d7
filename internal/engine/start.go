package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/cgroup"
	"github.com/bothy-dev/bothy/internal/credential"
	"github.com/bothy-dev/bothy/internal/gitdefaults"
	"github.com/bothy-dev/bothy/internal/hostroot"
	"github.com/bothy-dev/bothy/internal/keeper"
	"github.com/bothy-dev/bothy/internal/keeper/launch"
	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/nsproc"
	"github.com/bothy-dev/bothy/internal/prestart"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// killTime bounds the wait for a killed process to be gone.
const killTime = 5 * time.Second

// startKeeper launches a keeper for a sandbox whose lock the caller holds. It returns a conversation with the
// keeper. Programs resume from a memory image, unless from is nil.
func (e *Engine) startKeeper(ctx context.Context, sb *spec.Sandbox, lock *store.Lock, from *Memory) (*unixconn.Conn, error) {
	sb, err := e.Store.Load(sb.ID) // it may have been changed before the lock was taken
	if err != nil {
		return nil, err
	}
	if err := e.checkAPIPorts(sb); err != nil {
		return nil, err
	}
	s := &start{engine: e, sandbox: sb, dir: e.Store.Sandbox(sb.ID), prepare: e.preparation()}
	if err := s.checkProcess(); err != nil {
		return nil, err
	}
	if err := s.prepareFiles(); err != nil {
		return nil, err
	}
	return s.launch(ctx, lock, from)
}

// start is one start of a sandbox.
type start struct {
	engine  *Engine
	sandbox *spec.Sandbox
	dir     store.Sandbox
	prepare prestart.Preparation
}

// checkProcess refuses to start a sandbox of an unknown driver, or from a process that cannot start its keeper.
func (s *start) checkProcess() error {
	name := s.sandbox.Name
	if _, err := s.engine.Drivers.Find(s.sandbox.Driver); err != nil {
		return err
	}
	if nsproc.Anonymous() {
		return spec.Errorf(spec.ErrSandbox, "start sandbox %s: uid %d is the overflow uid, so callers of its sandboxes could not be identified", name, os.Geteuid()).
			WithHint("run bothy as another user")
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil && files.Max < keeper.OpenFiles {
		return spec.Errorf(spec.ErrSandbox, "start sandbox %s: only %d files may be open here, %d are needed", name, files.Max, keeper.OpenFiles).
			WithHint("raise the hard limit: ulimit -n %d", keeper.OpenFiles)
	}
	return nil
}

// prepareFiles cleans up after a crash, finishes a restore that was interrupted or refuses its result, and writes the
// files that a sandbox starts with.
func (s *start) prepareFiles() error {
	e, sb := s.engine, s.sandbox
	sayCrash(e.Keepers(), sb, s.dir)
	if err := e.cleanCrash(sb, s.dir); err != nil {
		return err
	}
	finish := e.Whole
	if e.BeforeStart != nil {
		finish = e.BeforeStart
	}
	if err := finish(sb); err != nil {
		return err
	}
	furnish := e.Homes().Refurnish
	if s.dir.ReadStatus().StartedAt == nil {
		furnish = e.Homes().Furnish
	}
	if err := furnish(sb); err != nil {
		return err
	}
	return e.Changes().Ready(sb)
}

// launch launches the keeper, and reads meanwhile what the user lends the sandbox.
func (s *start) launch(ctx context.Context, lock *store.Lock, from *Memory) (*unixconn.Conn, error) {
	remembering := make(chan struct{})
	go func() { defer close(remembering); s.engine.Changes().RememberNames(s.sandbox) }() // while the wall comes up
	defer func() { <-remembering }()
	read := s.readPersonal(ctx)
	defer read.giveUp() // whatever fails below, no command that reads a secret outlives it
	group, limits, err := s.createGroup()
	if err != nil {
		return nil, err
	}
	settings, err := s.prepare.Settings(ctx, s.sandbox, group.Path(), limits)
	var conn *unixconn.Conn
	if err == nil {
		s.addPersonal(&settings, read)
		if from != nil {
			settings.GoOn, settings.Authority = from.Dir, from.Authority()
		}
		if err = context.Cause(ctx); err == nil {
			conn, err = s.spawnKeeper(ctx, settings, group, lock)
		}
	}
	if err != nil {
		if group.Remove() == nil {
			_ = os.Remove(s.dir.Cgroup())
		}
		return nil, notStarted(s.sandbox, err)
	}
	for _, l := range settings.Limits {
		if !l.Enforced && s.engine.Unenforced != nil {
			s.engine.Unenforced(s.sandbox, l)
		}
	}
	return conn, nil
}

// personal is what the user lends a sandbox. It is read while the rest is prepared.
type personal struct {
	stop   func() // ends the reading
	lent   chan credential.Lent
	person chan *gitdefaults.Person
}

// readPersonal begins to read what the user lends the sandbox. The caller calls giveUp at the end.
func (s *start) readPersonal(ctx context.Context) *personal {
	ctx, stop := context.WithCancel(ctx)
	r := &personal{stop: stop, lent: make(chan credential.Lent, 1), person: make(chan *gitdefaults.Person, 1)}
	go func() { defer close(r.lent); r.lent <- s.engine.Credentials().ForStart(ctx, s.sandbox) }()
	go func() { defer close(r.person); r.person <- s.prepare.AskGit(ctx, s.sandbox) }()
	return r
}

// giveUp ends the reading, and waits until it has ended.
func (r *personal) giveUp() {
	r.stop()
	for range r.person {
	}
	for range r.lent {
	}
}

// addPersonal waits for what the user lends the sandbox, and adds it to the settings of the keeper and to the home.
func (s *start) addPersonal(l *launch.Settings, r *personal) {
	n := <-r.lent
	l.Loans, l.Unlent = n.Loans, n.Unlent
	s.prepare.AddGit(l, <-r.person)
	s.engine.Credentials().WriteHome(s.sandbox, n)
}

// createGroup creates the control group of the sandbox, and notes it for a later cleanup, if no process lives to write
// it into the status.
func (s *start) createGroup() (*cgroup.Group, []spec.Enforcement, error) {
	noted := func(path string) error { return os.WriteFile(s.dir.Cgroup(), []byte(path), 0o600) }
	group, limits, err := cgroup.Create(s.sandbox.ID, s.sandbox.Limits, s.engine.Defaults, noted)
	if err != nil {
		return nil, nil, &spec.Error{Class: spec.ErrSandbox, Op: "start sandbox " + s.sandbox.Name, Err: err, Hint: spec.Hint(err)}
	}
	return group, limits, nil
}

// notStarted returns the error for a sandbox that did not start.
func notStarted(sb *spec.Sandbox, err error) error {
	hint := spec.Hint(err)
	if said, ok := errors.AsType[*spec.Error](err); hint == "" && (!ok || errors.Is(said, spec.ErrSandbox)) {
		hint = "bothy doctor tells what this host lacks; the keeper's own words: bothy logs --source keeper " + sb.Name
	}
	return &spec.Error{Class: spec.ErrSandbox, Op: "start sandbox " + sb.Name, Err: err, Hint: hint}
}

// spawnKeeper starts the keeper in its own namespaces and waits until it is ready. The pid namespace makes
// sure that no process survives the keeper. The socket that it was launched over is the first
// conversation with it.
func (s *start) spawnKeeper(ctx context.Context, l launch.Settings, group *cgroup.Group, lock *store.Lock) (_ *unixconn.Conn, err error) {
	d := s.dir
	p, err := findPrograms()
	if err == nil {
		err = p.checkUntouched(s.engine.Paths)
	}
	if err != nil {
		return nil, err
	}
	if err := p.addTo(&l); err != nil {
		return nil, err
	}
	conn, theirs, err := launchPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	bothy, err := p.openBothy()
	if err != nil {
		return nil, err
	}
	defer bothy.Close()
	stderr, err := os.OpenFile(d.Log("keeper.log"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()

	cmd := &exec.Cmd{
		Path: p.keeper, Args: []string{keeper.Argv0, d.Dir},
		Env: []string{}, Dir: "/", Stderr: stderr,
		ExtraFiles:  inherited(map[int]*os.File{keeper.LaunchFD: theirs, keeper.BothyFD: bothy, keeper.LockFD: lock.File()}),
		SysProcAttr: nsproc.Attributes(),
	}
	nsproc.KeepDescriptors()
	begin := cmd.Start
	if os.Geteuid() == 0 {
		if err := os.MkdirAll(d.Programs(), 0o700); err != nil {
			return nil, err
		}
		l.Programs = d.Programs()
		begin = func() error { return hostroot.Disown(l.Programs, cmd.Start) }
	}
	if err := begin(); err != nil {
		return nil, nsproc.Explain(err)
	}
	theirs.Close()
	l.PID = cmd.Process.Pid
	ready, err := handshake(ctx, conn, l, group)
	if err != nil {
		_ = cmd.Process.Kill()
		waitBriefly(cmd)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, keeperError(d, err)
	}
	if ready.Unlent != "" {
		s.engine.Say("sandbox %s starts without its secrets: %s", s.sandbox.Name, ready.Unlent)
	}
	go func() { _ = cmd.Wait() }() // a caller that lives long keeps no zombie
	return conn, nil
}

// launchPair returns our end of a fresh conversation, and that of the keeper.
func launchPair() (ours *unixconn.Conn, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs = os.NewFile(uintptr(pair[1]), "launch")
	ours, err = fileConn(os.NewFile(uintptr(pair[0]), "launch"))
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// waitBriefly waits for a killed process. A process that hangs in a file system ends later.
func waitBriefly(cmd *exec.Cmd) {
	gone := make(chan struct{})
	go func() { defer close(gone); _ = cmd.Wait() }()
	select {
	case <-gone:
	case <-time.After(killTime):
	}
}

// inherited returns the list for exec.Cmd.ExtraFiles that puts files at these descriptors.
func inherited(at map[int]*os.File) []*os.File {
	const first = 3 // the first after the standard streams
	list := make([]*os.File, slices.Max(slices.Collect(maps.Keys(at)))-first+1)
	for fd, f := range at {
		list[fd-first] = f
	}
	return list
}

// handshake tells the keeper what to do and waits until it is done. The keeper prepares while it is
// moved into its control group: on some kernels the move takes longer than everything else here.
func handshake(ctx context.Context, conn *unixconn.Conn, l launch.Settings, group *cgroup.Group) (ready keeper.Launched, err error) {
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := conn.SendJSON(wire.Request, l); err != nil {
		return ready, err
	}
	err = group.Add(l.PID)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return ready, &spec.Error{Class: spec.ErrSandbox, Op: "move the keeper into its control group", Err: err}
	}
	// A keeper that failed meanwhile is gone, but has sent its error.
	_ = conn.SendJSON(wire.Request, struct{}{})
	return ready, conn.Expect(wire.Reply, &ready)
}

// keeperError prefers the keeper's own error to the error of the conversation.
func keeperError(d store.Sandbox, err error) error {
	if _, ok := errors.AsType[*spec.Error](err); ok {
		return err
	}
	if b, rerr := os.ReadFile(d.Log("keeper.log")); rerr == nil {
		if line := strings.TrimSpace(lastLine(string(b))); line != "" {
			return fmt.Errorf("its keeper died: %s", line)
		}
	}
	if keeperclient.IsSevered(err) {
		return errors.New("its keeper was killed, or stopped, before the sandbox was up")
	}
	return fmt.Errorf("its keeper did not start: %w", err)
}

func lastLine(s string) string {
	s = strings.TrimRight(s, "\n")
	return s[strings.LastIndexByte(s, '\n')+1:]
}

func fileConn(f *os.File) (*unixconn.Conn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return unixconn.New(c.(*net.UnixConn)), nil
}
