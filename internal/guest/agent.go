package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
)

// listenQueue is how many connections may wait at a socket to be accepted.
const listenQueue = 16

// listen opens a socket for all users inside, and makes init carry its connections to the gateway. It
// replaces any file at the path.
func listen(q wire.Listen) error {
	dir := filepath.Dir(q.Path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(q.Path); err != nil {
		return err
	}
	fd, err := listenAt(q.Path, listenQueue, -1, -1, 0o666)
	if err != nil {
		return fmt.Errorf("listen at %s: %w", q.Path, err)
	}
	go accept(fd, q)
	return nil
}

// listenAt opens a socket at a free path. An owner of -1 is init itself.
func listenAt(path string, queue, uid, gid int, mode os.FileMode) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	if err == nil {
		err = os.Chown(path, uid, gid)
	}
	if err == nil {
		err = os.Chmod(path, mode)
	}
	if err == nil {
		err = unix.Listen(fd, queue)
	}
	if err != nil {
		_ = unix.Close(fd)
	}
	return fd, err
}

// acceptPause is how long a listener waits when accept fails temporarily.
const acceptPause = 100 * time.Millisecond

func accept(listener int, q wire.Listen) {
	for {
		fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		switch err {
		case nil:
			go func() { carryProgram(os.NewFile(uintptr(fd), q.Path), q) }()
		case unix.EINTR, unix.ECONNABORTED:
		default:
			time.Sleep(acceptPause)
		}
	}
}

func carryProgram(program *os.File, q wire.Listen) {
	gateway, err := connect(q.To)
	if err != nil {
		program.Close()
		return
	}
	relayBytes(program, gateway)
}
