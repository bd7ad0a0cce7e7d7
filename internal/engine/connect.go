package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Connect returns a conversation with the sandbox's keeper. It starts the sandbox if it does not
// run. Of several concurrent callers one starts it, and the others wait.
func (e *Engine) Connect(ctx context.Context, sb *spec.Sandbox) (*unixconn.Conn, error) {
	if sb.Broken != "" {
		return nil, spec.Errorf(spec.ErrSandbox, "sandbox %s cannot be used: %s", sb.Name, sb.Broken).
			WithHint("%s", cmp.Or(sb.Mend, "remove it with all that is in it: bothy rm -f "+sb.Name))
	}
	if err := e.unforked(sb); err != nil {
		return nil, err
	}
	if err := hostpath.CheckShared(sb); err != nil {
		return nil, err
	}
	waits, done := context.WithTimeout(ctx, startTimeout)
	started, err := e.afterMaking(waits, sb)
	done()
	defer started()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout) // a full timeout, however long that took
	defer cancel()
	d := e.Store.Sandbox(sb.ID)
	defer e.Patiently("sandbox %s does not answer yet; bothy stop %s ends it", sb.Name, sb.Name)()
	waiting := patience{limit: silentTime}
	for {
		c, err := dial(d)
		if err == nil {
			if err := e.sameDirectories(sb); err != nil {
				c.Close()
				return nil, err
			}
			e.sayRunning(sb)
			return c, nil
		}
		if waiting.over(err) {
			return nil, silent(sb)
		}
		if errors.Is(err, spec.ErrConflict) || errors.Is(err, spec.ErrDenied) {
			return nil, err
		}
		if !e.Store.Has(sb.ID) {
			return nil, errRemoved(sb)
		}
		lock, err := store.TryLock(d.Lock())
		switch {
		case err == nil:
			c, err := e.start(ctx, sb, lock)
			lock.Unlock()
			if err == nil {
				e.sayRunning(sb)
			}
			return c, err
		case errors.Is(err, store.ErrLocked):
			// Another process starts or stops it just now.
		case errors.Is(err, fs.ErrNotExist):
			return nil, errRemoved(sb)
		default:
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, (&spec.Error{Class: spec.ErrSandbox, Op: "start sandbox " + sb.Name, Err: context.Cause(ctx)}).
				WithHint("see what its keeper says: bothy logs --source keeper %s", sb.Name)
		case <-time.After(lockPoll):
		}
	}
}

// Dial returns a conversation with the keeper of a running sandbox, by its ID. Unlike [Engine.Connect] it does
// not start the sandbox, and does not wait.
func (e *Engine) Dial(id string) (*unixconn.Conn, error) { return dial(e.Store.Sandbox(id)) }

// sayRunning tells the owner of [Engine.Running] that a sandbox runs.
func (e *Engine) sayRunning(sb *spec.Sandbox) {
	if e.Running != nil {
		e.Running(sb)
	}
}

// dial reaches the control socket through the directory's file descriptor: a socket's path may have
// only 107 bytes.
func dial(d store.Sandbox) (*unixconn.Conn, error) { return dialAt(d, d.Control()) }

// dialAt is dial for one of the places of the control socket.
func dialAt(d store.Sandbox, socket string) (*unixconn.Conn, error) {
	dir, err := os.Open(d.Dir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	name := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(socket))
	uc, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, err
	}
	c := unixconn.New(uc)
	if err := greet(uc, c); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// greet waits for the keeper's hello: a keeper that is just ending accepts connections that it will
// never answer.
func greet(uc *net.UnixConn, c *unixconn.Conn) error {
	_ = uc.SetReadDeadline(time.Now().Add(helloTimeout))
	defer func() { _ = uc.SetReadDeadline(time.Time{}) }()
	var g wire.Greeting
	err := c.Expect(wire.Hello, &g)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errSilent
	}
	if err != nil {
		return err
	}
	if g.Protocol != wire.Protocol {
		return spec.Errorf(spec.ErrConflict, "the sandbox was started by another version of bothy (%s)", g.Version).
			WithHint("stop it with that version")
	}
	return nil
}
