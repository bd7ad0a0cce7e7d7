package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The far end: a public address, so that no rule for special addresses applies, in a namespace without a
// way out.
const (
	originName = "origin.example.net"
	originAddr = "11.0.0.1"
)

// arena is a network of its own with a server in it. Processes started from the thread that made it
// belong to it.
type arena struct {
	dir     string // certificates, and the programs of the bench
	netload string
	stops   []func() error
}

// isolated runs f on a thread of its own, which never runs anything else.
func isolated(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- f()
	}()
	return <-done
}

// inNamespace runs f in a network namespace.
func inNamespace(path string, f func() error) error {
	return isolated(func() error {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", path, err)
		}
		defer func() { _ = unix.Close(fd) }()
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter %s: %w", path, err)
		}
		return f()
	})
}

// newArena moves the calling thread into namespaces of its own and starts the
// server there.
func newArena(ctx context.Context, b *bench) (*arena, error) {
	a := &arena{dir: filepath.Join(b.work, "network"), netload: filepath.Join(b.work, "bin", "netload")}
	if err := os.Mkdir(a.dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.Chmod(b.work, 0o711); err != nil { // squid has a user of its own
		return nil, err
	}
	if err := buildGo(ctx, b.root, "", a.netload, "./bench/netload"); err != nil {
		return nil, err
	}
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		return nil, fmt.Errorf("make namespaces: %w", err)
	}
	if err := a.settle(ctx); err != nil {
		return nil, err
	}
	if _, err := a.start(exec.CommandContext(ctx, a.netload, "origin", "-addr", originAddr, "-name", originName, "-dir", a.dir)); err != nil {
		return nil, err
	}
	return a, a.vouch()
}

// bundle is the path where programs look for the authorities that they trust, on the host and in a
// sandbox.
const bundle = "/etc/ssl/certs/ca-certificates.crt"

// vouch adds the server's authority to the bundle that the arena's programs trust: keepers have no
// flag for it.
func (a *arena) vouch() error {
	host, err := os.ReadFile(bundle)
	if err != nil {
		return err
	}
	file := filepath.Join(a.dir, "bundle.pem")
	if err := a.trust(file, string(host)); err != nil {
		return err
	}
	return unix.Mount(file, bundle, "", unix.MS_BIND, "")
}

// settle gives the arena its address, and adds its name to the host's hosts file.
func (a *arena) settle(ctx context.Context) error {
	for _, line := range []string{"link set lo up", "addr add " + originAddr + "/32 dev lo"} {
		if err := ip(ctx, line); err != nil {
			return err
		}
	}
	hosts := filepath.Join(a.dir, "hosts")
	if err := os.WriteFile(hosts, []byte("127.0.0.1 localhost\n"+originAddr+" "+originName+"\n"), 0o644); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	return unix.Mount(hosts, "/etc/hosts", "", unix.MS_BIND, "")
}

func ip(ctx context.Context, line string) error {
	_, err := output(exec.CommandContext(ctx, "ip", strings.Fields(line)...))
	return err
}

// start starts a part of netload that runs until its standard input ends, and returns its first line.
func (a *arena) start(cmd *exec.Cmd) (json.RawMessage, error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var first json.RawMessage
	if err := json.NewDecoder(stdout).Decode(&first); err != nil {
		_ = stdin.Close()
		return nil, errors.Join(fmt.Errorf("%s did not come up", brief(cmd.Args)), cmd.Wait())
	}
	a.stops = append(a.stops, func() error { return errors.Join(stdin.Close(), cmd.Wait()) })
	return first, nil
}

// close ends the started processes, the last one first.
func (a *arena) close() error {
	var errs []error
	for _, stop := range slices.Backward(a.stops) {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

// listening waits until a server accepts connections at an address.
func listening(ctx context.Context, addr string) error {
	for range 200 {
		// It must be dialled from this thread: the arena's loopback is not the host's.
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		to, err := net.ResolveTCPAddr("tcp4", addr)
		if err != nil {
			return err
		}
		err = unix.Connect(fd, &unix.SockaddrInet4{Port: to.Port, Addr: [4]byte(to.IP.To4())})
		_ = unix.Close(fd)
		if err == nil {
			return nil
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("nobody listens at %s", addr)
}
