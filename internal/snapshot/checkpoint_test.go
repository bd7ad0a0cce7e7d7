package snapshot

import (
	"errors"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// conns returns both ends of a connection.
func conns(t *testing.T) (keeper, command *unixconn.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	var ends []*unixconn.Conn
	for _, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(f)
		must(t, err)
		must(t, f.Close())
		ends = append(ends, unixconn.New(c.(*net.UnixConn)))
	}
	t.Cleanup(func() { ends[0].Close(); ends[1].Close() })
	return ends[0], ends[1]
}

// TestBrokenOff checks the error if a keeper breaks off: it said why, it ends, or it waited too
// long.
func TestBrokenOff(t *testing.T) {
	s, _, sb := newMovable(t)
	d := s.directory(sb)
	for name, c := range map[string]struct {
		says  error
		state spec.State
		want  error
	}{
		"it said that it stops": {spec.Errorf(spec.ErrStopping, "sandbox box is stopping"), spec.Running, spec.ErrStopping},
		"it said another thing": {spec.Errorf(spec.ErrDenied, "no"), spec.Running, spec.ErrDenied},
		"it stops":              {nil, spec.Stopping, spec.ErrStopping},
		"it stopped":            {nil, spec.Stopped, spec.ErrStopping},
		"it waited long enough": {nil, spec.Running, spec.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			must(t, store.WriteJSON(d.Status(), spec.Status{Version: spec.Version, State: c.state}))
			shelf, lock, err := s.openCheckpoints(sb)
			must(t, err)
			defer lock.Unlock()
			m, err := shelf.Begin("", "test")
			must(t, err)
			keeper, command := conns(t)
			must(t, keeper.SendJSON(wire.Reply, struct{}{})) // it stands still
			if c.says != nil {
				must(t, keeper.SendError(c.says))
			}
			sources := []checkpoint.Source{{Name: "home", Dir: d.Home(), Gone: func() ([]string, error) {
				err := keeper.Expect(wire.Request, &wire.Ask{})
				keeper.Close() // it hears no more
				return nil, err
			}}}
			_, err = keepStill(d, sources, m, command, "")
			if _, err := m.End(err); !errors.Is(err, c.want) {
				t.Errorf("it says %v", err)
			}
		})
	}
}
