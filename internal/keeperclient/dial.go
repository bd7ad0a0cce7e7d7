package keeperclient

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Dial returns a conversation with the keeper of a running sandbox, by its ID. It does not start the sandbox,
// and does not wait.
func (k Keepers) Dial(id string) (*unixconn.Conn, error) { return dialControl(k.Store.Sandbox(id)) }

// dialControl reaches the control socket through the directory's file descriptor: a socket's path may have
// only 107 bytes.
func dialControl(d store.Sandbox) (*unixconn.Conn, error) { return dialAt(d, d.Control()) }

// dialAt is dialControl for one of the places of the control socket.
func dialAt(d store.Sandbox, socket string) (*unixconn.Conn, error) {
	dir, err := os.Open(d.Dir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	name := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(socket))
	uc, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, err
	}
	c := unixconn.New(uc)
	if err := awaitHello(uc, c); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// awaitHello waits for the keeper's hello: a keeper that is just ending accepts connections that it will
// never answer.
func awaitHello(uc *net.UnixConn, c *unixconn.Conn) error {
	_ = uc.SetReadDeadline(time.Now().Add(HelloTimeout))
	defer func() { _ = uc.SetReadDeadline(time.Time{}) }()
	var g wire.Greeting
	err := c.Expect(wire.Hello, &g)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errSilent
	}
	if err != nil {
		return err
	}
	if g.Protocol != wire.Protocol {
		return spec.Errorf(spec.ErrConflict, "the sandbox was started by another version of bothy (%s)", g.Version).
			WithHint("stop it with that version")
	}
	return nil
}
