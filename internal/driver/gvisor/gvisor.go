package gvisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/log"
	"gvisor.dev/gvisor/pkg/sentry/checkpoint"
	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/container"
	"gvisor.dev/gvisor/runsc/sandbox"
	"gvisor.dev/gvisor/runsc/specutils"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/driver/usage"
	"github.com/bothy-dev/bothy/internal/nsproc"
)

// callTimeout bounds a request to the sentry. gVisor's own calls have no
// deadline: a stopped sentry would hang its keeper for ever.
const callTimeout = 10 * time.Second

// Driver is the gVisor wall. The zero value is ready to use.
type Driver struct{}

var _ driver.Driver = Driver{}

// Name returns [driver.GVisor].
func (Driver) Name() string { return driver.GVisor }

// Start boots a sentry and a gofer for the machine. The calling thread must be the keeper's locked
// main thread: the children die with the thread that made them.
func (Driver) Start(ctx context.Context, m driver.Machine) (driver.Wall, error) {
	if !nsproc.Static {
		return nil, errors.New("this bothy was built with cgo, and cannot start behind the wall, where no libraries are: CGO_ENABLED=0 go install builds one that can")
	}
	if filepath.Clean(m.Root) == "/" {
		return nil, errors.New("the root of a sandbox cannot be the host's own root: mounts under it would be ignored")
	}
	quietLog()
	log.SetTarget(log.GoogleEmitter{Writer: &log.Writer{Next: discard{}}})
	if err := pinSidecars(m.Scratch, m.Starter); err != nil {
		return nil, fmt.Errorf("prepare gvisor's programs: %w", err)
	}
	if m.Memory != "" { // before anything else
		if err := driver.CheckBuild(m.Memory, m.Build); err != nil {
			return nil, err
		}
	}
	overlay, err := openOverlay(m.Overlay)
	if err != nil {
		return nil, fmt.Errorf("open the place for the root layer: %w", err)
	}
	defer overlay.Close()
	conf, err := configure(m, overlay)
	if err != nil {
		return nil, err
	}
	bundle, err := writeBundle(m, overlayMedium(overlay))
	if err != nil {
		return nil, fmt.Errorf("write bundle: %w", err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make init's socket: %w", err)
	}
	// Non-blocking, so that writes to an init that does not read have a deadline.
	if err := unix.SetNonblock(pair[0], true); err != nil {
		return nil, err
	}
	mine, theirs := os.NewFile(uintptr(pair[0]), "init"), os.NewFile(uintptr(pair[1]), "init")
	defer theirs.Close()

	layer, err := loadLayer(m)
	if err != nil {
		mine.Close()
		return nil, err
	}
	c, err := create(conf, m, bundle, theirs, layer)
	if err != nil {
		layer.stopHanding()
		mine.Close()
		return nil, err
	}
	w := &wall{conf: conf, c: c, sandbox: c.Sandbox, control: mine, overlay: m.Overlay, saved: savedResources(m.Mounts), settled: always(), done: make(chan struct{})}
	switch {
	case m.Memory != "":
		err = w.resumeMemory(m)
	case m.Restore != "":
		err = w.bootFrom(layer, m)
	default:
		err = w.bootInit(m)
	}
	if err != nil {
		w.Destroy()
		return nil, err
	}
	if err := w.watchProcesses(); err != nil {
		w.Destroy()
		return nil, err
	}
	return w, nil
}

// savedResources returns the file systems of the layer.
func savedResources(mounts []driver.Mount) []checkpoint.ResourceID {
	list := []checkpoint.ResourceID{{Path: "/"}}
	for _, m := range mounts {
		if m.Memory && m.Kept {
			list = append(list, checkpoint.ResourceID{Path: m.Target})
		}
	}
	return list
}

// always returns a closed channel.
func always() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// bootInit starts init.
func (w *wall) bootInit(m driver.Machine) error {
	conf := w.conf
	if m.Network != nil {
		if err := w.reachSentry(func() error { return plugCard(w.sandbox, m.Network) }); err != nil {
			return fmt.Errorf("plug in the network card: %w", w.startFault(err))
		}
		conf = started(conf)
	}
	if err := w.reachSentry(func() error { return w.c.Start(conf) }); err != nil {
		fault := w.startFault(err)
		if m.Restore != "" && !errors.Is(fault, errFell) && strings.Contains(err.Error(), layerSign) {
			return layerError(firstLine(err))
		}
		return fmt.Errorf("start the sentry: %w", fault)
	}
	return nil
}

// create makes the container. It passes /dev/null as standard streams, which gVisor takes from this
// process's globals.
func create(conf *config.Config, m driver.Machine, bundle string, init *os.File, layer *layerLoad) (*container.Container, error) {
	spec, err := specutils.ReadSpec(bundle, conf)
	if err != nil {
		return nil, fmt.Errorf("read bundle: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	stdin, stdout, stderr := os.Stdin, os.Stdout, os.Stderr
	os.Stdin, os.Stdout, os.Stderr = null, null, null
	defer func() { os.Stdin, os.Stdout, os.Stderr = stdin, stdout, stderr }()

	args := container.Args{
		ID:                 m.ID,
		Spec:               spec,
		BundleDir:          bundle,
		Attached:           true,
		PassFiles:          map[int]*os.File{driver.InitFD: init},
		FSRestoreImagePath: m.Restore,
	}
	layer.passTo(args.PassFiles)
	if m.Memory != "" || layer.handsOut() {
		args.FSRestoreImagePath = "" // in the memory image, or read over the socket
	}
	c, err := container.New(conf, args)
	if err != nil {
		return nil, fmt.Errorf("create the sandbox: %w", startError(err))
	}
	return c, nil
}

// wall is a running container with its processes.
type wall struct {
	conf    *config.Config
	c       *container.Container
	sandbox *sandbox.Sandbox // c's own; c drops it when it is destroyed
	control *os.File
	overlay string                  // the directory with the data of the root layer
	saved   []checkpoint.ResourceID // saved as the layer: the root's data, and kept file systems

	settled  <-chan struct{} // closed when all memory is loaded
	done     chan struct{}
	doneOnce sync.Once
	mu       sync.Mutex
	err      error // why the wall ended by itself
	ended    bool  // Destroy was called
}

var (
	_ driver.Wall  = (*wall)(nil)
	_ driver.Local = (*wall)(nil)
)

func (w *wall) Control() *os.File { return w.control }

func (w *wall) Done() <-chan struct{} { return w.done }

func (w *wall) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *wall) Usage() driver.Usage { return usage.Of(w.Pids()) }

func (w *wall) CPU() time.Duration { return usage.CPU(w.Pids()) }

func (w *wall) Pids() []int {
	var pids []int
	if pid := w.sandbox.Getpid(); pid > 0 {
		pids = append(pids, pid)
	}
	if pid := w.c.GoferPid.Load(); pid > 0 {
		pids = append(pids, pid)
	}
	return pids
}

func (w *wall) endWall(err error) {
	w.mu.Lock()
	if w.err == nil && !w.ended {
		w.err = err
	}
	w.mu.Unlock()
	w.doneOnce.Do(func() { close(w.done) })
}

func (w *wall) Destroy() {
	w.mu.Lock()
	first := !w.ended
	w.ended = true
	w.mu.Unlock()
	if !first {
		return
	}
	pids := w.Pids()
	w.endWall(nil)
	gone := make(chan struct{})
	go func() {
		_ = w.c.Destroy()
		close(gone)
	}()
	select {
	case <-gone:
	case <-time.After(2 * time.Second):
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		select {
		case <-gone:
		case <-time.After(3 * time.Second):
		}
	}
	for _, pid := range pids {
		reapChild(pid)
	}
	w.control.Close()
}

// reapTime bounds the wait for a killed child. A child that hangs in a host file system ends when
// the file system answers. The keeper's pid namespace ends with the child.
const reapTime = 3 * time.Second

// reapChild collects a killed child, unless gVisor has done so.
func reapChild(pid int) {
	_ = unix.Kill(pid, unix.SIGKILL)
	for end := time.Now().Add(reapTime); time.Now().Before(end); time.Sleep(time.Millisecond) {
		got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
		if got != 0 && err != unix.EINTR {
			return
		}
	}
}

// callSentry runs a request to the sentry with a deadline. The request itself cannot be cancelled; it ends
// with the sentry.
func (w *wall) callSentry(ctx context.Context, f func() error) error {
	select {
	case <-w.done:
		return errEnded
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- w.reachSentry(f) }()
	select {
	case err := <-result:
		if err != nil {
			return failedCall(err)
		}
		return nil
	case <-w.done:
		return errEnded
	case <-ctx.Done():
		return fmt.Errorf("the sandbox does not answer: %w", ctx.Err())
	}
}

var errEnded = errors.New("the sandbox ended")

// layerSign is part of gVisor's error when it cannot make the layer over the root.
const layerSign = "mounting root with overlay"

// startError distinguishes a process that died during the start from one that refused to start.
// gVisor reports both alike, so the text of the socket error decides.
func startError(err error) error {
	err = failedCall(err)
	for _, sign := range []string{"EOF", "connection refused", "connection reset", "broken pipe"} {
		if strings.Contains(err.Error(), sign) {
			return errFell
		}
	}
	if rest, found := strings.CutSuffix(err.Error(), ": "+unix.ENOENT.Error()); found && strings.Contains(rest, "/proc/") {
		return errFell // the path leads through the root of a process of the wall, which is gone
	}
	return err
}

// firstLine removes the pages of stack trace from gVisor's errors.
func firstLine(err error) error {
	line, _, cut := strings.Cut(err.Error(), "\n")
	if !cut {
		return err
	}
	return errors.New(line)
}

// failedCall is brief, and shortens a chain of gVisor's steps that ends with an error of the host.
// It keeps the last step, which names the call and the file, and wraps that error. It keeps a
// refusal as it is.
func failedCall(err error) error {
	err = firstLine(err)
	if errors.Is(err, errRefused) {
		return err
	}
	for _, errno := range hostErrors {
		if steps, found := strings.CutSuffix(err.Error(), ": "+errno.Error()); found {
			return fmt.Errorf("%s: %w", lastStep(steps), errno)
		}
	}
	return err
}

// lastStep returns the last of steps in a chain, the first being the outermost.
func lastStep(chain string) string {
	if i := strings.LastIndex(chain, ": "); i >= 0 {
		chain = chain[i+len(": "):]
	}
	return strings.TrimPrefix(chain, "failed to ")
}

// hostErrors are errors of the host that gVisor passes on as text.
var hostErrors = []unix.Errno{
	unix.ENOSPC, unix.EDQUOT, unix.EIO, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EROFS, unix.EACCES, unix.EPERM, unix.EINTR,
}

// writeError turns the sentry's error for a write into ours. A full disk comes as a text that begins with
// the sentry's current step.
func writeError(err error) error {
	if err == nil {
		return nil
	}
	for _, full := range []error{unix.ENOSPC, unix.EDQUOT} {
		if strings.Contains(err.Error(), full.Error()) {
			return full
		}
	}
	return failedCall(err)
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
