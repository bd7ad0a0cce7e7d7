package keeper

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"time"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// caller is the source of commands.
type caller interface {
	AcceptUnix() (*net.UnixConn, error)
}

// Pauses before accept is retried after an error: the first, and the longest. The end of a sandbox
// may wait for one.
const (
	acceptPause     = 5 * time.Millisecond
	acceptPauseMost = 250 * time.Millisecond
)

// acceptCommands accepts commands until the listener is closed. No other error ends it: a keeper that takes
// no commands could not even be asked to stop. Errors such as a lack of file descriptors, or a
// caller that has already hung up, are temporary.
func (k *Keeper) acceptCommands(ctx context.Context, l caller) {
	pause := acceptPause
	for {
		uc, err := l.AcceptUnix()
		switch {
		case err == nil:
			k.wg.Go(func() { k.greetCaller(ctx, unixconn.New(uc)) })
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

// greetCaller starts the conversation with a caller. It serves only the sandbox's owner.
func (k *Keeper) greetCaller(ctx context.Context, c *unixconn.Conn) {
	defer c.Close()
	uid, err := c.PeerUID()
	if err != nil || uid != os.Geteuid() {
		_ = c.SendError(spec.Errorf(spec.ErrDenied, "this sandbox belongs to another user"))
		return
	}
	if err := c.SendJSON(wire.Hello, wire.Greeting{Protocol: wire.Protocol, Version: k.launch.Version}); err != nil {
		return
	}
	k.answerCaller(ctx, c)
}

// answerCaller answers one command. A caller that has sent no command when the sandbox ends is told that
// it is too late.
func (k *Keeper) answerCaller(ctx context.Context, c *unixconn.Conn) {
	defer c.Close()
	told := make(chan struct{})
	early := context.AfterFunc(ctx, func() {
		defer close(told)
		_ = c.SendError(k.life.tooLate())
		c.Close()
	})
	var ask wire.Ask
	err := c.Expect(wire.Request, &ask)
	if !early() {
		<-told // else the caller would see an end without an answer, and assume that the request began
		return
	}
	if err != nil {
		return
	}
	err = k.answerRequest(ctx, c, ask)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = k.life.tooLate()
	}
	if err != nil {
		_ = c.SendError(err)
	}
}

func (k *Keeper) answerRequest(ctx context.Context, c *unixconn.Conn, ask wire.Ask) error {
	switch ask.Op {
	case wire.OpStatus:
		return k.answerStatus(ctx, c)
	case wire.OpExec:
		return k.answerExec(ctx, c, ask)
	case wire.OpStop:
		k.life.stopSandbox("stopped", cmp.Or(time.Duration(ask.Grace), time.Duration(ask.Timeout)*time.Second))
		<-k.stopped
		if k.unsaved != nil {
			return k.unsaved
		}
		return c.SendJSON(wire.Reply, struct{}{})
	case wire.OpDestroy:
		k.life.discardSandbox("removed")
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
		if err := k.saver.saveLayer(ctx); err != nil {
			return err
		}
		return c.SendJSON(wire.Reply, k.saver.savedLayer())
	case wire.OpStill:
		return k.answerPause(ctx, c, ask)
	case wire.OpFollow:
		return k.answerFollow(ctx, c)
	case wire.OpChanged:
		k.happened.countChange()
		return c.SendJSON(wire.Reply, struct{}{})
	}
	return spec.Errorf(spec.ErrUsage, "unknown request %q", ask.Op)
}

func (k *Keeper) answerStatus(ctx context.Context, c *unixconn.Conn) error {
	<-k.recorded // a caller that knows the sandbox runs finds that in the file, too
	return c.SendJSON(wire.Reply, k.describeStatus(ctx))
}

// describeStatus returns the status of the sandbox.
func (k *Keeper) describeStatus(ctx context.Context) *wire.KeeperStatus {
	st := &wire.KeeperStatus{Version: k.launch.Version, Status: k.status.Get(), Sessions: k.sessions.List(), Usage: usageOf(k.wall), Generation: k.grants.Generation()}
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

// answerBill reports the usage of models, once it is on disk.
func (k *Keeper) answerBill(c *unixconn.Conn) error {
	if err := k.bill.Note(); err != nil {
		return err
	}
	return c.SendJSON(wire.Reply, k.bill.Meter().Bill())
}
