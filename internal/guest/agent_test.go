package guest

import (
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/internal/wire"
)

// TestListen checks that connections to the socket reach the gateway, whatever the path held before.
func TestListen(t *testing.T) {
	gateway, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer gateway.Close()
	go func() {
		for {
			c, err := gateway.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
	q := wire.Listen{Path: filepath.Join(t.TempDir(), "new", "socket"), To: netip.MustParseAddrPort(gateway.Addr().String())}
	if err := os.MkdirAll(filepath.Join(q.Path, "in", "the", "way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := listen(q); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(q.Path); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("%v, %v", info, err)
	}
	for range 3 {
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: q.Path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("hello")); err != nil {
			t.Error(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Error(err)
		}
		if b, err := io.ReadAll(c); err != nil || string(b) != "hello" {
			t.Errorf("%q, %v", b, err)
		}
		c.Close()
	}
}

// TestListenNowhere checks that a path that cannot hold a socket is an error.
func TestListenNowhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := listen(wire.Listen{Path: filepath.Join(file, "socket")}); err == nil {
		t.Error("it listens")
	}
}
