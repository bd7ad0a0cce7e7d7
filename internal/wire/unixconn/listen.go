package unixconn

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// Listen makes a socket appear under its final name, ready for connections and closed to other users. It replaces
// the socket of a process that is dead. It uses the directory's descriptor, because the path of a socket has at
// most 107 bytes. Closing the listener leaves the name.
func Listen(path string) (*net.UnixListener, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	tmp := fmt.Sprintf("/proc/self/fd/%d/.%s", dir.Fd(), filepath.Base(path))
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: tmp, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(tmp, 0o600); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}
