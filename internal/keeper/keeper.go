package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/layer"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Keeper is one running sandbox.
type Keeper struct {
	spec    *spec.Sandbox
	dir     store.Sandbox
	launch  Launch
	account wire.Account // who commands run as by default
	log     *slog.Logger
	events  *audit.Log
	output  *audit.Output

	wall     driver.Wall
	link     *link
	saver    *saver
	status   *status
	sessions sessions

	mu       sync.Mutex
	active   int // commands being served
	stopping bool
	discard  bool // nothing is to be saved
	reason   string
	grace    time.Duration
	asked    chan struct{} // closed when the sandbox shall stop
	stopped  chan struct{} // closed when it has
	wg       sync.WaitGroup
}

// Main is the keeper's role. It returns the process's exit code. The calling
// goroutine is locked to the main thread.
func Main(dir string, d driver.Driver) int {
	uc, err := launchConn()
	if err != nil {
		fmt.Fprintln(os.Stderr, "keeper:", err)
		return spec.ExitSandbox
	}
	var l Launch
	if err := uc.Expect(wire.Request, &l); err != nil {
		fmt.Fprintln(os.Stderr, "keeper: read launch:", err)
		return spec.ExitSandbox
	}
	k, listener, err := boot(store.Sandbox{Dir: dir}, l, d)
	if err != nil {
		fmt.Fprintln(os.Stderr, "keeper:", err)
		_ = uc.SendError(&spec.Error{Class: spec.ErrSandbox, Op: "start", Err: err, Hint: spec.Hint(err)})
		return spec.ExitSandbox
	}
	_ = uc.SendJSON(wire.Reply, struct{}{})
	uc.Close()
	k.run(listener)
	return 0
}

// launchConn is the conversation with the engine that started this keeper.
func launchConn() (*unixconn.Conn, error) {
	f := os.NewFile(LaunchFD, "launch")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("not started by bothy: %w", err)
	}
	uc, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.New("not started by bothy")
	}
	return unixconn.New(uc), nil
}

// boot brings the sandbox up, or leaves nothing behind.
func boot(dir store.Sandbox, l Launch, d driver.Driver) (_ *Keeper, _ *net.UnixListener, err error) {
	unix.CloseOnExec(LockFD)
	// Nothing here or below ever gains a privilege by executing something.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, nil, fmt.Errorf("give up new privileges: %w", err)
	}
	sb := &spec.Sandbox{}
	if err := store.ReadJSON(dir.Spec(), sb); err != nil {
		return nil, nil, err
	}
	k := &Keeper{
		spec: sb, dir: dir, launch: l,
		log:      slog.New(slog.NewTextHandler(os.Stderr, nil)),
		sessions: sessions{live: map[string]*session{}},
		asked:    make(chan struct{}), stopped: make(chan struct{}),
	}
	now := time.Now().UTC()
	prev := dir.ReadStatus()
	k.status = &status{dir: dir, log: k.log, st: spec.Status{
		Version: spec.Version, State: spec.Starting, KeeperPID: l.PID, Cgroup: l.Cgroup,
		StartedAt: &now, UsedAt: &now, Limits: l.Limits, Root: prev.Root,
	}}
	if k.events, err = audit.Open(dir.Log("events.jsonl"), audit.Options{}); err != nil {
		return nil, nil, err
	}
	if k.output, err = audit.OpenOutput(dir.Log("output.log"), 0); err != nil {
		return nil, nil, err
	}
	layers := layer.Store{Dir: dir.Layers()}
	if err := layers.Sweep(); err != nil {
		return nil, nil, fmt.Errorf("clean the layers: %w", err)
	}
	began := time.Now()
	machine, err := k.machine(layers)
	if err != nil {
		return nil, nil, err
	}
	assembled := time.Now()
	if k.wall, err = d.Start(context.Background(), machine); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			k.wall.Destroy()
		}
	}()
	k.link = newLink(k.wall.Control())
	k.log.Info("up", "assemble", assembled.Sub(began), "wall", time.Since(assembled))
	k.saver = &saver{
		wall: k.wall, store: layers, log: k.log, every: time.Duration(l.SaveEvery),
		note: func(r spec.RootLayer) { k.status.update(func(st *spec.Status) { st.Root = r }) },
	}
	if k.saver.every <= 0 {
		k.saver.every = defaultSaveEvery
	}
	k.saver.state = prev.Root
	k.saver.state.Bound = spec.Duration(k.saver.bound())
	k.saver.worked = cpuTime(k.wall.Pids())
	listener, err := listen(dir.Control())
	if err != nil {
		return nil, nil, fmt.Errorf("open the control socket: %w", err)
	}
	k.status.update(func(st *spec.Status) { st.State, st.Root = spec.Running, k.saver.state })
	k.event("started", map[string]any{"keeper_pid": l.PID, "driver": d.Name()})
	return k, listener, nil
}

// run serves the sandbox until it is asked to stop, is idle for too long, or
// its wall falls.
func (k *Keeper) run(l *net.UnixListener) {
	ctx, cancel := context.WithCancel(context.Background())
	sigs := make(chan os.Signal, 4)
	signal.Notify(sigs, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	k.wg.Go(func() { k.serve(ctx, l) })
	go k.saver.run(ctx)
	go k.idle(ctx)
	go k.guardMemory(ctx)
	if k.spec.Remove {
		time.AfterFunc(abandonedAfter, k.destroyUnused)
	}
	select {
	case <-k.asked:
	case s := <-sigs:
		k.stop("keeper received "+s.String(), stopGrace)
	case <-k.wall.Done():
		k.fell()
	case <-k.link.down:
		select {
		case <-k.wall.Done(): // init went because the wall did
		case <-time.After(500 * time.Millisecond):
		}
		k.fell()
	}
	cancel()
	_ = os.Remove(k.dir.Control())
	k.shutDown()
	l.Close()
	close(k.stopped)
	k.drain()
}

// begin admits a command; end dismisses it.
func (k *Keeper) begin() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopping {
		return spec.Errorf(spec.ErrStopping, "sandbox %s is stopping", k.spec.Name).WithHint("try again in a moment")
	}
	k.active++
	k.status.used()
	return nil
}

func (k *Keeper) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.active--
	k.status.used()
}

// ended tidies up after a session.
func (k *Keeper) ended(s *session) {
	k.sessions.remove(s)
	k.event("session.ended", map[string]any{"session": s.info.ID, "kind": s.info.Kind, "exit": s.exit.Status()})
}

func (k *Keeper) event(kind string, fields map[string]any) {
	if err := k.events.Write(kind, fields); err != nil {
		k.log.Warn("write event", "event", kind, "err", err)
	}
}
