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
	d := e.Store.Sandbox(sb.ID)
	sb, err := e.Store.Load(sb.ID) // it may have been changed before the lock was taken
	if err != nil {
		return nil, err
	}
	if _, err := e.Drivers.Find(sb.Driver); err != nil {
		return nil, err
	}
	if nsproc.Anonymous() {
		return nil, spec.Errorf(spec.ErrSandbox, "start sandbox %s: uid %d is the overflow uid, so callers of its sandboxes could not be identified", sb.Name, os.Geteuid()).
			WithHint("run bothy as another user")
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil && files.Max < keeper.OpenFiles {
		return nil, spec.Errorf(spec.ErrSandbox, "start sandbox %s: only %d files may be open here, %d are needed", sb.Name, files.Max, keeper.OpenFiles).
			WithHint("raise the hard limit: ulimit -n %d", keeper.OpenFiles)
	}
	sayCrash(e.Keepers(), sb, d)
	if err := e.cleanCrash(sb, d); err != nil {
		return nil, err
	}
	finish := e.Whole // finishes a restore that was interrupted, or refuses its result
	if e.BeforeStart != nil {
		finish = e.BeforeStart
	}
	if err := finish(sb); err != nil {
		return nil, err
	}
	furnish := e.Homes().Refurnish
	if d.ReadStatus().StartedAt == nil {
		furnish = e.Homes().Furnish
	}
	if err := furnish(sb); err != nil {
		return nil, err
	}
	if err := e.Changes().Ready(sb); err != nil {
		return nil, err
	}
	remembering := make(chan struct{})
	go func() { defer close(remembering); e.Changes().RememberNames(sb) }() // while the wall comes up
	defer func() { <-remembering }()
	prepare := e.preparation()
	reading, enough := context.WithCancel(ctx)
	lent := make(chan credential.Lent, 1)
	go func() { defer close(lent); lent <- e.Credentials().ForStart(reading, sb) }()
	person := make(chan *gitdefaults.Person, 1)
	go func() { defer close(person); person <- prepare.AskGit(reading, sb) }()
	defer func() { // whatever fails below, no command that reads a secret outlives it
		enough()
		for range person {
		}
		for range lent {
		}
	}()
	// For a later cleanup, if no process lives to write it into the status.
	noted := func(path string) error { return os.WriteFile(d.Cgroup(), []byte(path), 0o600) }
	group, limits, err := cgroup.Create(sb.ID, sb.Limits, e.Defaults, noted)
	if err != nil {
		return nil, &spec.Error{Class: spec.ErrSandbox, Op: "start sandbox " + sb.Name, Err: err, Hint: spec.Hint(err)}
	}
	launch, err := prepare.Settings(ctx, sb, group.Path(), limits)
	var conn *unixconn.Conn
	if err == nil {
		n := <-lent
		launch.Loans, launch.Unlent = n.Loans, n.Unlent
		prepare.AddGit(&launch, <-person)
		if from != nil {
			launch.GoOn, launch.Authority = from.Dir, from.Authority()
		}
		e.Credentials().WriteHome(sb, n)
		if err = context.Cause(ctx); err == nil {
			conn, err = e.spawnKeeper(ctx, sb, launch, group, lock)
		}
	}
	if err != nil {
		if group.Remove() == nil {
			_ = os.Remove(d.Cgroup())
		}
		hint := spec.Hint(err)
		if said, ok := errors.AsType[*spec.Error](err); hint == "" && (!ok || errors.Is(said, spec.ErrSandbox)) {
			hint = "bothy doctor tells what this host lacks; the keeper's own words: bothy logs --source keeper " + sb.Name
		}
		return nil, &spec.Error{Class: spec.ErrSandbox, Op: "start sandbox " + sb.Name, Err: err, Hint: hint}
	}
	for _, l := range launch.Limits {
		if !l.Enforced && e.Unenforced != nil {
			e.Unenforced(sb, l)
		}
	}
	return conn, nil
}

// spawnKeeper starts the keeper in its own namespaces and waits until it is ready. The pid namespace makes
// sure that no process survives the keeper. The socket that it was launched over is the first
// conversation with it.
func (e *Engine) spawnKeeper(ctx context.Context, sb *spec.Sandbox, l launch.Settings, group *cgroup.Group, lock *store.Lock) (_ *unixconn.Conn, err error) {
	d := e.Store.Sandbox(sb.ID)
	p, err := findPrograms()
	if err == nil {
		err = p.checkUntouched(e.Paths)
	}
	if err != nil {
		return nil, err
	}
	if err := p.addTo(&l); err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	mine, theirs := os.NewFile(uintptr(pair[0]), "launch"), os.NewFile(uintptr(pair[1]), "launch")
	defer theirs.Close()
	conn, err := fileConn(mine)
	if err != nil {
		return nil, err
	}
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
	start := cmd.Start
	if os.Geteuid() == 0 {
		if err := os.MkdirAll(d.Programs(), 0o700); err != nil {
			return nil, err
		}
		l.Programs = d.Programs()
		start = func() error { return hostroot.Disown(l.Programs, cmd.Start) }
	}
	if err := start(); err != nil {
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
		e.Say("sandbox %s starts without its secrets: %s", sb.Name, ready.Unlent)
	}
	go func() { _ = cmd.Wait() }() // a caller that lives long keeps no zombie
	return conn, nil
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
