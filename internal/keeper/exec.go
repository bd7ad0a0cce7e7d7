package keeper

import (
	"context"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/keeper/command"
	"github.com/bothy-dev/bothy/internal/keeper/session"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// answerExec starts a program and stays with it. It does not start a second agent session: it
// attaches the caller to the running one.
func (k *Keeper) answerExec(ctx context.Context, c *unixconn.Conn, ask wire.Ask) error {
	started, err := k.life.beginProgram()
	if err != nil {
		return err
	}
	defer started()
	defer k.life.endCommand()
	ctx = context.WithoutCancel(ctx) // a stop does not cancel a start that has begun
	if k.spec.Remove && !ask.Detached && !ask.Prepares {
		// The caller that made the sandbox for this one command is served. If that caller has
		// vanished, nothing else would take the sandbox down.
		defer k.life.discardSandbox("its command ended")
	}
	v := session.NewViewer(c, ask.Command.Size)
	if ask.Agent && ask.Command.TTY {
		k.agents.Lock()
		done, unlock := started, sync.OnceFunc(k.agents.Unlock)
		defer unlock()
		started = func() { unlock(); done() }
		if running := k.sessions.Agent(); running != nil {
			return k.rejoin(c, running, ask.Detached, v, started)
		}
	}
	k.worktrees.BeginCommand(ctx)
	bound := k.ender.LimitTime(&ask.Command)
	p, err := k.process(ctx, ask.Command)
	if err != nil {
		return err
	}
	kind := session.KindExec
	if ask.Agent {
		kind = session.KindAgent
	}
	if !ask.Command.TTY && !ask.Detached {
		return k.execDirect(ctx, c, ask, p, kind, bound, started)
	}
	return k.execSession(ctx, c, ask, p, kind, v, bound, started)
}

// rejoin attaches a caller to the agent's running session, or reports that session.
func (k *Keeper) rejoin(c *unixconn.Conn, running *session.Session, detached bool, v *session.Viewer, started func()) error {
	started()
	if detached {
		info := running.Info()
		return c.SendJSON(wire.Reply, wire.Started{Session: info.ID, PID: info.PID, Existing: true})
	}
	k.status.NoteUsed()
	return running.View(v)
}

// execSession runs a program under init: with a terminal, or detached.
func (k *Keeper) execSession(ctx context.Context, c *unixconn.Conn, ask wire.Ask, p driver.Process, kind string, v *session.Viewer, bound func(*session.Session), started func()) error {
	sp := wire.Spawn{
		Args: p.Args, Env: p.Env, Dir: p.Dir, UID: p.UID, GID: p.GID, Groups: p.Groups,
		Elevate: p.Elevate, TTY: ask.Command.TTY, Size: ask.Command.Size, Umask: k.commands.Umask(ask.Command.Caller),
	}
	if sp.TTY {
		sp.Terminals = command.Terminals(sp.Env)
	}
	s, err := k.spawnSession(ctx, ask, sp, kind)
	if err != nil {
		return k.lostStart(err)
	}
	started()
	reply := wire.Started{Session: s.Info().ID, PID: s.Info().PID}
	k.wg.Go(func() { bound(s) })
	<-k.recorded
	if ask.Agent && ask.Command.TTY {
		s.ReportIdle(k.status.NoteWaiting, false)
	}
	pump := func() { k.wg.Go(func() { s.CarryOutput(); k.noteEnded(s) }) }
	if ask.Detached {
		pump()
		if !ask.Command.TTY {
			_ = s.CloseInput() // a detached program gets no input
		}
		return c.SendJSON(wire.Reply, reply)
	}
	s.Attach(v) // before the pump, so that the viewer sees the first byte
	if err := c.SendJSON(wire.Reply, reply); err != nil {
		pump()
		return nil
	}
	pump()
	k.status.NoteUsed()
	s.Watch(v)
	return nil
}

// spawnSession starts a program under init and notes it, as one step with regard to a memory save.
func (k *Keeper) spawnSession(ctx context.Context, ask wire.Ask, sp wire.Spawn, kind string) (*session.Session, error) {
	k.spawning.RLock()
	defer k.spawning.RUnlock()
	st, pid, err := k.link.Spawn(ctx, sp)
	if err != nil {
		return nil, err
	}
	s := session.UnderInit(st, k.outputOf(ask.Detached || ask.Agent), k.sessionEnding())
	k.sessions.Add(s, kind, ask.Command, pid)
	return s, nil
}

// execDirect runs a program on the caller's descriptors. If the caller vanishes, the keeper hangs up
// the program with its children, and kills them a little later, unless they are to be spared.
func (k *Keeper) execDirect(ctx context.Context, c *unixconn.Conn, ask wire.Ask, p driver.Process, kind string, bound func(*session.Session), started func()) error {
	files := c.TakeFiles()
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if len(files) != 3 {
		return spec.Errorf(spec.ErrUsage, "a command without a terminal needs three descriptors, got %d", len(files))
	}
	for _, f := range files {
		if err := plainStream(f); err != nil {
			return err
		}
	}
	p.Stdin, p.Stdout, p.Stderr = files[0], files[1], files[2]
	proc, err := k.wall.Exec(ctx, p)
	if err != nil {
		return k.lostStart(err)
	}
	for _, f := range files {
		f.Close()
	}
	files = nil
	s := session.Direct(proc, k.sessionEnding())
	k.sessions.Add(s, kind, ask.Command, proc.PID())
	started()
	k.wg.Go(func() { s.AwaitEnd(); k.noteEnded(s) })
	settled := make(chan struct{})
	k.wg.Go(func() { defer close(settled); bound(s) })
	<-k.recorded
	if err := c.SendJSON(wire.Reply, wire.Started{Session: s.Info().ID, PID: proc.PID()}); err != nil {
		k.abandon(s, ask.Spares)
		return nil
	}
	go k.serveProgram(c, s, ask.Spares)
	<-s.Done()
	<-settled // all its processes have ended
	return s.TellEnd(c)
}

// plainStream admits only pipes made for this purpose. No terminal, device, socket or file of the
// host reaches the inside as a descriptor.
func plainStream(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return spec.Errorf(spec.ErrDenied, "only pipes are handed to a sandbox")
	}
	return nil
}

