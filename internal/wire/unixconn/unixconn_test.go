package unixconn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// role is set when this binary runs again as the other end.
const role = "BOTHY_TEST_UNIXCONN_DIAL"

func TestMain(m *testing.M) {
	if path := os.Getenv(role); path != "" {
		c, err := net.Dial("unix", path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_, _ = io.Copy(io.Discard, c)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pair returns two connected Conns.
func pair(t testing.TB) (a, b *Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	var conns []*Conn
	for _, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(f)
		must(t, err)
		f.Close()
		conns = append(conns, New(c.(*net.UnixConn)))
	}
	t.Cleanup(func() { conns[0].Close(); conns[1].Close() })
	return conns[0], conns[1]
}

// openFiles counts the descriptors of this process.
func openFiles(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}

func TestFilesArrive(t *testing.T) {
	a, b := pair(t)
	var write []*os.File
	var read []*os.File
	for range 3 {
		r, w, err := os.Pipe()
		must(t, err)
		read, write = append(read, r), append(write, w)
	}
	must(t, a.SendJSON(wire.Request, wire.Ask{Op: wire.OpExec}, write...))
	for _, w := range write {
		w.Close()
	}
	var ask wire.Ask
	must(t, b.Expect(wire.Request, &ask))
	files := b.TakeFiles()
	if ask.Op != wire.OpExec || len(files) != 3 {
		t.Fatalf("got %q with %d files", ask.Op, len(files))
	}
	if again := b.TakeFiles(); len(again) != 0 {
		t.Errorf("they were given twice: %d", len(again))
	}
	for i, f := range files {
		flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0)
		must(t, err)
		if flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("file %d would be inherited", i)
		}
		_, err = fmt.Fprint(f, i)
		must(t, err)
		f.Close()
	}
	for i, r := range read { // in order, and without another holder
		b, err := io.ReadAll(r)
		must(t, err)
		r.Close()
		if string(b) != fmt.Sprint(i) {
			t.Errorf("file %d has %q", i, b)
		}
	}
}

// TestFilesAreNeverInherited checks that a program started while files arrive inherits none of them.
func TestFilesAreNeverInherited(t *testing.T) {
	a, b := pair(t)
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	defer w.Close()
	inherited := func() []string {
		out, err := exec.CommandContext(t.Context(), "ls", "/proc/self/fd").Output()
		if err != nil {
			t.Skipf("no ls: %v", err)
		}
		return strings.Fields(string(out))
	}
	before := inherited() // descriptors that our own parents left open do not matter
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				a.Close()
				return
			default:
				if a.Send(wire.Frame{Kind: wire.Request}, w, w, w) != nil {
					return
				}
			}
		}
	})
	wg.Go(func() {
		for {
			if _, err := b.Receive(); err != nil {
				return
			}
			for _, f := range b.TakeFiles() {
				f.Close()
			}
		}
	})
	for range 20 {
		if got := inherited(); len(got) > len(before) {
			t.Errorf("a child has %q, want %q", got, before)
			break
		}
	}
	close(done)
	wg.Wait()
}

// TestCloseDropsFiles checks that files that were not taken are closed with the connection.
func TestCloseDropsFiles(t *testing.T) {
	before := openFiles(t)
	a, b := pair(t)
	r, w, err := os.Pipe()
	must(t, err)
	for range 5 {
		must(t, a.Send(wire.Frame{Kind: wire.Request}, w, w, w))
		_, err := b.Receive()
		must(t, err)
	}
	a.Close()
	b.Close()
	w.Close()
	if _, err := r.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("somebody still holds the other end: %v", err)
	}
	r.Close()
	if after := openFiles(t); after != before {
		t.Errorf("%d descriptors were open, %d are", before, after)
	}
}

// TestTooManyFiles checks that more files than a message may carry are not received and do not stay open.
func TestTooManyFiles(t *testing.T) {
	a, b := pair(t)
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	many := make([]*os.File, 100)
	for i := range many {
		many[i] = w
	}
	before := openFiles(t)
	must(t, a.Send(wire.Frame{Kind: wire.Request, Payload: []byte("{}")}, many...))
	if err := b.Expect(wire.Request, &struct{}{}); err != nil {
		t.Errorf("the message itself: %v", err)
	}
	if n := openFiles(t) - before; n > maxFiles+1 {
		t.Errorf("%d files arrived", n)
	}
	for _, f := range b.TakeFiles() {
		f.Close()
	}
	w.Close()
	if _, err := r.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("one of them stayed: %v", err)
	}
}

