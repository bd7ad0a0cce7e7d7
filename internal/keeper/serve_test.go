package keeper

import (
	"net"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/keeper/keepertest"
	"github.com/bothy-dev/bothy/internal/keeper/status"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// unlucky is a listener whose accept fails some times before it works.
type unlucky struct {
	caller
	fails []error
	asked int
}

func (u *unlucky) AcceptUnix() (*net.UnixConn, error) {
	u.asked++
	if len(u.fails) > 0 {
		err := u.fails[0]
		u.fails = u.fails[1:]
		return nil, &net.OpError{Op: "accept", Net: "unix", Err: err}
	}
	return u.caller.AcceptUnix()
}

// TestServeAgain checks that serve answers once accept works again, and ends with its listener.
func TestServeAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control.sock")
	l, err := unixconn.Listen(path)
	must(t, err)
	k := bare()
	k.log = quiet()
	k.wg.Go(func() {
		k.acceptCommands(t.Context(), &unlucky{caller: l, fails: []error{unix.EMFILE, unix.ECONNABORTED, unix.ENFILE, unix.ENOMEM}})
	})
	uc, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	must(t, uc.SetDeadline(time.Now().Add(keepertest.Patience)))
	c := unixconn.New(uc)
	must(t, c.Expect(wire.Hello, &wire.Greeting{}))
	must(t, c.SendJSON(wire.Request, wire.Ask{Op: wire.OpPing}))
	must(t, c.Expect(wire.Reply, &struct{}{}))
	c.Close()
	l.Close()
	keepertest.Within(t, "serve", k.wg.Wait)
}

// TestServePause checks that serve waits ever longer while accept fails, but never long: the end of the
// sandbox may wait for it.
func TestServePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &unlucky{caller: closed{}}
		for range 1000 {
			u.fails = append(u.fails, unix.EMFILE)
		}
		k := bare()
		k.log = quiet()
		began := time.Now()
		k.acceptCommands(t.Context(), u)
		if took := time.Since(began); u.asked != 1001 || took < 900*acceptPauseMost || took > 1000*acceptPauseMost {
			t.Errorf("it tried %d times in %s", u.asked, took)
		}
	})
}

// closed is a listener that was closed.
type closed struct{}

func (closed) AcceptUnix() (*net.UnixConn, error) {
	return nil, &net.OpError{Op: "accept", Net: "unix", Err: net.ErrClosed}
}

// crowded is a gateway with more connections than fit into a message.
type crowded struct{ Gateway }

func (crowded) Flows() []spec.Flow {
	return slices.Repeat([]spec.Flow{{Name: "a.host.of.somebody.example.com", Port: 443, Began: time.Unix(1, 0), Up: 1}}, 16384)
}

// TestStatusOfACrowd checks that the status is answered however many connections exist: the inside must
// not be able to keep the owner from it.
func TestStatusOfACrowd(t *testing.T) {
	k := bare()
	k.log, k.gateway, k.wall, k.recorded = quiet(), crowded{}, &wall{}, make(chan struct{})
	k.status = status.New(store.Sandbox{}, quiet(), spec.Status{})
	close(k.recorded)
	near, far := keepertest.Conns(t)
	k.wg.Go(func() {
		if err := k.answerStatus(t.Context(), near); err != nil {
			_ = near.SendError(err)
		}
	})
	var st wire.KeeperStatus
	must(t, far.Expect(wire.Reply, &st))
	if st.Open != 16384 || st.Carried != 16384 || len(st.Flows) == 0 {
		t.Errorf("of %d connections %d are listed, with %d bytes", st.Open, len(st.Flows), st.Carried)
	}
	k.wg.Wait()
}
