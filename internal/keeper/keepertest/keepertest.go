// Package keepertest plays the inside of a sandbox, and its callers, for tests of the keeper's
// packages.
package keepertest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
)

// Patience is how long an operation in these tests may take before it counts as hung.
const Patience = 10 * time.Second

// Within fails the test when do does not end.
func Within(t testing.TB, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(Patience):
		t.Fatalf("%s does not end", what)
	}
}

// Conns returns both ends of a command's connection.
func Conns(t testing.TB) (keeper, command *unixconn.Conn) {
	t.Helper()
	var list [2]*unixconn.Conn
	for i, f := range pair(t, 0) {
		c, err := net.FileConn(f)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		list[i] = unixconn.New(c.(*net.UnixConn))
	}
	t.Cleanup(func() { list[0].Close(); list[1].Close() })
	return list[0], list[1]
}

func pair(t testing.TB, flags int) (files [2]*os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|flags, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, fd := range fds {
		files[i] = os.NewFile(uintptr(fd), "pair")
	}
	return files
}

// Inside plays init, hostile or not, over a real socket.
type Inside struct {
	Sock *os.File
	t    testing.TB
}

// Connect makes the keeper's link to init, and init's end of it.
func Connect[Link interface{ Down() <-chan struct{} }](t testing.TB, link func(*os.File) Link) (Link, *Inside) {
	t.Helper()
	files := pair(t, unix.SOCK_NONBLOCK)
	l := link(files[0])
	t.Cleanup(func() {
		files[1].Close()
		<-l.Down()
		files[0].Close()
	})
	return l, &Inside{files[1], t}
}

// Say sends frames.
func (in *Inside) Say(frames ...wire.Frame) {
	var b []byte
	for _, f := range frames {
		b = f.Append(b)
	}
	in.Raw(b)
}

// Raw sends bytes.
func (in *Inside) Raw(b []byte) {
	_ = in.Sock.SetWriteDeadline(time.Now().Add(Patience))
	_, _ = in.Sock.Write(b) // the keeper may have hung up, which is its right
}

// JSON sends a frame with a document.
func (in *Inside) JSON(k wire.Kind, stream uint32, v any) {
	f, err := wire.JSON(k, stream, v)
	if err != nil {
		in.t.Fatal(err)
	}
	in.Say(f)
}

// Hello sends init's first frame.
func (in *Inside) Hello() { in.JSON(wire.Hello, 0, wire.Greeting{Protocol: wire.Protocol}) }

// Hear receives one frame of the keeper.
func (in *Inside) Hear() wire.Frame {
	_ = in.Sock.SetReadDeadline(time.Now().Add(Patience))
	f, err := wire.Read(in.Sock)
	if err != nil {
		in.t.Errorf("the keeper says nothing: %v", err)
	}
	return f
}

// Asked receives a question of the keeper and answers it.
func (in *Inside) Asked(what string) wire.InitAsk {
	in.t.Helper()
	q := in.Question(what)
	in.JSON(wire.Reply, 0, wire.InitReply{ID: q.ID})
	return q
}

// Question receives a question of the keeper.
func (in *Inside) Question(what string) wire.InitAsk {
	in.t.Helper()
	var q wire.InitAsk
	if err := in.Hear().Decode(&q); err != nil || q.Ask != what {
		in.t.Errorf("asked for %q, %v; want %q", q.Ask, err, what)
	}
	return q
}

// Answers gives one reply to every question, until the link ends.
func (in *Inside) Answers(r wire.InitReply) {
	for {
		f, err := wire.Read(in.Sock)
		var q wire.InitAsk
		if err != nil || f.Decode(&q) != nil {
			return
		}
		r.ID = q.ID
		in.JSON(wire.Reply, 0, r)
	}
}

// Starts answers the keeper's request to start a program.
func (in *Inside) Starts(pid int) {
	f := in.Hear()
	in.JSON(wire.Reply, f.Stream, wire.Spawned{PID: pid})
}

// Worker is a process that works on request.
func Worker(t *testing.T) (pid int, work func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `while read x; do i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; echo; done`)
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	return cmd.Process.Pid, func() {
		_, err := fmt.Fprintln(in)
		check(t, err)
		_, err = out.Read(make([]byte, 1))
		check(t, err)
	}
}

// Program is a program of the wall: Wait blocks until the test ends it.
type Program struct {
	End  chan driver.Exit
	mu   sync.Mutex
	sigs []int
}

// NewProgram returns a program that runs.
func NewProgram() *Program { return &Program{End: make(chan driver.Exit, 1)} }

// PID returns the program's number inside.
func (p *Program) PID() int { return 9 }

// Wait returns how the program ended.
func (p *Program) Wait() (driver.Exit, error) { return <-p.End, nil }

// Signal notes a signal.
func (p *Program) Signal(sig int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sigs = append(p.sigs, sig)
	return nil
}

// Signals returns the signals that the program got.
func (p *Program) Signals() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sigs)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
