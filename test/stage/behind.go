package stage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
)

// side tells on which of two stages a test is: near is a host without a way out, far is the internet,
// with a proxy in it.
const (
	side    = "BOTHY_TEST_STAGE_SIDE"
	near    = "near"
	far     = "far"
	meeting = "BOTHY_TEST_STAGE_MEETING" // the directory that both share
)

// ready is the file that the far side makes when it can be used.
const ready = "ready"

// Behind runs a test on a stage without a way out, for every caller, one after the other. The other
// function sets up the outside, on a stage of its own. Both share one directory, and Bridge and
// Join connect them by sockets there.
func Behind(t *testing.T, beyond func(t *testing.T, s *Stage, dir string), f func(t *testing.T, c *harness.Caller, s *Stage, dir string)) {
	t.Helper()
	if os.Getenv(playing) != t.Name() {
		t.Parallel()
		dir, err := os.MkdirTemp("", "bothy-far-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		restart(t, side+"="+near, meeting+"="+dir)
		return
	}
	dir := os.Getenv(meeting)
	if os.Getenv(side) == far {
		beyond(t, newStage(t), dir)
		if err := os.WriteFile(filepath.Join(dir, ready), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, os.Stdin) // until the near side ends
		return
	}
	s := newStage(t)
	startFar(t, dir)
	harness.EachAlone(t, func(t *testing.T, c *harness.Caller) {
		s.Forget(t)
		f(t, c, s, dir)
	})
}

// startFar makes the other stage, which exists until the test ends.
func startFar(t *testing.T, dir string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := again(context.Background(), t, self, side+"="+far)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // its death sends the signal
		err := cmd.Start()
		if err == nil {
			err = cmd.Wait()
		}
		ended <- err
	}()
	t.Cleanup(func() {
		in.Close()
		if err := <-ended; err != nil || t.Failed() {
			t.Errorf("the far side: %v\n%s", err, said.String())
		}
	})
	harness.WaitFor(t, harness.Timeout, "the far side", func() bool {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the far side has ended: %v", err)
		default:
		}
		_, err := os.Lstat(filepath.Join(dir, ready))
		return err == nil
	})
}

// Bridge connects clients of a name on the other stage to an address of this one.
func Bridge(t *testing.T, dir, name, to string) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go pass(l, "tcp", to)
}

// Join connects clients of a listener to a name of the other stage.
func Join(t *testing.T, l net.Listener, dir, name string) {
	t.Helper()
	go pass(l, "unix", filepath.Join(dir, name))
}

// pass forwards the connections of a listener to an address.
func pass(l net.Listener, network, to string) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		go func() {
			defer c.Close()
			out, err := net.Dial(network, to)
			if err != nil {
				return
			}
			defer out.Close()
			done := make(chan struct{})
			go func() { defer close(done); carry(out, c) }()
			carry(c, out)
			<-done
		}()
	}
}

// carry copies one direction to its end.
func carry(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		to.Close()
		from.Close()
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
