package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/gateway/uploadlimit"
	"github.com/bothy-dev/bothy/internal/gctune"
	"github.com/bothy-dev/bothy/internal/keeper/bill"
	"github.com/bothy-dev/bothy/internal/keeper/command"
	"github.com/bothy-dev/bothy/internal/keeper/disk"
	"github.com/bothy-dev/bothy/internal/keeper/grants"
	"github.com/bothy-dev/bothy/internal/keeper/hostchanges"
	"github.com/bothy-dev/bothy/internal/keeper/initlink"
	"github.com/bothy-dev/bothy/internal/keeper/launch"
	"github.com/bothy-dev/bothy/internal/keeper/ports"
	"github.com/bothy-dev/bothy/internal/keeper/session"
	"github.com/bothy-dev/bothy/internal/keeper/shortage"
	"github.com/bothy-dev/bothy/internal/keeper/status"
	"github.com/bothy-dev/bothy/internal/keeper/traffic"
	"github.com/bothy-dev/bothy/internal/keeper/worktrees"
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
	launch  launch.Settings
	layers  layer.Store
	account wire.Account // that commands run as by default
	log     *slog.Logger
	events  *audit.Log
	output  *audit.Output

	driver    string
	wall      driver.Wall
	link      *initlink.Link
	agent     agentSocket
	gateway   Gateway
	grants    *grants.Grants
	traffic   *traffic.Log
	mock      *Mock                                 // nil: no server is mocked
	refused   string                                // why the gateway refused the secrets
	worktrees *worktrees.Guard                      // nil for a build
	places    []wire.Place                          // mounts over the root
	trust     func(certificate, known []byte) error // makes the inside trust an authority, and ssh its hosts
	// javaServed says that the host's Java finds the sandbox's authority by itself.
	javaServed bool

	saver    *saver
	status   *status.File
	sessions *session.Table
	ender    *session.Ender
	commands *command.Preparer
	ports    *ports.Table
	happened happenings
	bill     *bill.Bill
	uploads  *uploadlimit.Ledger
	disk     *disk.Watch
	served   atomic.Int64 // connections to published ports that have ended

	memory *Memory           // belongs to the image that it goes on from; else nil
	built  driver.Machine    // the machine that the wall was built from
	attach []wire.Attachment // mounts that init makes

	spawning sync.RWMutex // read-locked while a program is started and noted; locked while a memory image is made
	agents   sync.Mutex   // held while an agent's session is looked up or made: at most one exists

	ranBefore bool // this is not the sandbox's first start
	crashed   bool // the last run did not end properly

	life     *life          // commands being served, and how the sandbox ends
	recorded chan struct{}  // closed when the status on disk says that it runs
	stopped  chan struct{}  // closed when it has stopped
	unsaved  error          // loss at the end; set before stopped is closed
	wg       sync.WaitGroup // conversations with callers, and programs being watched
}

// Boot is a keeper that is starting up.
type Boot struct {
	made    chan struct{} // closed when the keeper is made
	done    chan struct{} // closed when the rest is
	conn    *unixconn.Conn
	keeper  *Keeper
	machine driver.Machine
	err     error
}

// Begin starts the part of the keeper's work that needs no wall: it reads the engine's request and
// assembles the machine, in the background. Nothing needs undoing if the process ends before
// Main.
func Begin(dir string) *Boot {
	// During the start almost nothing is garbage.
	usual := debug.SetGCPercent(startGCPercent)
	time.AfterFunc(startTime, func() { debug.SetGCPercent(usual); gctune.Follow() })
	b := &Boot{made: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(b.done)
		b.keeper, b.err = b.readLaunch(store.Sandbox{Dir: dir})
		made := b.err == nil
		close(b.made)
		if made {
			b.keeper.disk.Survey()
			b.machine, b.err = b.keeper.machine()
		}
	}()
	return b
}

// noCore is less than the size of any core file. If the kernel pipes core files to a program
// (core_pattern begins with a "|") it ignores every other limit, even zero.
const noCore = 1

// readLaunch reads the engine's request.
func (b *Boot) readLaunch(dir store.Sandbox) (_ *Keeper, err error) {
	unix.CloseOnExec(LockFD)
	unix.CloseOnExec(BothyFD)
	// From here on the process holds values of secrets. A process that can attach to the keeper can
	// read them anyway; docs/design/security-secrets.md tells why.
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: noCore, Max: noCore}); err != nil {
		return nil, fmt.Errorf("forbid core files: %w", err)
	}
	if b.conn, err = launchConn(); err != nil {
		return nil, err
	}
	var l launch.Settings
	if err := b.conn.Expect(wire.Request, &l); err != nil {
		return nil, fmt.Errorf("read launch: %w", err)
	}
	return newKeeper(dir, l)
}

