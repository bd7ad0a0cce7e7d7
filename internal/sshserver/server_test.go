package sshserver

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/guest"
	"github.com/bothy-dev/bothy/internal/keeper/keepertest"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// inside plays a sandbox. Each program is played by run, with its own copies of the streams.
type inside struct {
	t   *testing.T
	run func(*program)

	mu    sync.Mutex
	asked []wire.Ask
	wg    sync.WaitGroup
}

type program struct {
	ask           wire.Ask
	conn          *unixconn.Conn
	in, out, errs *os.File
}

func (i *inside) Ask(_ context.Context, q wire.Ask, files ...*os.File) (*unixconn.Conn, wire.Started, error) {
	i.mu.Lock()
	i.asked = append(i.asked, q)
	i.mu.Unlock()
	if i.run == nil {
		return nil, wire.Started{}, spec.Errorf(spec.ErrSandbox, "it\x1b[31m does not start").WithHint("try again")
	}
	keeper, command := keepertest.Conns(i.t)
	p := &program{ask: q, conn: keeper}
	for n, f := range files {
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			i.t.Fatal(err)
		}
		own := os.NewFile(uintptr(fd), f.Name())
		*[]**os.File{&p.in, &p.out, &p.errs}[n] = own
	}
	i.wg.Go(func() {
		i.run(p)
		for _, f := range []*os.File{p.in, p.out, p.errs} {
			if f != nil {
				f.Close()
			}
		}
	})
	return command, wire.Started{}, nil
}

func (i *inside) commands() (list []wire.Ask) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.asked)
}

func (p *program) ends(e wire.Ended) { _ = p.conn.Send(wire.ExitFrame(0, e)) }

// socketPair returns both ends of a connection that buffers: each side greets first.
func socketPair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		ends[i], err = net.FileConn(f)
		must(t, err)
		f.Close()
	}
	return ends[0], ends[1]
}

// connection is a client with its server.
type connection struct {
	*ssh.Client
	said func() []string
	end  chan error
}

func dial(t *testing.T, in *inside, user string) (*connection, error) {
	t.Helper()
	in.t = t
	key := testKey(t)
	a, b := socketPair(t)
	var mu sync.Mutex
	var said []string
	c := &connection{end: make(chan error, 1), said: func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(said) }}
	go func() {
		c.end <- Serve(t.Context(), a, Options{Key: key, Inside: in, Name: "box", Users: []string{"me"}, Say: func(text string) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, text)
		}})
	}()
	conn, channels, requests, err := ssh.NewClientConn(b, "box.bothy", &ssh.ClientConfig{User: user, HostKeyCallback: ssh.FixedHostKey(key.PublicKey())})
	if err != nil {
		b.Close()
		return c, err
	}
	c.Client = ssh.NewClient(conn, channels, requests)
	t.Cleanup(func() {
		c.Close()
		keepertest.Within(t, "the server", func() { <-c.end })
		keepertest.Within(t, "the program", in.wg.Wait)
	})
	return c, nil
}

func connected(t *testing.T, run func(*program)) (*connection, *inside) {
	t.Helper()
	in := &inside{run: run}
	c, err := dial(t, in, usual)
	must(t, err)
	return c, in
}

// echo plays a program that prints its input and its arguments.
func echo(p *program) {
	text, _ := io.ReadAll(p.in)
	_, _ = p.out.Write(text)
	_, _ = p.errs.WriteString(strings.Join(p.ask.Command.Args, "|"))
	p.out.Close()
	p.errs.Close()
	p.ends(wire.Ended{Code: 3})
}

func TestProgram(t *testing.T) {
	c, in := connected(t, echo)
	s, err := c.NewSession()
	must(t, err)
	var out, errs bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = strings.NewReader("typed"), &out, &errs
	err = s.Run("say 'it'")
	exit, ok := errors.AsType[*ssh.ExitError](err)
	if !ok || exit.ExitStatus() != 3 || out.String() != "typed" || errs.String() != guest.Path+"|"+guest.ShellName+"|say 'it'" {
		t.Errorf("%v, %q, %q", err, &out, &errs)
	}
	ask := in.commands()[0]
	if !ask.Spares || !ask.Prepares || ask.Command.User != "" || ask.Command.TTY {
		t.Errorf("asked for %+v", ask)
	}
}