// serveProgram serves a caller without a terminal while its program runs.
func (k *Keeper) serveProgram(c *unixconn.Conn, s *session.Session, spares bool) {
	if s.Obey(c) {
		k.abandon(s, spares)
	}
}

// sessionEnding returns the ending of programs that end with the sandbox.
func (k *Keeper) sessionEnding() session.Ending {
	return session.Ending{Explain: k.obituary, Fell: k.wall.Done()}
}

// outputOf returns the log of a program's output, or nil if none is kept.
func (k *Keeper) outputOf(logged bool) io.Writer {
	if !logged {
		return nil
	}
	return k.output
}

// abandon ends a program whose caller vanished, with all processes that it started. A sandbox made
// for one command ends with it, even if more commands were to follow: nothing else would take it
// down. With spares, only the program itself is hung up, as by an SSH server: a process that it started may be a
// server for later callers, and shares its process group unless a shell with job control started it.
func (k *Keeper) abandon(s *session.Session, spares bool) {
	if spares {
		k.hangUpAlone(s)
		return
	}
	if k.spec.Remove {
		defer k.life.discardSandbox("who it was made for is gone")
	}
	k.ender.EndAll(s, unix.SIGHUP)
}

// hangUpAlone hangs up a program that the wall started, and no other of its process group.
func (k *Keeper) hangUpAlone(s *session.Session) {
	select {
	case <-s.Done(): // another process may have its number by now
		return
	default:
	}
	if err := k.wall.Signal(context.Background(), s.Info().PID, int(unix.SIGHUP)); err != nil {
		k.log.Debug("hang up a program", "pid", s.Info().PID, "err", err) // it has ended, or the sandbox has
	}
}

// process turns a command into a process that the wall can run.
func (k *Keeper) process(ctx context.Context, c wire.Command) (driver.Process, error) {
	r, err := k.commands.Resolve(ctx, c)
	if err != nil {
		return driver.Process{}, err
	}
	lent := k.grants.Lent(time.Now())
	if err := k.agent.openFor(ctx, k.link, lent); err != nil {
		k.log.Warn("have a socket for the SSH agent", "err", err)
	}
	return k.commands.Process(r, lent, k.tellsJava()), nil
}

// tellsJava reports whether Java must be told of the sandbox's authority: some traffic is inspected, and
// no key store of the host's Java has the authority.
func (k *Keeper) tellsJava() bool {
	return !k.javaServed && (k.mock != nil || k.grants.Inspects())
}
