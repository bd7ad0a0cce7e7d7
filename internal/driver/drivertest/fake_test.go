package drivertest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/driver/usage"
	"github.com/bothy-dev/bothy/spec"
)

// fake is a driver without a wall, which tests the suite itself: it starts plain processes of the host.
// They have exit codes, signals and streams of their own, the root layer can be saved and restored, a wall
// that falls says why, and Destroy leaves no process. It approximates the rest:
//
//   - Root and its layer are a copy of Machine.Root in Machine.Overlay.
//     Programs see the host's file system; the working directory of a process
//     is looked up in the copy, then among the mounts.
//   - A mount's target appears in the copy as a link to its source. A target
//     that begins an argument word, /project or /project/x, is replaced by the source.
//   - Every process runs as the caller, whatever its UID says. Elevate and Groups
//     mean nothing.
//   - The process table shows the processes that the driver started, and their
//     children. Process ids are the host's, only init is called 1.
type fake struct{}

var _ driver.Driver = fake{}

func (fake) Name() string { return "fake" }

// fakeCapabilities are the abilities of a fake.
var fakeCapabilities = driver.Capabilities{LiveDirectories: true}

// idVar marks every process behind a wall, including those that have left their parent.
const idVar = "BOTHY_FAKE_WALL"

// Start copies the root and starts init.
func (fake) Start(ctx context.Context, m driver.Machine) (driver.Wall, error) {
	if filepath.Clean(m.Root) == "/" {
		return nil, errors.New("the root of a sandbox cannot be the host's own root")
	}
	if m.Memory != "" || m.Image != "" || m.RootLimit > 0 {
		return nil, errLacks
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &wall{m: m, layer: filepath.Join(m.Overlay, "fake-root"), mark: idVar + "=" + m.ID + ":" + m.Scratch, done: make(chan struct{})}
	from := m.Root
	if m.Restore != "" {
		from = filepath.Join(m.Restore, "root")
	}
	if err := copyTree(from, w.layer); err != nil {
		return nil, fmt.Errorf("copy the root: %w", err)
	}
	if err := w.boot(); err != nil {
		_ = os.RemoveAll(w.layer)
		return nil, err
	}
	return w, nil
}

// wall is a set of processes without isolation.
type wall struct {
	m       driver.Machine
	layer   string
	mark    string
	control *os.File
	init    *running

	done     chan struct{}
	doneOnce sync.Once
	mu       sync.RWMutex // held for reading while a process is started
	err      error
	ended    bool
}

var _ driver.Wall = (*wall)(nil)

// boot starts init with its end of the control socket.
func (w *wall) boot() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make init's socket: %w", err)
	}
	if err := unix.SetNonblock(pair[0], true); err != nil {
		return err
	}
	w.control = os.NewFile(uintptr(pair[0]), "init")
	theirs := os.NewFile(uintptr(pair[1]), "init")
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	files := []*os.File{null, null, null}
	for len(files) < driver.InitFD {
		files = append(files, null)
	}
	w.init, err = w.fork(driver.Process{Args: w.m.Init, Env: w.m.Env, Dir: "/"}, append(files, theirs))
	if err != nil {
		w.control.Close()
		return fmt.Errorf("start init: %w", err)
	}
	go func() {
		<-w.init.ended
		w.fall(fmt.Errorf("init (process %d) died", w.init.pid))
		w.clear()
	}()
	return nil
}

func (w *wall) Control() *os.File     { return w.control }
func (w *wall) Pids() []int           { return []int{w.init.pid} }
func (w *wall) Usage() driver.Usage   { return usage.Of(w.Pids()) }
func (w *wall) CPU() time.Duration    { return usage.CPU(w.Pids()) }
func (w *wall) Done() <-chan struct{} { return w.done }

func (w *wall) Err() error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.err
}

// fall records the end of the wall.
func (w *wall) fall(err error) {
	w.mu.Lock()
	if w.err == nil && !w.ended {
		w.err = err
	}
	w.mu.Unlock()
	w.doneOnce.Do(func() { close(w.done) })
}

