package keeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
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
	if err := os.Chmod(tmp, 0o600); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// serve accepts commands until the listener is closed.
func (k *Keeper) serve(ctx context.Context, l *net.UnixListener) {
	for {
		uc, err := l.AcceptUnix()
		if err != nil {
			return
		}
		k.wg.Go(func() { k.converse(ctx, unixconn.New(uc)) })
	}
}

// converse answers one command. Only the sandbox's owner is listened to.
func (k *Keeper) converse(ctx context.Context, c *unixconn.Conn) {
	defer c.Close()
	uid, err := c.PeerUID()
	if err != nil || uid != os.Geteuid() {
		_ = c.SendError(spec.Errorf(spec.ErrDenied, "this sandbox belongs to another user"))
		return
	}
	var ask wire.Ask
	if err := c.Expect(wire.Request, &ask); err != nil {
		return
	}
	if err := k.answer(ctx, c, ask); err != nil {
		_ = c.SendError(err)
	}
}

func (k *Keeper) answer(ctx context.Context, c *unixconn.Conn, ask wire.Ask) error {
	switch ask.Op {
	case wire.OpStatus:
		return k.answerStatus(ctx, c)
	case wire.OpExec:
		return k.answerExec(ctx, c, ask)
	case wire.OpAttach:
		s := k.sessions.agent()
		if s == nil {
			return spec.Errorf(spec.ErrNotFound, "nothing to attach to: the sandbox runs no agent session")
		}
		return k.view(c, s, ask.Command.Size, true)
	case wire.OpStop:
		k.stop("stopped", time.Duration(ask.Timeout)*time.Second)
		<-k.stopped
		return c.SendJSON(wire.Reply, struct{}{})
	case wire.OpDestroy:
		k.destroy()
		<-k.stopped
		return c.SendJSON(wire.Reply, struct{}{})
	case wire.OpSave:
		if err := k.saver.save(ctx); err != nil {
			return err
		}
		return c.SendJSON(wire.Reply, k.saver.layer())
	}
	return spec.Errorf(spec.ErrUsage, "unknown request %q", ask.Op)
}

func (k *Keeper) answerStatus(ctx context.Context, c *unixconn.Conn) error {
	st := wire.KeeperStatus{Version: k.launch.Version, Status: k.status.get(), Sessions: k.sessions.list(), Usage: k.usage()}
	if tasks, err := k.wall.Tasks(ctx); err == nil {
		for _, t := range tasks {
			st.Tasks = append(st.Tasks, wire.Task{PID: t.PID, PPID: t.PPID, UID: t.UID, CPUSeconds: t.CPU.Seconds(), Command: t.Command})
		}
	}
	st.Usage.Processes, st.Usage.Sessions = len(st.Tasks), len(st.Sessions)
	return c.SendJSON(wire.Reply, st)
}

// answerExec starts a program and stays with it. A second agent session is not
// started: the caller is attached to the one that runs.
func (k *Keeper) answerExec(ctx context.Context, c *unixconn.Conn, ask wire.Ask) error {
	if err := k.begin(); err != nil {
		return err
	}
	defer k.end()
	if ask.Agent && ask.Command.TTY && !ask.Detached {
		if s := k.sessions.agent(); s != nil {
			return k.view(c, s, ask.Command.Size, true)
		}
	}
	p, err := k.process(ctx, ask.Command)
	if err != nil {
		return err
	}
	kind := kindExec
	if ask.Agent {
		kind = kindAgent
	}
	if !ask.Command.TTY && !ask.Detached {
		return k.execDirect(ctx, c, ask.Command, p, kind)
	}
	s := &session{}
	if ask.Detached {
		s.log = k.output
	}
	sp := wire.Spawn{Args: p.Args, Env: p.Env, Dir: p.Dir, UID: p.UID, GID: p.GID, Groups: p.Groups,
		Elevate: p.Elevate, TTY: ask.Command.TTY, Size: ask.Command.Size}
	st, pid, err := k.link.spawn(ctx, sp)
	if err != nil {
		return err
	}
	s.st = st
	k.sessions.add(s, kind, ask.Command, pid)
	if ask.Agent {
		s.log = k.output
	}
	k.wg.Go(func() { s.pump(); k.ended(s) })
	if ask.Detached {
		return c.SendJSON(wire.Reply, wire.Started{Session: s.info.ID, PID: pid})
	}
	return k.view(c, s, ask.Command.Size, false)
}

// execDirect runs a program on descriptors the caller made for it. When the
// caller vanishes the program is hung up, and a little later killed.
func (k *Keeper) execDirect(ctx context.Context, c *unixconn.Conn, cmd wire.Command, p driver.Process, kind string) error {
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
		return err
	}
	for _, f := range files {
		f.Close()
	}
	files = nil
	s := &session{proc: proc}
	k.sessions.add(s, kind, cmd, proc.PID())
	k.wg.Go(func() { s.wait(); k.ended(s) })
	if err := c.SendJSON(wire.Reply, wire.Started{Session: s.info.ID, PID: proc.PID()}); err != nil {
		k.abandon(s)
		return nil
	}
	go k.obey(c, s)
	<-s.ended
	if s.err != nil {
		return s.err
	}
	return c.Send(wire.ExitFrame(0, s.exit))
}

