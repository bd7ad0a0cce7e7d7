package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/driver/usage"
	"github.com/bothy-dev/bothy/internal/keeper/keepertest"
	"github.com/bothy-dev/bothy/internal/keeper/session"
	"github.com/bothy-dev/bothy/internal/keeper/status"
	"github.com/bothy-dev/bothy/internal/layer"
	"github.com/bothy-dev/bothy/internal/leaktest"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// dialRole is set when this binary runs again as another user's command.
const dialRole = "BOTHY_TEST_KEEPER_DIAL"

func TestMain(m *testing.M) {
	if path := os.Getenv(dialRole); path != "" {
		os.Exit(dial(path))
	}
	leaktest.Main(m)
}

// dial sends a keeper every request that a stranger could try.
func dial(path string) int {
	for _, op := range []string{wire.OpPing, wire.OpUp, wire.OpStatus, wire.OpStop, wire.OpDestroy, wire.OpExec} {
		uc, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			fmt.Println(err)
			return 1
		}
		c := unixconn.New(uc)
		_ = c.SendJSON(wire.Request, wire.Ask{Op: op})
		if err := c.Expect(wire.Reply, &struct{}{}); !errors.Is(err, spec.ErrDenied) {
			fmt.Printf("%s: %v\n", op, err)
			return 1
		}
	}
	return 0
}

// wall is a wall that has only the abilities of the test.
type wall struct {
	driver.Wall
	pids  []int
	tasks []driver.Task
	save  func(dir string) error
	hung  []int // processes that were hung up alone

	still atomic.Bool
}

func (w *wall) CPU() time.Duration  { return usage.CPU(w.pids) }
func (w *wall) Usage() driver.Usage { return usage.Of(w.pids) }
func (w *wall) RoomToSave() error   { return nil }
func (w *wall) SaveRoot(_ context.Context, dir string) error {
	if w.save == nil {
		return os.WriteFile(filepath.Join(dir, "layer"), []byte("12345"), 0o600)
	}
	return w.save(dir)
}

func (w *wall) Pause(context.Context) (func(), error) {
	w.still.Store(true)
	return func() { w.still.Store(false) }, nil
}

func (w *wall) Signal(_ context.Context, pid, sig int) error {
	if sig == int(unix.SIGHUP) {
		w.hung = append(w.hung, pid)
	}
	return nil
}

func (w *wall) Settle(context.Context) error { return nil }

func (w *wall) Tasks(context.Context) ([]driver.Task, error) { return w.tasks, nil }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestBound(t *testing.T) {
	tests := []struct{ every, cost, want time.Duration }{
		{5 * time.Second, 0, 10 * time.Second},
		{5 * time.Second, 100 * time.Millisecond, 10 * time.Second},
		{5 * time.Second, time.Second, 25 * time.Second},
		{time.Millisecond, time.Second, 20*time.Second + time.Millisecond},
	}
	for _, tt := range tests {
		s := &saver{every: tt.every, lastCost: tt.cost}
		if got := s.longestWait(); got != tt.want {
			t.Errorf("every %v, the last took %v: %v, want %v", tt.every, tt.cost, got, tt.want)
		}
	}
}

func TestSaver(t *testing.T) {
	var noted []spec.RootLayer
	w := &wall{}
	s := &saver{
		wall: w, store: layer.Store{Dir: t.TempDir()}, log: quiet(), every: time.Second,
		note: func(r spec.RootLayer) { noted = append(noted, r) },
	}
	must(t, s.saveLayer(t.Context()))
	good := s.savedLayer()
	if good.Bytes < 5 || good.SavedAt == nil || good.SaveError != "" || time.Duration(good.Bound) < time.Second {
		t.Errorf("after a save: %+v", good)
	}
	boom := errors.New("boom")
	w.save = func(string) error { return boom }
	if err := s.saveLayer(t.Context()); !errors.Is(err, boom) {
		t.Errorf("a failing save: %v", err)
	}
	if bad := s.savedLayer(); bad.SaveError != "boom" || bad.SavedAt != good.SavedAt || bad.Bytes != good.Bytes {
		t.Errorf("after a failed one: %+v", bad)
	}
	w.save = nil
	must(t, s.saveLayer(t.Context()))
	if again := s.savedLayer(); again.SaveError != "" {
		t.Errorf("after a good one: %+v", again)
	}
	if len(noted) != 3 || noted[1].SaveError != "boom" {
		t.Errorf("noted: %+v", noted)
	}
}

