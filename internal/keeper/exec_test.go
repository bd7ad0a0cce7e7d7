package keeper

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/keeper/keepertest"
	"github.com/bothy-dev/bothy/internal/keeper/session"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// TestPlainStream checks that only pipes are handed on.
func TestPlainStream(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	defer w.Close()
	for _, f := range []*os.File{r, w} {
		must(t, plainStream(f))
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	defer unix.Close(fds[1])
	others := []*os.File{os.NewFile(uintptr(fds[0]), "a socket")}
	for _, name := range []string{"/dev/null", "/dev/ptmx", ".", "exec_test.go"} {
		if f, err := os.Open(name); err == nil {
			others = append(others, f)
		}
	}
	for _, f := range others {
		if err := plainStream(f); !errors.Is(err, spec.ErrDenied) {
			t.Errorf("%s: %v", f.Name(), err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestAbandon checks that a vanished caller's program ends with all that it has started, and that a
// sandbox made for that caller ends too.
func TestAbandon(t *testing.T) {
	for _, made := range []bool{false, true} {
		k := bare()
		k.spec.Remove = made
		l, in := connectInit(t)
		k.useLink(l)
		in.Hello()
		p := keepertest.NewProgram()
		s := session.Direct(p, session.Ending{})
		session.NewTable().Add(s, session.KindExec, wire.Command{}, 9)
		ours, theirs := keepertest.Conns(t)
		done := make(chan struct{})
		go func() { defer close(done); k.serveProgram(ours, s, false) }()
		must(t, theirs.Send(wire.SignalFrame(0, 10)))
		must(t, theirs.Send(wire.Frame{Kind: wire.Data, Payload: []byte("ignored")}))
		must(t, theirs.Send(wire.Frame{Kind: wire.Signal, Payload: []byte{200}}))
		theirs.Close()
		ends(t, in, 9, 1)
		if k.life.how.discard {
			t.Error("it is destroyed while its program may still end")
		}
		p.End <- driver.Exit{Signal: 1}
		s.AwaitEnd()
		ends(t, in, 9, 9)
		keepertest.Within(t, "obey", func() { <-done })
		if got := fmt.Sprint(p.Signals()); got != "[10]" {
			t.Errorf("it got the signals %v", got)
		}
		if exit, err := s.Result(); exit.Signal != 1 || err != nil {
			t.Errorf("it ended with %v, %v", exit, err)
		}
		if k.life.stopping != made || k.life.how.discard != made {
			t.Errorf("made for it %t, it is destroyed %t", made, k.life.how.discard)
		}
	}
}

// TestSpare checks that a vanished caller's program is hung up alone, and that the sandbox stays, if the request
// says so.
func TestSpare(t *testing.T) {
	k, inside := bare(), &wall{}
	k.spec.Remove, k.wall = true, inside
	l, in := connectInit(t)
	k.useLink(l)
	in.Hello()
	p := keepertest.NewProgram()
	s := session.Direct(p, session.Ending{})
	session.NewTable().Add(s, session.KindExec, wire.Command{}, 9)
	ours, theirs := keepertest.Conns(t)
	done := make(chan struct{})
	go func() { defer close(done); k.serveProgram(ours, s, true) }()
	theirs.Close()
	keepertest.Within(t, "obey", func() { <-done })
	if got := fmt.Sprint(p.Signals(), inside.hung); got != "[] [9]" {
		t.Errorf("its group got signals, or it was not hung up: %v", got)
	}
	if k.life.stopping || k.life.how.discard {
		t.Error("the sandbox ends with it")
	}
	p.End <- driver.Exit{Signal: 1}
	s.AwaitEnd()
	k.abandon(s, true)
	if len(inside.hung) != 1 {
		t.Error("a program that has ended is hung up")
	}
}

// ends checks that the keeper asks for a signal to all that a program has started.
func ends(t *testing.T, in *keepertest.Inside, pid, sig int) {
	t.Helper()
	if q := in.Asked(wire.AskTree); q.Tree.PID != pid || q.Tree.Signal != sig {
		t.Errorf("it is asked for %+v, not to end %d by %d", q, pid, sig)
	}
}