// TestConcurrentSend checks that frames of concurrent senders arrive whole and in each sender's order,
// even if they exceed the socket's buffer.
func TestConcurrentSend(t *testing.T) {
	a, b := pair(t)
	const senders, each = 6, 60
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for n := range each {
				size := 1 + (s*7919+n*104729)%(3*wire.Chunk)
				if n%20 == 0 {
					size = wire.MaxPayload
				}
				f := wire.Frame{Kind: wire.Data, Stream: uint32(s<<16 | n), Payload: bytes.Repeat([]byte{byte(s*31 + n)}, size)}
				if err := a.Send(f); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	closed := make(chan struct{})
	go func() { defer close(closed); wg.Wait(); a.Close() }()
	defer func() { <-closed }()
	next := map[uint32]uint32{}
	for {
		f, err := b.Receive()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		s, n := f.Stream>>16, f.Stream&0xffff
		if n != next[s] {
			t.Fatalf("sender %d: frame %d came for %d", s, n, next[s])
		}
		next[s]++
		if c := byte(int(s)*31 + int(n)); bytes.Count(f.Payload, []byte{c}) != len(f.Payload) || len(f.Payload) == 0 {
			t.Fatalf("sender %d, frame %d is mixed up", s, n)
		}
	}
	for s := range uint32(senders) {
		if next[s] != each {
			t.Errorf("sender %d: %d frames of %d", s, next[s], each)
		}
	}
}

func TestExpect(t *testing.T) {
	a, b := pair(t)
	must(t, a.SendError(spec.Errorf(spec.ErrDenied, "no").WithHint("ask")))
	if err := b.Expect(wire.Reply, &struct{}{}); !errors.Is(err, spec.ErrDenied) || spec.Hint(err) != "ask" {
		t.Errorf("a failure came as %v", err)
	}
	must(t, a.Send(wire.Frame{Kind: wire.Data}))
	if err := b.Expect(wire.Reply, &struct{}{}); err == nil {
		t.Error("another kind is no error")
	}
	must(t, a.Send(wire.Frame{Kind: wire.Reply, Payload: []byte("?")}))
	if err := b.Expect(wire.Reply, &struct{}{}); err == nil {
		t.Error("no document is no error")
	}
	a.Close()
	if err := b.Expect(wire.Reply, &struct{}{}); !errors.Is(err, io.EOF) {
		t.Errorf("nobody there: %v", err)
	}
	if err := b.Send(wire.Frame{Kind: wire.Data}); err == nil {
		t.Error("sent to nobody")
	}
}

// TestCloseEndsReceive checks that closing the connection ends a waiting Receive.
func TestCloseEndsReceive(t *testing.T) {
	_, b := pair(t)
	got := make(chan error, 1)
	go func() {
		_, err := b.Receive()
		got <- err
	}()
	time.Sleep(10 * time.Millisecond)
	b.uc.Close()
	select {
	case err := <-got:
		if err == nil {
			t.Error("a frame came from nowhere")
		}
	case <-time.After(time.Minute):
		t.Fatal("it still waits")
	}
}

func TestPeerUID(t *testing.T) {
	a, _ := pair(t)
	if uid, err := a.PeerUID(); err != nil || uid != os.Geteuid() {
		t.Errorf("the other end is uid %d, %v", uid, err)
	}
	a.Close()
	if uid, err := a.PeerUID(); err == nil {
		t.Errorf("a closed conversation is with uid %d", uid)
	}
}

// TestPeerUIDOfAnotherUser checks F3: another user is recognised, whatever the socket's mode.
func TestPeerUIDOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be two users")
	}
	const other = 54321
	dir, err := os.MkdirTemp("", "uc")
	must(t, err)
	defer os.RemoveAll(dir)
	must(t, os.Chmod(dir, 0o755))
	path := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	defer l.Close()
	must(t, os.Chmod(path, 0o777))
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = []string{role + "=" + path}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: other, Gid: other}}
	must(t, cmd.Start())
	must(t, l.SetDeadline(time.Now().Add(time.Minute)))
	uc, err := l.AcceptUnix()
	must(t, err)
	c := New(uc)
	if uid, err := c.PeerUID(); err != nil || uid != other {
		t.Errorf("the other end is uid %d, %v", uid, err)
	}
	c.Close()
	must(t, cmd.Wait())
}