// plainStream admits only pipes made for this purpose: a terminal, a device, a
// socket or a file of the host never reaches the inside as a descriptor.
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

// obey carries out what a caller without a terminal asks for its program, and
// notices when it goes away.
func (k *Keeper) obey(c *unixconn.Conn, s *session) {
	for {
		f, err := c.Receive()
		if err != nil {
			select {
			case <-s.ended:
			default:
				k.abandon(s)
			}
			return
		}
		if f.Kind == wire.Signal {
			if sig, err := f.SignalValue(); err == nil {
				_ = s.proc.Signal(sig)
			}
		}
	}
}

// abandon ends a program whose caller vanished.
func (k *Keeper) abandon(s *session) {
	_ = s.proc.Signal(int(unix.SIGHUP))
	select {
	case <-s.ended:
	case <-time.After(orphanGrace):
		_ = s.proc.Signal(int(unix.SIGKILL))
	}
}

// view attaches a terminal to a session until either ends. A terminal that
// goes away leaves the program running.
func (k *Keeper) view(c *unixconn.Conn, s *session, size wire.Winsize, existing bool) error {
	v := &viewer{conn: c, size: size}
	started := wire.Started{Session: s.info.ID, PID: s.info.PID, Existing: existing}
	if err := c.SendJSON(wire.Reply, started); err != nil {
		return nil
	}
	if !s.attach(v) {
		return c.Send(wire.ExitFrame(0, s.exit))
	}
	k.status.used()
	defer s.detach(v)
	if existing {
		s.redraw(size)
	}
	go func() {
		<-s.ended
		_ = unixHalfClose(c)
	}()
	for {
		f, err := c.Receive()
		if err != nil {
			return nil
		}
		if err := s.command(f, v); err != nil {
			return nil
		}
	}
}

// unixHalfClose wakes the reader of a conversation that has nothing more to
// say.
func unixHalfClose(c *unixconn.Conn) error {
	time.Sleep(time.Second) // the caller normally hangs up first
	return c.Close()
}

// command is one frame of an attached terminal.
func (s *session) command(f wire.Frame, v *viewer) error {
	switch f.Kind {
	case wire.Data:
		return s.st.input(f.Payload)
	case wire.EOF:
		return s.st.l.send(wire.Frame{Kind: wire.EOF, Stream: s.st.id})
	case wire.Resize:
		w, err := f.Winsize()
		if err != nil {
			return err
		}
		s.mu.Lock()
		v.size = w
		s.mu.Unlock()
		s.resize()
	case wire.Signal:
		sig, err := f.SignalValue()
		if err != nil {
			return err
		}
		return s.signal(context.Background(), sig)
	}
	return nil
}

// process turns a command into something the wall can run: who, where, with
// which environment.
func (k *Keeper) process(ctx context.Context, c wire.Command) (driver.Process, error) {
	who := k.account
	if user := c.User; user != "" || k.spec.User != "" {
		if user == "" {
			user = k.spec.User
		}
		r, err := k.link.ask(ctx, wire.InitAsk{Ask: wire.AskUser, User: user})
		if err != nil {
			return driver.Process{}, err
		}
		who = r.Account
	}
	p := driver.Process{Args: c.Args, Dir: c.Dir, UID: who.UID, GID: who.GID, Groups: who.Groups, Elevate: true}
	if len(p.Args) == 0 {
		p.Args = []string{who.Shell}
	}
	if p.Dir == "" {
		p.Dir = k.spec.Primary()
	}
	if p.Dir == "" {
		p.Dir = who.Home
	}
	if !filepath.IsAbs(p.Dir) {
		return driver.Process{}, spec.Errorf(spec.ErrUsage, "working directory %q is not absolute", p.Dir)
	}
	p.Env = k.environment(who, c)
	return p, nil
}

// environment is what every program inside starts with; later entries win.
func (k *Keeper) environment(who wire.Account, c wire.Command) []string {
	env := []string{
		"PATH=/.bothy/bin:" + who.Home + "/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + who.Home,
		"USER=" + who.Name,
		"LOGNAME=" + who.Name,
		"SHELL=" + who.Shell,
		"LANG=C.UTF-8",
		"HOSTNAME=" + k.spec.Name,
		"IS_SANDBOX=1",
		"SANDBOX_NAME=" + k.spec.Name,
		"SANDBOX_ID=" + k.spec.ID,
		"WORKSPACE_DIR=" + k.spec.Primary(),
		// Files have other inode numbers inside: without this, git reads every
		// file again whenever it changes sides.
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.checkStat", "GIT_CONFIG_VALUE_0=minimal",
	}
	env = append(env, k.spec.Env...)
	env = append(env, c.Env...)
	return lastWins(env)
}

// lastWins drops all but the last value of each variable, and what is none.
func lastWins(env []string) []string {
	last := map[string]int{}
	for i, kv := range env {
		if name, _, ok := strings.Cut(kv, "="); ok {
			last[name] = i
		}
	}
	var out []string
	for i, kv := range env {
		if name, _, ok := strings.Cut(kv, "="); ok && last[name] == i {
			out = append(out, kv)
		}
	}
	return out
}