// down returns the error of every request to a wall that has fallen.
func (w *wall) down() error {
	select {
	case <-w.done:
		return spec.Errorf(spec.ErrSandbox, "the sandbox ended")
	default:
		return nil
	}
}

func (w *wall) Exec(ctx context.Context, p driver.Process) (driver.Running, error) {
	if err := errors.Join(ctx.Err(), w.down()); err != nil {
		return nil, err
	}
	if len(p.Args) == 0 {
		return nil, spec.Errorf(spec.ErrUsage, "no program to run")
	}
	return w.fork(p, []*os.File{p.Stdin, p.Stdout, p.Stderr})
}

func (w *wall) RoomToSave() error { return nil }

func (w *wall) SaveRoot(ctx context.Context, dir string) error {
	if err := errors.Join(ctx.Err(), w.down()); err != nil {
		return err
	}
	if err := copyTree(w.layer, filepath.Join(dir, "root")); err != nil {
		return fmt.Errorf("save the root layer: %w", err)
	}
	return nil
}

var errLacks = fmt.Errorf("the fake wall cannot do that: %w", errors.ErrUnsupported)

func (w *wall) PrepareMemory(context.Context, string) error { return errLacks }

func (w *wall) SaveMemory(context.Context, string) error { return errLacks }

// Settle returns at once: this driver loads no memory.
func (w *wall) Settle(ctx context.Context) error { return ctx.Err() }

// Pause stops every process. The next round finds processes that were just being created.
func (w *wall) Pause(ctx context.Context) (func(), error) {
	if err := errors.Join(ctx.Err(), w.down()); err != nil {
		return nil, err
	}
	stopped := map[int]bool{}
	for again := true; again; {
		again = false
		for _, e := range w.table() {
			if !stopped[e.pid] && unix.Kill(e.pid, unix.SIGSTOP) == nil {
				stopped[e.pid], again = true, true
			}
		}
	}
	return func() {
		for pid := range stopped {
			_ = unix.Kill(pid, unix.SIGCONT)
		}
	}, nil
}

func (w *wall) Signal(ctx context.Context, pid, sig int) error {
	if err := errors.Join(ctx.Err(), w.down()); err != nil {
		return err
	}
	if pid == 1 {
		pid = w.init.pid
	}
	for _, t := range w.table() {
		if t.pid == pid {
			return unix.Kill(pid, syscall.Signal(sig))
		}
	}
	return fmt.Errorf("signal process %d: %w", pid, unix.ESRCH)
}

func (w *wall) Tasks(ctx context.Context) ([]driver.Task, error) {
	if err := errors.Join(ctx.Err(), w.down()); err != nil {
		return nil, err
	}
	var list []driver.Task
	for _, e := range w.table() {
		list = append(list, e.task(w.init.pid))
	}
	return list, nil
}

func (w *wall) Memory(ctx context.Context) (int64, error) {
	if err := errors.Join(ctx.Err(), w.down()); err != nil {
		return 0, err
	}
	var sum int64
	for _, e := range w.table() {
		sum += e.resident
	}
	return sum, nil
}

func (w *wall) Destroy() {
	w.mu.Lock()
	first := !w.ended
	w.ended = true
	w.mu.Unlock()
	w.doneOnce.Do(func() { close(w.done) })
	w.clear()
	<-w.init.ended
	if first {
		w.control.Close()
		_ = os.RemoveAll(w.layer)
	}
}

// clear kills every process behind the wall.
func (w *wall) clear() {
	for range 1000 { // a fork bomb takes several rounds
		list := w.table()
		if len(list) == 0 {
			return
		}
		for _, e := range list {
			_ = unix.Kill(e.pid, unix.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
}

// place returns the host path of a path inside.
func (w *wall) place(path string) (string, bool) {
	for _, m := range w.m.Mounts {
		if rest, ok := strings.CutPrefix(path, m.Target); ok && !m.Memory && (rest == "" || rest[0] == '/') {
			return m.Source + rest, true
		}
	}
	return "", false
}