// Main runs the rest of the keeper's role, and returns the process's exit code.
// The calling goroutine is locked to the main thread.
func (b *Boot) Main(d driver.Driver, n Network) int {
	// No process from here on gains a privilege by executing a program: the keeper executes programs
	// from this thread.
	noNew := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	card, unplugged := b.openGateway(n)
	<-b.done
	if b.err == nil && noNew != nil {
		b.err = fmt.Errorf("give up new privileges: %w", noNew)
	}
	if b.err == nil {
		b.machine.Network, b.err = card, unplugged
	}
	var listener *net.UnixListener
	if b.err == nil {
		b.err = b.conn.Expect(wire.Request, &struct{}{})
	}
	if b.err == nil {
		listener, b.err = b.keeper.bringUp(d, b.machine)
	}
	if b.err != nil {
		fmt.Fprintln(os.Stderr, "keeper:", b.err)
		if b.conn != nil {
			_ = b.conn.SendError(&spec.Error{Class: spec.ErrSandbox, Op: "start", Err: b.err, Hint: spec.Hint(b.err)})
		}
		return spec.ExitSandbox
	}
	_ = b.conn.SendJSON(wire.Reply, Launched{Unlent: b.keeper.refused})
	b.keeper.serveUntilEnd(listener, b.conn)
	return 0
}

// openGateway opens the gateway while the machine is still being assembled. After any later failure the
// gateway ends with this process.
func (b *Boot) openGateway(n Network) (*driver.Network, error) {
	<-b.made
	if b.keeper == nil {
		return nil, nil
	}
	return b.keeper.openGateway(n)
}

// launchConn returns the connection to the engine that started this keeper.
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

// newKeeper opens the keeper's files for writing, and reads its configuration.
func newKeeper(dir store.Sandbox, l launch.Settings) (*Keeper, error) {
	sb := &spec.Sandbox{}
	if err := store.ReadJSON(dir.Spec(), sb); err != nil {
		return nil, err
	}
	k := &Keeper{
		spec: sb, dir: dir, launch: l, layers: layer.Store{Dir: dir.Layers()},
		log:      slog.New(slog.NewTextHandler(os.Stderr, nil)),
		sessions: session.NewTable(),
		recorded: make(chan struct{}), stopped: make(chan struct{}),
	}
	now := time.Now().UTC()
	before := dir.ReadStatus()
	k.ranBefore, k.ports = before.StartedAt != nil, ports.New(before.Ports)
	k.crashed = before.Crashed
	k.status = status.New(dir, k.log, spec.Status{
		Version: spec.Version, State: spec.Starting, KeeperPID: l.PID, Cgroup: l.Cgroup,
		StartedAt: &now, UsedAt: &now, Limits: l.Limits, Root: before.Root, Mounted: l.Mounted,
	})
	k.life = newLife(sb.Name, k.status.NoteUsed)
	k.disk = disk.New(disk.Options{
		Spec: sb, Dir: dir, Layers: k.layers, Limit: l.Disk, Before: before.Disk, Doubt: before.Crashed,
		Status: k.status, Event: k.writeEvent, Stop: k.stopFor,
	})
	var err error
	if k.events, err = audit.Open(dir.Log("events.jsonl"), audit.Options{}); err != nil {
		return nil, err
	}
	records, err := audit.Open(dir.NetworkLog(), audit.Options{MaxBytes: traffic.MaxBytes})
	if err != nil {
		return nil, err
	}
	k.traffic = traffic.New(sb.Name, records, k.log, k.noteNetwork)
	if k.output, err = audit.OpenOutput(dir.Log("output.log"), 0); err != nil {
		return nil, err
	}
	if l.GoOn != "" {
		if k.memory, err = OpenMemory(l.GoOn, l.Build); err != nil {
			return nil, err
		}
	}
	if err := k.layers.Sweep(); err != nil {
		return nil, fmt.Errorf("clean the layers: %w", err)
	}
	k.grants, err = grants.New(grants.Options{Spec: sb, Dir: dir, Launch: &k.launch, Traffic: k.traffic, Log: k.log, OnUnlent: k.noteUnlent})
	if err != nil {
		return nil, err
	}
	if k.mock, err = openMock(sb, dir, k.log); err != nil {
		return nil, err
	}
	if k.bill, err = bill.Open(dir.Bill(), l.Prices, sb.Budget, k.log); err != nil {
		return nil, err
	}
	if k.uploads, err = openUploads(dir, k.log); err != nil {
		return nil, err
	}
	return k, nil
}