func TestEnds(t *testing.T) {
	type end struct {
		ended  wire.Ended
		failed error
	}
	next := make(chan end, 1)
	c, _ := connected(t, func(p *program) {
		e := <-next
		if e.failed != nil {
			_ = p.conn.SendError(e.failed)
			return
		}
		_ = p.conn.Send(wire.Frame{Kind: wire.Note, Payload: []byte("a \x1b]0;note")})
		p.ends(e.ended)
	})
	run := func(e end) (string, error) {
		next <- e
		s, err := c.NewSession()
		must(t, err)
		var errs bytes.Buffer
		s.Stderr = &errs
		err = s.Run("x")
		return errs.String(), err
	}
	said, err := run(end{ended: wire.Ended{Signal: int(unix.SIGTERM)}})
	if e, ok := errors.AsType[*ssh.ExitError](err); !ok || e.Signal() != "TERM" || strings.Contains(said, "\x1b") || !strings.HasPrefix(said, "bothy: a ") {
		t.Errorf("%v, %q", err, said)
	}
	if _, err = run(end{ended: wire.Ended{Signal: int(unix.SIGWINCH)}}); err == nil || !strings.Contains(err.Error(), "156") {
		t.Errorf("a signal without a name: %v", err)
	}
	said, err = run(end{failed: spec.Errorf(spec.ErrSandbox, "it fell").WithHint("stand it up")})
	if e, ok := errors.AsType[*ssh.ExitError](err); !ok || e.ExitStatus() != 125 || said != "bothy: error: it fell\r\nbothy: hint: stand it up\r\n" {
		t.Errorf("%v, %q", err, said)
	}
}

// TestNotStarted checks that a person is told why the sandbox does not start, without control characters.
func TestNotStarted(t *testing.T) {
	c, _ := connected(t, nil)
	s, err := c.NewSession()
	must(t, err)
	var errs bytes.Buffer
	s.Stderr = &errs
	if err := s.Run("x"); err == nil || errs.String() != "bothy: error: it does not start\r\nbothy: hint: try again\r\n" {
		t.Errorf("%v, %q", err, &errs)
	}
	if _, err := c.Dial("tcp", "localhost:1"); err == nil || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("a forwarded connection: %v", err)
	}
}

// TestTerminal checks sizes, signals and input of a program on a terminal, also before it has started.
func TestTerminal(t *testing.T) {
	frames := make(chan wire.Frame, 16)
	c, in := connected(t, func(p *program) {
		for {
			f, err := p.conn.Receive()
			if err != nil {
				return
			}
			frames <- f
			if f.Kind == wire.Data {
				_ = p.conn.Send(f)
				p.ends(wire.Ended{})
				return
			}
		}
	})
	s, err := c.NewSession()
	must(t, err)
	must(t, s.RequestPty("xterm", 1<<20, 80, nil))
	must(t, s.Setenv("LANG", "C"))
	to, err := s.StdinPipe()
	must(t, err)
	from, err := s.StdoutPipe()
	must(t, err)
	must(t, s.Shell())
	must(t, s.WindowChange(10, 20))
	must(t, s.Signal(ssh.SIGINT))
	if f := <-frames; f.Kind != wire.Resize {
		t.Errorf("got %v", f)
	} else if w, err := f.Winsize(); err != nil || w.Rows != 10 || w.Cols != 20 {
		t.Errorf("resized to %+v, %v", w, err)
	}
	if f := <-frames; f.Kind != wire.Signal || f.Payload[0] != byte(unix.SIGINT) {
		t.Errorf("got %v", f)
	}
	_, err = to.Write([]byte("k"))
	must(t, err)
	text, err := io.ReadAll(from)
	if string(text) != "k" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	must(t, s.Wait())
	q := in.commands()[0].Command
	if !q.TTY || q.Size != (wire.Winsize{Rows: 65535, Cols: 80, Width: 640, Height: 65535}) || !slices.Equal(q.Env, []string{"TERM=xterm", "LANG=C"}) {
		t.Errorf("asked for %+v", q)
	}
}