// TestBackgroundSave checks that a layer is saved in the background after work, within the bound,
// and not without work.
func TestBackgroundSave(t *testing.T) {
	pid, work := keepertest.Worker(t)
	saved := make(chan struct{}, 100)
	s := &saver{
		wall: &wall{pids: []int{pid}}, store: layer.Store{Dir: t.TempDir()}, log: quiet(), every: 10 * time.Millisecond,
		note: func(spec.RootLayer) { saved <- struct{}{} },
	}
	work() // its startup is work too
	s.worked = usage.CPU([]int{pid})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.saveInBackground(ctx) }()
	select {
	case <-saved:
		t.Error("saved although nothing worked")
	case <-time.After(100 * time.Millisecond):
	}
	for range 2 {
		work()
		select {
		case <-saved:
		case <-time.After(time.Duration(s.savedLayer().Bound) + keepertest.Patience): // a slow disk is not kept busy all the time
			t.Fatal("not saved")
		}
		for quiet := false; !quiet; { // saves of work done during a save
			select {
			case <-saved:
			case <-time.After(200 * time.Millisecond):
				quiet = true
			}
		}
	}
	cancel()
	keepertest.Within(t, "run", func() { <-done })
}

// TestStopGrace checks that a stop says how long programs get, to the millisecond. An older bothy
// says it in seconds, or not at all.
func TestStopGrace(t *testing.T) {
	for _, x := range []struct {
		ask  wire.Ask
		want time.Duration
	}{
		{wire.Ask{Op: wire.OpStop, Grace: spec.Duration(300 * time.Millisecond), Timeout: 1}, 300 * time.Millisecond},
		{wire.Ask{Op: wire.OpStop, Timeout: 7}, 7 * time.Second},
		{wire.Ask{Op: wire.OpStop}, stopGrace},
	} {
		k := bare()
		k.stopped = make(chan struct{})
		close(k.stopped)
		ours, theirs := keepertest.Conns(t)
		must(t, k.answerRequest(t.Context(), ours, x.ask))
		theirs.Close()
		if k.life.how.grace != x.want {
			t.Errorf("of %+v it is %s", x.ask, k.life.how.grace)
		}
	}
}

func TestStopOnce(t *testing.T) {
	k := bare()
	k.status = status.New(store.Sandbox{Dir: t.TempDir()}, quiet(), spec.Status{})
	must(t, k.life.beginCommand())
	i := &idleness{life: k.life, sessions: k.sessions}
	if !i.isWatched() {
		t.Error("nobody is served")
	}
	k.life.endCommand()
	if i.isWatched() {
		t.Error("somebody is served")
	}
	k.life.stopSandbox("first", 0)
	k.life.stopSandbox("second", time.Hour)
	k.life.discardSandbox("removed")
	if k.life.how.reason != "first" || k.life.how.grace != stopGrace || !k.life.how.discard {
		t.Errorf("reason %q, grace %v, discard %t", k.life.how.reason, k.life.how.grace, k.life.how.discard)
	}
	if err := k.life.beginCommand(); !errors.Is(err, spec.ErrStopping) {
		t.Errorf("a command while it stops: %v", err)
	}
}