// bringUp makes the inside trust the gateway, raises the wall and opens the control socket. On an error it
// leaves nothing behind.
func (k *Keeper) bringUp(d driver.Driver, m driver.Machine) (_ *net.UnixListener, err error) {
	began := time.Now()
	defer m.Network.Card.Close()
	defer func() {
		if err != nil {
			k.gateway.Close()
		}
	}()
	if err := k.trust(k.gateway.Certificate(), k.gateway.KnownHosts()); err != nil {
		return nil, fmt.Errorf("make programs inside trust the gateway: %w", err)
	}
	if err := k.ports.Claim(k.spec.Ports); err != nil {
		return nil, k.busyPort(err)
	}
	k.refused = k.grants.LendFirst()
	k.status.Note(func(st *spec.Status) { st.Unlent = k.grants.NotLent() }) // written once it runs: until then it was not started
	if k.wall, err = d.Start(context.Background(), m); err != nil {
		return nil, badLayer(k.spec.Name, m.Restore, err)
	}
	defer func() {
		if err != nil {
			k.wall.Destroy()
		}
	}()
	k.driver, k.built = d.Name(), m
	if k.memory == nil {
		k.useLink(initlink.New(k.wall.Control()))
		if err := k.attached(context.Background()); err != nil {
			return nil, err
		}
	} else if err := k.takeUp(); err != nil {
		return nil, err
	}
	k.worktrees.Protect(k.link, k.memory == nil)
	k.log.Info("up", "wall", time.Since(began))
	k.saver = newSaver(k.wall, k.layers, time.Duration(k.launch.SaveEvery), k.built.Mounts, k.status, k.log)
	k.ports.Serve(k.gateway)
	listener, err := unixconn.Listen(k.dir.Control())
	if err != nil {
		return nil, fmt.Errorf("open the control socket: %w", err)
	}
	return listener, nil
}

// useLink makes a link to init the keeper's.
func (k *Keeper) useLink(l *initlink.Link) {
	k.link, k.ender = l, session.NewEnder(l, k.log)
	k.commands = command.New(command.Options{Spec: k.spec, Launch: &k.launch, Account: k.account, Places: k.places, Init: l, Event: k.writeEvent})
}

// record writes to disk that the sandbox runs. The caller that started it does not wait for the
// disk, but the keeper acknowledges no command before.
func (k *Keeper) record() {
	defer close(k.recorded)
	k.status.Update(func(st *spec.Status) {
		st.State, st.Root, st.Ports = spec.Running, k.saver.savedLayer(), k.ports.List()
	})
	k.writeEvent("started", map[string]any{"keeper_pid": k.launch.PID, "driver": k.driver, "from_memory": k.memory != nil})
}

// serveUntilEnd serves the sandbox until it is asked to stop, is idle for too long, or its wall falls.
// first is the connection of the caller that started it.
func (k *Keeper) serveUntilEnd(l *net.UnixListener, first *unixconn.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	sigs := make(chan os.Signal, 4)
	signal.Notify(sigs, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	k.wg.Go(func() { k.answerCaller(ctx, first) })
	k.wg.Go(func() { k.acceptCommands(ctx, l) })
	k.record()
	if k.spec.Build == nil { // a build's layer is saved at the end of a step
		go k.saver.saveInBackground(ctx)
	}
	go (&idleness{
		limit: time.Duration(k.spec.IdleTimeout), life: k.life, wall: k.wall, sessions: k.sessions, gateway: k.gateway, served: &k.served,
	}).stopWhenIdle(ctx)
	go shortage.New(shortage.Options{
		Limit: k.launch.Memory, Cgroup: k.launch.Cgroup, Wall: k.wall, Init: k.link, Log: k.log, Event: k.writeEvent, Tell: k.sessions.NoteAll,
	}).Follow(ctx)
	go k.disk.Follow(ctx, k.wall)
	go k.watchOrphan(ctx)
	go hostchanges.New(k.built.Mounts, k.link, k.log, k.writeEvent).Follow(ctx)
	go k.worktrees.Follow(ctx)
	go k.grants.StayCaughtUp(ctx)
	select {
	case <-k.life.asked:
	case s := <-sigs:
		k.life.stopSandbox("keeper received "+s.String(), stopGrace)
	case <-k.wall.Done():
		k.noteFall()
	case <-k.link.Down():
		select {
		case <-k.wall.Done(): // init went because the wall did
		case <-time.After(500 * time.Millisecond):
		}
		k.noteFall()
	}
	cancel()
	// The renamed socket only serves callers that check whether the keeper lives.
	_ = os.Rename(k.dir.Control(), k.dir.Aside())
	k.shutDown()
	_ = os.Remove(k.dir.Aside())
	l.Close()
	close(k.stopped)
	k.awaitCommands()
}

// noteEnded cleans up after a session.
func (k *Keeper) noteEnded(s *session.Session) {
	k.sessions.Remove(s)
	fields := map[string]any{"session": s.Info().ID, "kind": s.Info().Kind}
	if exit, err := s.Result(); err != nil {
		fields["error"] = err.Error()
	} else {
		fields["exit"] = exit.Status()
	}
	k.writeEvent("session.ended", fields)
}

func (k *Keeper) writeEvent(kind string, fields map[string]any) {
	if err := k.events.Write(kind, fields); err != nil {
		k.log.Warn("write event", "event", kind, "err", err)
	}
}