// TestClientLeaves checks that a client that closes a session, or vanishes, closes the conversation with the
// keeper, which hangs up the program.
func TestClientLeaves(t *testing.T) {
	gone := make(chan bool, 2)
	c, _ := connected(t, func(p *program) {
		_, err := p.conn.Receive()
		gone <- err != nil
	})
	for _, leave := range []func(*ssh.Session) error{(*ssh.Session).Close, func(*ssh.Session) error { return c.Close() }} {
		s, err := c.NewSession()
		must(t, err)
		must(t, s.Start("x"))
		must(t, leave(s))
		keepertest.Within(t, "the program", func() {
			if !<-gone {
				t.Error("the program got a message")
			}
		})
	}
}

// TestAttackInputUnread checks that a program that does not read its terminal holds up neither the requests of
// its session nor its end, nor other sessions.
func TestAttackInputUnread(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	c, _ := connected(t, func(p *program) {
		if p.ask.Command.TTY {
			<-release
			return
		}
		echo(p)
	})
	for _, leave := range []func(*ssh.Session) error{(*ssh.Session).Close, func(*ssh.Session) error { return c.Close() }} {
		s, err := c.NewSession()
		must(t, err)
		must(t, s.RequestPty("xterm", 24, 80, nil))
		to, err := s.StdinPipe()
		must(t, err)
		must(t, s.Shell())
		written := make(chan error, 1)
		go func() { _, err := to.Write(make([]byte, 8<<20)); written <- err }() // more than all buffers hold
		keepertest.Within(t, "the requests", func() {
			for i := range 5000 { // more than a socket holds
				size := ssh.Marshal(struct{ Cols, Rows, Width, Height uint32 }{uint32(i), 1, 1, 1})
				if ok, err := s.SendRequest("window-change", true, size); !ok || err != nil {
					t.Errorf("size %d: %v, %v", i, ok, err)
				}
				if ok, err := s.SendRequest("signal", true, ssh.Marshal(struct{ Name string }{"INT"})); !ok || err != nil {
					t.Errorf("signal %d: %v, %v", i, ok, err)
				}
			}
		})
		keepertest.Within(t, "another session", func() {
			other, err := c.NewSession()
			must(t, err)
			if e, ok := errors.AsType[*ssh.ExitError](other.Run("x")); !ok || e.ExitStatus() != 3 {
				t.Error("it ended otherwise")
			}
		})
		must(t, leave(s))
		keepertest.Within(t, "the input", func() {
			if <-written == nil {
				t.Error("the program got it all")
			}
		})
	}
	keepertest.Within(t, "the server", func() { err := <-c.end; c.end <- err })
}

// TestQueue checks that only the last size and each signal once wait for a program.
func TestQueue(t *testing.T) {
	s := &session{wake: make(chan struct{}, 1)}
	for i := range 100 {
		s.queueFrame(wire.SignalFrame(0, 1+i%13))
		s.queueFrame(wire.ResizeFrame(0, wire.Winsize{Rows: uint16(i)}))
	}
	if len(s.pending) != 14 {
		t.Errorf("%d frames wait", len(s.pending))
	}
	if w, err := s.pending[1].Winsize(); err != nil || w.Rows != 99 {
		t.Errorf("the size is %+v, %v", w, err)
	}
}

// TestOutputUnread checks that a client can close the output of a program.
func TestOutputUnread(t *testing.T) {
	c, _ := connected(t, func(p *program) {
		for {
			if _, err := p.out.WriteString("y\n"); err != nil {
				break
			}
		}
		p.errs.Close()
		p.ends(wire.Ended{Signal: int(unix.SIGPIPE)})
	})
	s, err := c.NewSession()
	must(t, err)
	must(t, s.Start("yes"))
	_, err = s.SendRequest("eow@openssh.com", false, nil)
	must(t, err)
	keepertest.Within(t, "the session", func() {
		if e, ok := errors.AsType[*ssh.ExitError](s.Wait()); !ok || e.Signal() != "PIPE" {
			t.Error("it ended otherwise")
		}
	})
}