// TestStopFor checks that a sandbox that is stopped for its misbehaviour says so, with a hint.
func TestStopFor(t *testing.T) {
	k := bare()
	k.stopFor("disk limit of 4 MiB")
	if k.life.how.reason != "disk limit of 4 MiB" || k.life.how.grace != verdictGrace || spec.ExitCode(k.life.how.verdict) != spec.ExitSandbox || spec.Hint(k.life.how.verdict) == "" {
		t.Errorf("it is stopped for %q within %s: %v", k.life.how.reason, k.life.how.grace, k.life.how.verdict)
	}
}

// serving is a keeper that answers on a socket until the test ends.
func serving(t *testing.T, path string) *Keeper {
	t.Helper()
	k := bare()
	k.status = status.New(store.Sandbox{Dir: t.TempDir()}, quiet(), spec.Status{})
	k.stopped = make(chan struct{})
	k.sessions = session.NewTable()
	l, err := unixconn.Listen(path)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	k.wg.Go(func() { k.acceptCommands(ctx, l) })
	t.Cleanup(func() {
		cancel()
		l.Close()
		keepertest.Within(t, "serve", k.wg.Wait)
	})
	return k
}

func TestServe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control.sock")
	serving(t, path)
	ask := func(send func(c *unixconn.Conn)) error {
		uc, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		must(t, err)
		c := unixconn.New(uc)
		defer c.Close()
		must(t, uc.SetDeadline(time.Now().Add(keepertest.Patience)))
		must(t, c.Expect(wire.Hello, &wire.Greeting{}))
		send(c)
		return c.Expect(wire.Reply, &struct{}{})
	}
	request := func(a wire.Ask) func(*unixconn.Conn) {
		return func(c *unixconn.Conn) { _ = c.SendJSON(wire.Request, a) }
	}
	tests := []struct {
		name string
		send func(*unixconn.Conn)
		ok   bool
		want error
	}{
		{"ping", request(wire.Ask{Op: wire.OpPing}), true, nil},
		{"an unknown request", request(wire.Ask{Op: "melt"}), false, spec.ErrUsage},
		{"nothing", func(c *unixconn.Conn) { c.Close() }, false, nil},
		{"another kind", func(c *unixconn.Conn) { _ = c.Send(wire.Frame{Kind: wire.Data, Payload: []byte("{}")}) }, false, nil},
		{"garbage", func(c *unixconn.Conn) { _ = c.Send(wire.Frame{Kind: 99}) }, false, nil},
		{"a command without descriptors", request(wire.Ask{Op: wire.OpExec, Command: wire.Command{Args: []string{"ls"}}}), false, spec.ErrUsage},
		{"ping again", request(wire.Ask{Op: wire.OpPing}), true, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := ask(tt.send); (err == nil) != tt.ok || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("answered %v, want %v", err, tt.want)
			}
		})
	}
}

// TestServeRefusesOthers checks F3: another user is refused for every request, even if the socket's mode
// would let that user in.
func TestServeRefusesOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be two users")
	}
	dir, err := os.MkdirTemp("", "keeper")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	path := filepath.Join(dir, "control.sock")
	k := serving(t, path)
	must(t, os.Chmod(path, 0o777))
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = []string{dialRole + "=" + path}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	select {
	case <-k.life.asked:
		t.Error("a stranger stopped it")
	default:
	}
}

// TestCountsAtOnce checks that the inside's work is counted from the moment the layer is written, not
// from when the disk or the processor gets to it.
func TestCountsAtOnce(t *testing.T) {
	s := &saver{wall: &wall{}, store: layer.Store{Dir: t.TempDir()}, note: func(spec.RootLayer) {}}
	thread := 0
	rest, err := s.writeSave(func() func() time.Duration {
		if syscall.Gettid() != thread { // no other goroutine uses that thread meanwhile
			t.Error("it is counted in another goroutine")
		}
		return func() time.Duration { return time.Hour }
	}, func(string) (time.Duration, error) {
		runtime.LockOSThread()
		thread = syscall.Gettid()
		return 0, nil
	})
	must(t, err)
	runtime.UnlockOSThread()
	rest()
	if s.worked != time.Hour {
		t.Errorf("it worked for %v", s.worked)
	}
}
