package guest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Names under which the sandbox's Docker finds the programs for packet tables.
const (
	IptablesName  = "iptables"
	IP6tablesName = "ip6tables"
)

// DockerNamesName is the role that carries DNS queries to Docker.
const DockerNamesName = "bothy-docker-names"

// dockerNames is the DNS server of containers that have a network of their own, by Docker's rules.
const dockerNames = "127.0.0.11"

// Iptables replaces iptables for the sandbox's Docker on a kernel without packet tables. It supports one
// use: containers send DNS queries to port 53, and the daemon answers at another port. It refuses
// everything else.
func Iptables(args []string) int {
	switch {
	case slices.Contains(args, "--version"):
		fmt.Println("iptables v1.8.0 (bothy)")
		return 0
	case !aboutNames(args):
		fmt.Fprintf(os.Stderr, "iptables: this kernel has no tables of packets; Bothy's gateway judges what leaves (docs/guide/docker.md): %s\n", strings.Join(args, " "))
		return 1
	case slices.Contains(args, "-C"): // no such rule ever exists
		return 1
	case option(args, "-j") != "DNAT":
		return 0 // chains, and rules that redirect answers: the answers come from port 53
	}
	if err := carryNames(option(args, "-p"), option(args, "--to-destination")); err != nil {
		fmt.Fprintf(os.Stderr, "iptables: carry questions for names to Docker: %v\n", err)
		return 1
	}
	return 0
}

// aboutNames reports whether arguments are one of the rules by which Docker redirects DNS queries to
// itself.
func aboutNames(args []string) bool {
	if option(args, "-t") != "nat" {
		return false
	}
	return slices.ContainsFunc(args, func(a string) bool {
		return a == dockerNames || a == "DOCKER_OUTPUT" || a == "DOCKER_POSTROUTING"
	})
}

// carryNames listens where containers send queries, and leaves the rest to a process that ends with the
// container. Once it returns, no query is lost.
func carryNames(protocol, to string) error {
	server, err := namesAt(to)
	if err != nil {
		return err
	}
	kind := unix.SOCK_DGRAM
	if protocol == "tcp" {
		kind = unix.SOCK_STREAM
	}
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: server.Addr, Port: 53}); err != nil {
		return err
	}
	if protocol == "tcp" {
		if err := unix.Listen(fd, 64); err != nil {
			return err
		}
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	_, err = syscall.ForkExec(Path, []string{Path, DockerNamesName, protocol, to}, &syscall.ProcAttr{
		Dir: "/", Env: []string{"GOMAXPROCS=2"}, Files: []uintptr{null.Fd(), null.Fd(), null.Fd(), uintptr(fd)},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	return err
}

func namesAt(to string) (*unix.SockaddrInet4, error) {
	host, port, ok := strings.Cut(to, ":")
	n := number(port)
	if !ok || host != dockerNames || n <= 0 || n > 65535 {
		return nil, fmt.Errorf("%q is none of Docker's own addresses", to)
	}
	return &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 11}, Port: n}, nil
}

const (
	namesWait    = 10 * time.Second // for an answer
	namesAtATime = 64               // questions
	namesLook    = 3 * time.Second  // how often to check that the container exists
	namesFirst   = 30 * time.Second // until the container is connected
	maxQuestion  = 64 << 10
)

// DockerNames carries DNS queries from its descriptor to the daemon.
func DockerNames(args []string) int {
	if len(args) != 2 {
		return 2
	}
	server, err := namesAt(args[1])
	if err != nil {
		return 2
	}
	if args[0] == "tcp" {
		go carryStreams(server)
	} else {
		go carryDatagrams(server)
	}
	for connected, began := false, time.Now(); ; time.Sleep(namesLook) {
		switch now := hasCard(); {
		case now:
			connected = true
		case connected || time.Since(began) > namesFirst:
			return 0
		}
	}
}

// hasCard reports whether the container has a network besides its loopback. Docker removes that network
// when the container ends.
func hasCard() bool {
	text, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if name, _, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) != "lo" {
			return true
		}
	}
	return false
}

func dialNames(kind int, server *unix.SockaddrInet4) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	_ = limitWaits(fd, namesWait)
	if err := unix.Connect(fd, server); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func carryDatagrams(server *unix.SockaddrInet4) {
	carryAll(func() (func(), error) {
		question := make([]byte, maxQuestion)
		n, from, err := unix.Recvfrom(3, question, 0)
		return func() {
			fd, err := dialNames(unix.SOCK_DGRAM, server)
			if err != nil {
				return
			}
			defer unix.Close(fd)
			if _, err := unix.Write(fd, question[:n]); err != nil {
				return
			}
			if n, err := unix.Read(fd, question); err == nil {
				_ = unix.Sendto(3, question[:n], 0, from)
			}
		}, err
	})
}

// carryAll carries the questions that next receives, some at a time, until the descriptor fails.
func carryAll(next func() (carry func(), err error)) {
	free := make(chan struct{}, namesAtATime)
	for {
		carry, err := next()
		if err == unix.EINTR || err == unix.ECONNABORTED {
			continue
		}
		if err != nil {
			return
		}
		free <- struct{}{}
		go func() {
			defer func() { <-free }()
			carry()
		}()
	}
}

func carryStreams(server *unix.SockaddrInet4) {
	carryAll(func() (func(), error) {
		conn, _, err := unix.Accept4(3, unix.SOCK_CLOEXEC)
		return func() {
			defer unix.Close(conn)
			_ = limitWaits(conn, namesWait)
			fd, err := dialNames(unix.SOCK_STREAM, server)
			if err != nil {
				return
			}
			defer unix.Close(fd)
			done := make(chan struct{})
			go func() { defer close(done); passBytes(conn, fd) }()
			passBytes(fd, conn)
			<-done
		}, err
	})
}

// passBytes carries bytes one way until their end.
func passBytes(from, to int) {
	buf := make([]byte, 4<<10)
	for {
		n, err := unix.Read(from, buf)
		if err == unix.EINTR {
			continue
		}
		for done := 0; err == nil && done < n; {
			var m int
			m, err = unix.Write(to, buf[done:n])
			done += max(m, 0)
		}
		if err != nil || n == 0 {
			_ = unix.Shutdown(to, unix.SHUT_WR)
			return
		}
	}
}
