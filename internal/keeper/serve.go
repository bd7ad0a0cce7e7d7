package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// listen makes the control socket appear, ready for connections, under its
// final name. It goes through the directory's descriptor: a socket's path may
// have only 107 bytes.
func listen(path string) (*net.UnixListener, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	tmp := fmt.Sprintf("/proc/self/fd/%d/.%s", dir.Fd(), filepath.Base(path))
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: tmp, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(tmp, 0o600); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// caller is where commands come from.
type caller interface {
	AcceptUnix() (*net.UnixConn, error)
}

// Pauses between attempts to accept a connection while that fails: at first, and at most.
// The end of a sandbox may wait for one.
const (
	acceptPause     = 5 * time.Millisecond
	acceptPauseMost = 250 * time.Millisecond
)

// serve accepts commands until the listener is closed. Nothing else ends it: a keeper to
// which nobody can speak could not even be asked to stop, and no file descriptor being left,
// or somebody having hung up already, does not last.
func (k *Keeper) serve(ctx context.Context, l caller) {
	pause := acceptPause
	for {
		uc, err := l.AcceptUnix()
		switch {
		case err == nil:
			k.wg.Go(func() { k.welcome(ctx, unixconn.New(uc)) })
			pause = acceptPause
		case errors.Is(err, net.ErrClosed):
			return
		default:
			if pause == acceptPause {
				k.log.Warn("accept a command", "err", err)
			}
			time.Sleep(pause)
			pause = min(2*pause, acceptPauseMost)
		}
	}
}

// welcome begins a conversation with whoever called. Only the sandbox's owner
// is listened to.
func (k *Keeper) welcome(ctx context.Context, c *unixconn.Conn) {
	defer c.Close()
	uid, err := c.PeerUID()
	if err != nil || uid != os.Geteuid() {
		_ = c.SendError(spec.Errorf(spec.ErrDenied, "this sandbox belongs to another user"))
		return
	}
	if err := c.SendJSON(wire.Hello, wire.Greeting{Protocol: wire.Protocol, Version: k.launch.Version}); err != nil {
		return
	}
	k.converse(ctx, c)
}

// converse answers one command. Who has not asked when the sandbox ends hears
// that it is too late.
func (k *Keeper) converse(ctx context.Context, c *unixconn.Conn) {
	defer c.Close()
	told := make(chan struct{})
	early := context.AfterFunc(ctx, func() {
		defer close(told)
		_ = c.SendError(k.tooLate())
		c.Close()
	})
	var ask wire.Ask
	err := c.Expect(wire.Request, &ask)
	if !early() {
		<-told // or the caller would see an end without an answer, and take the request for begun
		return
	}
	if err != nil {
		return
	}
	err = k.answer(ctx, c, ask)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = k.tooLate()
	}
	if err != nil {
		_ = c.SendError(err)
	}
}

func (k *Keeper) answer(ctx context.Context, c *unixconn.Conn, ask wire.Ask) error {
	switch ask.Op {
	case wire.OpStatus:
		return k.answerStatus(ctx, c)
	case wire.OpExec:
		return k.answerExec(ctx, c, ask)
	case wire.OpStop:
		k.stop("stopped", cmp.Or(time.Duration(ask.Grace), time.Duration(ask.Timeout)*time.Second))
		<-k.stopped
		if k.unsaved != nil {
			return k.unsaved
		}
		return c.SendJSON(wire.Reply, struct{}{})
	case wire.OpDestroy:
		k.destroy("removed")
		<-k.stopped
		return c.SendJSON(wire.Reply, struct{}{})
	case wire.OpPolicy:
		return k.answerPolicy(c, ask.Policy, false)
	case wire.OpOwnPolicy:
		return k.answerPolicy(c, ask.Policy, true)
	case wire.OpLoans:
		return k.answerLoans(c, ask.Loans)
	case wire.OpBill:
		return k.answerBill(c)
	case wire.OpBudget:
		k.gateway.SetBudget(ask.Budget)
		return c.SendJSON(wire.Reply, struct{}{})
	case wire.OpPorts:
		return k.answerPorts(c, ask.Ports)
	case wire.OpPing:
		return c.SendJSON(wire.Reply, struct{}{})
	case wire.OpUp:
		<-k.recorded
		return c.SendJSON(wire.Reply, struct{}{})
	case wire.OpSave:
		if err := k.saver.save(ctx); err != nil {
			return err
		}
		return c.SendJSON(wire.Reply, k.saver.layer())
	case wire.OpStill:
		return k.answerStill(ctx, c, ask)
	case wire.OpFollow:
		return k.answerFollow(ctx, c)
	case wire.OpChanged:
		k.happened.change()
		return c.SendJSON(wire.Reply, struct{}{})
	}
	return spec.Errorf(spec.ErrUsage, "unknown request %q", ask.Op)
}

func (k *Keeper) answerStatus(ctx context.Context, c *unixconn.Conn) error {
	<-k.recorded // who has heard that it runs can read it, too
	return c.SendJSON(wire.Reply, k.standing(ctx))
}

// standing is how things stand.
func (k *Keeper) standing(ctx context.Context) *wire.KeeperStatus {
	st := &wire.KeeperStatus{Version: k.launch.Version, Status: k.status.get(), Sessions: k.sessions.list(), Usage: k.usage(), Generation: k.generation()}
	st.Usage.Sessions = len(st.Sessions)
	st.SetFlows(k.gateway.Flows())
	if list, err := k.wall.Tasks(ctx); err == nil {
		tasks := make([]wire.Task, len(list))
		for i, t := range list {
			tasks[i] = wire.Task{PID: t.PID, PPID: t.PPID, UID: t.UID, CPUSeconds: t.CPU.Seconds(), Command: t.Command}
		}
		st.SetTasks(tasks)
	}
	return st
}
