package gvisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/sentry/control"
	"gvisor.dev/gvisor/pkg/sentry/kernel/auth"
	"gvisor.dev/gvisor/pkg/urpc"
	"gvisor.dev/gvisor/runsc/sandbox"
	"gvisor.dev/gvisor/runsc/specutils"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/spec"
)

func (w *wall) Exec(ctx context.Context, p driver.Process) (driver.Running, error) {
	caps, err := specutils.Capabilities(false, capabilitySets(p))
	if err != nil {
		return nil, fmt.Errorf("capabilities: %w", err)
	}
	groups := make([]auth.KGID, len(p.Groups))
	for i, g := range p.Groups {
		groups[i] = auth.KGID(g)
	}
	args := &control.ExecArgs{
		ContainerID:      w.c.ID,
		Argv:             p.Args,
		Envv:             p.Env,
		WorkingDirectory: p.Dir,
		KUID:             auth.KUID(p.UID),
		KGID:             auth.KGID(p.GID),
		ExtraKGIDs:       groups,
		Capabilities:     caps,
		FilePayload: control.NewFilePayload(map[int]*os.File{
			0: p.Stdin, 1: p.Stdout, 2: p.Stderr,
		}, nil),
	}
	select {
	case <-w.done:
		return nil, execError(p, errEnded)
	default:
	}
	var pid atomic.Int32
	var settled atomic.Bool // by the answer, or by a caller that stopped waiting for it
	err = w.callSentry(ctx, func() error {
		started, err := w.sandbox.Execute(w.conf, args)
		if err != nil {
			return execAnswer(err)
		}
		pid.Store(started)
		if settled.Swap(true) { // the caller was told that the answer was lost
			_ = w.sandbox.SignalProcessGroup(w.c.ID, started, unix.SIGKILL)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errRefused) && settled.Swap(true) {
		err = nil // the answer came at the last moment
	}
	switch {
	case errors.Is(err, errRefused):
		return nil, execError(p, err)
	case err != nil:
		return nil, spec.Errorf(spec.ErrMayHaveRun, "the sandbox did not say whether it has")
	}
	return &running{w: w, pid: pid.Load()}, nil
}

// errRefused marks an error after which a process has certainly not started.
var errRefused = errors.New("not begun")

// refused is such an error, with its own text.
type refused struct{ error }

func (refused) Is(target error) bool { return target == errRefused }

func (r refused) Unwrap() error { return r.error }

// execAnswer marks the errors of Execute after which no process has started: the sentry reported it, or
// it was not reached. After any other error it may have carried out the request.
func execAnswer(err error) error {
	cause := errors.Unwrap(err) // without the command, which may contain any text
	if cause == nil {
		return err
	}
	_, said := errors.AsType[urpc.RemoteError](cause)
	_, never := unsentReason(cause)
	if said || never {
		return refused{firstLine(cause)}
	}
	return err
}

// capabilitySets gives root all capabilities. An ordinary user gets none, except the ability to become
// root if the caller asks for that.
func capabilitySets(p driver.Process) *specs.LinuxCapabilities {
	switch {
	case p.UID == 0:
		return &specs.LinuxCapabilities{Bounding: capabilities, Effective: capabilities, Permitted: capabilities}
	case p.Elevate:
		return &specs.LinuxCapabilities{
			Bounding: capabilities, Effective: elevate, Permitted: elevate,
			Inheritable: elevate, Ambient: elevate,
		}
	}
	return &specs.LinuxCapabilities{}
}

// execError distinguishes a missing or unusable program from a failing sandbox, by the sentry's text:
// the error's type is lost on the way.
func execError(p driver.Process, err error) error {
	program, text := p.Args[0], err.Error()
	switch {
	case strings.Contains(text, "working directory") && strings.Contains(text, "permission denied"):
		return spec.Errorf(spec.ErrNotRunnable, "working directory %s: the program's user may not enter it", p.Dir).WithHint("name another with -w, e.g. -w /")
	case strings.Contains(text, "working directory"):
		return spec.Errorf(spec.ErrNotRunnable, "working directory %s: no such directory in the sandbox", p.Dir)
	case strings.Contains(text, "no such file or directory"), strings.Contains(text, "not a directory"):
		return spec.Errorf(spec.ErrNoSuchBinary, "%s: command not found in the sandbox", program)
	case strings.Contains(text, "permission denied"):
		return spec.Errorf(spec.ErrNotRunnable, "%s: permission denied", program)
	case strings.Contains(text, "exec format error"):
		return spec.Errorf(spec.ErrNotRunnable, "%s: not a program this machine can run", program)
	case strings.Contains(text, "is a directory"):
		return spec.Errorf(spec.ErrNotRunnable, "%s: is a directory", program)
	}
	return spec.Errorf(spec.ErrSandbox, "run %s: %w", program, err)
}

type running struct {
	w   *wall
	pid int32
}

func (r *running) PID() int { return int(r.pid) }

func (r *running) Wait() (driver.Exit, error) {
	var ws unix.WaitStatus
	err := r.w.reachUntil(nil, func() (err error) { // the program runs, even if we cannot ask for a while
		ws, err = r.w.sandbox.WaitPID(r.w.c.ID, r.pid)
		return err
	})
	if err != nil {
		return driver.Exit{}, spec.Errorf(spec.ErrSandbox, "wait for process %d: %w", r.pid, firstLine(err))
	}
	if ws.Signaled() {
		return driver.Exit{Signal: int(ws.Signal())}, nil
	}
	return driver.Exit{Code: ws.ExitStatus()}, nil
}

func (r *running) Signal(sig int) error {
	return r.w.callSentry(context.Background(), func() error { // it leads its own session
		return r.w.sandbox.SignalProcessGroup(r.w.c.ID, r.pid, unix.Signal(sig))
	})
}

func (w *wall) Signal(ctx context.Context, pid, sig int) error {
	return w.callSentry(ctx, func() error {
		return w.sandbox.SignalProcess(w.c.ID, int32(pid), unix.Signal(sig), false)
	})
}

func (w *wall) Tasks(ctx context.Context) ([]driver.Task, error) {
	var tasks []driver.Task
	err := w.callSentry(ctx, func() error {
		list, err := w.sandbox.Processes(w.c.ID)
		for _, p := range list {
			cpu, _ := time.ParseDuration(p.Time)
			tasks = append(tasks, driver.Task{
				PID: int(p.PID), PPID: int(p.PPID), UID: int(p.UID),
				CPU: cpu, Command: p.Cmd, Threads: len(p.Threads),
			})
		}
		return err
	})
	return tasks, err
}

func (w *wall) Memory(ctx context.Context) (int64, error) {
	var total uint64
	err := w.callSentry(ctx, func() error {
		u, err := w.sandbox.Usage(false)
		total = u.Total
		return err
	})
	return int64(total), err
}

func (w *wall) Pause(ctx context.Context) (func(), error) {
	// A caller that stopped waiting must not leave the sandbox paused. And a sandbox that is not
	// paused must not be resumed, as the sentry would not survive that.
	var settled atomic.Bool
	err := w.callSentry(ctx, func() error {
		err := w.sandbox.Pause(w.c.ID)
		if err == nil && settled.Swap(true) {
			w.resume()
		}
		return err
	})
	if err == nil {
		return w.resume, nil
	}
	if settled.Swap(true) {
		w.resume() // the pause has just succeeded
	}
	return nil, fmt.Errorf("pause: %w", err)
}

// resume ends a pause. A sentry that does not answer is practically dead, and the next request finds
// that out.
func (w *wall) resume() {
	_ = w.callSentry(context.Background(), func() error { return w.sandbox.Resume(w.c.ID) })
}

// saveTimeout bounds the time to write a root layer, or memory: it may be gigabytes.
const saveTimeout = 10 * time.Minute

func (w *wall) SaveRoot(ctx context.Context, dir string) error {
	err := w.saveState(ctx, func() error {
		return w.sandbox.FSSave(w.conf, w.c.ID, dir, sandbox.FSSaveOpts{Paths: w.saved})
	})
	if err != nil {
		return fmt.Errorf("have the sentry write it: %w", err)
	}
	return nil
}

// saveState makes the sentry write something.
func (w *wall) saveState(ctx context.Context, write func() error) error {
	select {
	case <-w.done:
		return errEnded
	default:
	}
	ctx, cancel := context.WithTimeoutCause(ctx, saveTimeout, fmt.Errorf("%w: more than %v", driver.ErrOverdue, saveTimeout))
	defer cancel()
	if err := w.Settle(ctx); err != nil {
		return err
	}
	result := make(chan error, 1)
	go func() { result <- w.reachSentry(write) }()
	select {
	case err := <-result:
		return writeError(err)
	case <-w.done:
		select { // the sentry makes files until it notices the end
		case <-result: //nolint:errcheck // it failed with the sandbox
		case <-time.After(callTimeout):
		}
		return errEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