// TestOutputHeld checks that a session ends although a child of its program holds the output open, with all
// output that was written.
func TestOutputHeld(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	c, _ := connected(t, func(p *program) {
		_, _ = p.out.Write(make([]byte, 60000))
		p.ends(wire.Ended{})
		<-hold
	})
	s, err := c.NewSession()
	must(t, err)
	keepertest.Within(t, "the session", func() {
		if out, err := s.Output("x"); err != nil || len(out) != 60000 {
			t.Errorf("%d bytes, %v", len(out), err)
		}
	})
}

func TestUsers(t *testing.T) {
	for name, want := range map[string]string{usual: "", "me": "", root: root} {
		in := &inside{run: echo}
		c, err := dial(t, in, name)
		must(t, err)
		s, err := c.NewSession()
		must(t, err)
		_ = s.Run("x")
		if got := in.commands()[0].Command.User; got != want {
			t.Errorf("%s runs programs as %q", name, got)
		}
	}
	for _, name := range []string{"", "alice", "root ", "0", "me\x00"} {
		c, err := dial(t, &inside{}, name)
		if err == nil {
			t.Errorf("%q is let in", name)
		}
		if e := <-c.end; spec.ExitCode(e) != spec.ExitError || len(c.said()) != 1 || !strings.Contains(c.said()[0], "ssh root@box.bothy") {
			t.Errorf("%q: %v, %q", name, e, c.said())
		}
	}
}

// TestAttackVariables checks that only harmless variables of the client reach a program.
func TestAttackVariables(t *testing.T) {
	c, in := connected(t, echo)
	s, err := c.NewSession()
	must(t, err)
	for _, v := range [][2]string{{"LD_PRELOAD", "/x"}, {"PATH", "/x"}, {"BOTHY_PATH", "/x"}, {"LC_", "C"}, {"LC_a=b\nX", "C"}, {"LANG", "a\nb"}, {"LANG", strings.Repeat("x", 5000)}, {"", ""}, {"SSH_AUTH_SOCK", "/x"}} {
		if s.Setenv(v[0], v[1]) == nil {
			t.Errorf("%q passes", v[0])
		}
	}
	for range maxVariables {
		must(t, s.Setenv("LC_TIME", "C"))
	}
	if s.Setenv("LC_TIME", "C") == nil {
		t.Error("any number of variables passes")
	}
	_ = s.Run("x")
	if env := in.commands()[0].Command.Env; len(env) != maxVariables || slices.ContainsFunc(env, func(v string) bool { return v != "LC_TIME=C" }) {
		t.Errorf("the program has %d variables: %q", len(env), env)
	}
}

// TestAttackRequests checks that malformed and repeated requests fail, and harm nothing.
func TestAttackRequests(t *testing.T) {
	c, in := connected(t, echo)
	ch, requests, err := c.OpenChannel("session", nil)
	must(t, err)
	go ssh.DiscardRequests(requests)
	text := func(words ...string) (b []byte) {
		for _, w := range words {
			b = append(b, ssh.Marshal(struct{ W string }{w})...)
		}
		return b
	}
	for _, r := range []struct {
		kind    string
		payload []byte
	}{
		{"pty-req", nil},
		{"pty-req", []byte{0xff, 0xff, 0xff, 0xff}},
		{"pty-req", append(text("\x1b[31m"), make([]byte, 20)...)},
		{"pty-req", append(text(strings.Repeat("x", 100)), make([]byte, 20)...)},
		{"env", text("LANG")},
		{"window-change", make([]byte, 16)},
		{"signal", text("KILL")},
		{"exec", nil},
		{"exec", text("a\x00b")},
		{"exec", append(text("a"), 1)},
		{"shell", text("a")},
		{"subsystem", text("netconf")},
		{"auth-agent-req@openssh.com", nil},
		{"x11-req", nil},
		{"break", make([]byte, 4)},
		{strings.Repeat("k", 30000), bytes.Repeat([]byte{1}, 1000)},
	} {
		if ok, err := ch.SendRequest(r.kind, true, r.payload); ok || err != nil {
			t.Errorf("request %.20q of %d bytes: %v, %v", r.kind, len(r.payload), ok, err)
		}
	}
	if ok, err := ch.SendRequest("exec", true, text("a")); !ok || err != nil {
		t.Fatalf("a good request after them: %v, %v", ok, err)
	}
	if ok, err := ch.SendRequest("exec", true, text("b")); ok && err == nil {
		t.Error("a second program runs in the session")
	}
	_ = ch.Close()
	if n := len(in.commands()); n != 1 {
		t.Errorf("%d programs were started", n)
	}
	if said := c.said(); len(said) != 2 {
		t.Errorf("said %q", said)
	}
}

// TestAttackGlobalRequests checks that nothing listens for the client, and that the reason is given once.
func TestAttackGlobalRequests(t *testing.T) {
	c, _ := connected(t, echo)
	if ok, _, err := c.SendRequest("keepalive@openssh.com", true, nil); !ok || err != nil {
		t.Errorf("keepalive: %v, %v", ok, err)
	}
	for range 3 {
		for _, kind := range []string{"tcpip-forward", "streamlocal-forward@openssh.com", "cancel-tcpip-forward", "no-more-sessions@openssh.com", "nonsense"} {
			if ok, _, err := c.SendRequest(kind, true, bytes.Repeat([]byte{0xff}, 100)); ok || err != nil {
				t.Errorf("%s: %v, %v", kind, ok, err)
			}
		}
	}
	if said := c.said(); len(said) != 1 || !strings.Contains(said[0], "bothy ports box --allow-host-port PORT") {
		t.Errorf("said %q", said)
	}
}

// TestAttackChannels checks that channels are bounded, and that a place is free again after one closes.
func TestAttackChannels(t *testing.T) {
	c, _ := connected(t, echo)
	var open []ssh.Channel
	for range maxChannels {
		ch, requests, err := c.OpenChannel("session", nil)
		must(t, err)
		go ssh.DiscardRequests(requests)
		open = append(open, ch)
	}
	for _, kind := range []string{"session", "direct-tcpip"} {
		_, _, err := c.OpenChannel(kind, nil)
		if e, ok := errors.AsType[*ssh.OpenChannelError](err); !ok || e.Reason != ssh.ResourceShortage {
			t.Errorf("one more %s: %v", kind, err)
		}
	}
	must(t, open[0].Close())
	for end := time.Now().Add(keepertest.Patience); ; time.Sleep(time.Millisecond) {
		ch, requests, err := c.OpenChannel("session", nil)
		if err == nil {
			go ssh.DiscardRequests(requests)
			_ = ch.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	for _, kind := range []string{"direct-streamlocal@openssh.com", "x11", "auth-agent@openssh.com", "forwarded-tcpip"} {
		if _, _, err := c.OpenChannel(kind, nil); err == nil {
			t.Errorf("a channel of kind %s is opened", kind)
		}
	}
}

// target is the address of a forwarded connection.
type target struct {
	Host       string
	Port       uint32
	Origin     string
	OriginPort uint32
}

// TestForward checks that a program inside connects, with what the client named.
func TestForward(t *testing.T) {
	c, in := connected(t, func(p *program) {
		_, _ = p.out.WriteString(string(rune(guest.Dialed)) + "hello ")
		text, _ := io.ReadAll(p.in)
		_, _ = p.out.Write(text)
		p.out.Close()
		p.ends(wire.Ended{})
	})
	conn, err := c.Dial("tcp", "db.example.com:5432")
	must(t, err)
	_, err = conn.Write([]byte("there"))
	must(t, err)
	must(t, conn.(interface{ CloseWrite() error }).CloseWrite())
	text, err := io.ReadAll(conn)
	if string(text) != "hello there" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if args := in.commands()[0].Command.Args; !slices.Equal(args, []string{guest.Path, guest.DialName, "db.example.com", "5432"}) {
		t.Errorf("asked for %q", args)
	}
}

// TestAttackForward checks that an address that is none starts no program, and that a reason from inside is
// only text.
func TestAttackForward(t *testing.T) {
	c, in := connected(t, func(p *program) {
		_, _ = p.out.WriteString(string(rune(guest.NotDialed)) + "no\x1b[2J way\nsecond line " + strings.Repeat("x", 1<<16))
		p.ends(wire.Ended{Code: 1})
	})
	for _, to := range []target{{"", 1, "", 0}, {"h", 0, "", 0}, {"h", 65536, "", 0}, {"-h", 1, "", 0}, {"h h", 1, "", 0}, {"/run/x", 1, "", 0}, {"h\n", 1, "", 0}, {strings.Repeat("h", 300), 1, "", 0}} {
		if _, _, err := c.OpenChannel("direct-tcpip", ssh.Marshal(to)); err == nil {
			t.Errorf("%+v is connected", to)
		}
	}
	if _, _, err := c.OpenChannel("direct-tcpip", []byte{0xff, 0xff, 0xff, 0xff}); err == nil {
		t.Error("a malformed address is connected")
	}
	if n := len(in.commands()); n != 0 {
		t.Errorf("%d programs were started", n)
	}
	_, _, err := c.OpenChannel("direct-tcpip", ssh.Marshal(target{"h", 1, "", 0}))
	if e, ok := errors.AsType[*ssh.OpenChannelError](err); !ok || e.Message != "h:1: no way" {
		t.Errorf("%v", err)
	}
}

// TestNoClient checks that streams that carry no SSH end the server.
func TestNoClient(t *testing.T) {
	for _, text := range []string{"", "GET / HTTP/1.0\r\n\r\n", "SSH-2.0-x\r\n\xff\xff\xff\xff" + strings.Repeat("\xff", 100), strings.Repeat("x", 1<<20)} {
		key := testKey(t)
		keepertest.Within(t, "the server", func() {
			if Serve(t.Context(), stream{strings.NewReader(text)}, Options{Key: key, Inside: &inside{}}) == nil {
				t.Errorf("%.20q is a client", text)
			}
		})
	}
}

// deafStream is a stream whose Read ends only when the other end closes, as that of a file that blocks.
type deafStream struct{ from *os.File }

func (s deafStream) Read(p []byte) (int, error) { return s.from.Read(p) }
func (deafStream) Write(p []byte) (int, error)  { return len(p), nil }
func (s deafStream) Close() error               { return s.from.Close() }

// TestSilentPipe checks that the server ends with its context although Close does not wake a Read.
func TestSilentPipe(t *testing.T) {
	var fds [2]int
	must(t, unix.Pipe2(fds[:], unix.O_CLOEXEC)) // the files block, as those of standard input
	from, to := os.NewFile(uintptr(fds[0]), "from"), os.NewFile(uintptr(fds[1]), "to")
	defer to.Close()
	key := testKey(t)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	reads := make(chan struct{}, 1)
	s := deafStream{from}
	cancelled := make(chan error, 1)
	go func() { cancelled <- Serve(ctx, notifier{s, reads}, Options{Key: key, Inside: &inside{}}) }()
	keepertest.Within(t, "the first read", func() { <-reads })
	cancel(cause)
	keepertest.Within(t, "the server", func() {
		if err := <-cancelled; !errors.Is(err, cause) {
			t.Errorf("it ends with %v", err)
		}
	})
}

// notifier tells of the first Read.
type notifier struct {
	io.ReadWriteCloser
	reads chan struct{}
}

func (n notifier) Read(p []byte) (int, error) {
	select {
	case n.reads <- struct{}{}:
	default:
	}
	return n.ReadWriteCloser.Read(p)
}

// silent is a reader without an end.
type silent chan struct{}

func (s silent) Read([]byte) (int, error) { <-s; return 0, io.EOF }

// TestGreetingTime checks that a client that says nothing is not waited for longer than the bound.
func TestGreetingTime(t *testing.T) {
	key := testKey(t)
	synctest.Test(t, func(t *testing.T) {
		began, in := time.Now(), make(silent)
		err := Serve(t.Context(), stream{in}, Options{Key: key, Inside: &inside{}})
		if took := time.Since(began); !errors.Is(err, spec.ErrTimeout) || took != handshakeTime+leaveTime {
			t.Errorf("%v after %s", err, took)
		}
		close(in)
	})
}

func testKey(t *testing.T) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	must(t, err)
	key, err := ssh.NewSignerFromKey(private)
	must(t, err)
	return key
}

type stream struct{ io.Reader }

func (stream) Write(p []byte) (int, error) { return len(p), nil }
func (stream) Close() error                { return nil }
