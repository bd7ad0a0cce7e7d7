package attacks

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/harness"
)

// spellings are names for "the host" that some program or some resolver understands.
var spellings = []string{
	"127.0.0.1", "localhost", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::", "127.1.2.3", "0", "127.1", "2130706433", "0x7f000001",
	"host.bothy", "host.bothy.", "HOST.BOTHY", "x.host.bothy", "bothy", "host.docker.internal", "gateway.docker.internal", "host.containers.internal",
	"localhost.localdomain", "ip6-localhost", "localtest.me", "127.0.0.1.nip.io",
	"198.18.0.0", "198.18.0.1", "198.18.0.2", "198.18.0.3", "198.18.0.4", "198.19.255.255",
	"fd62:6f74:6879::1", "fd62:6f74:6879::2", "fd62:6f74:6879::3", "fd62:6f74:6879::4",
	"10.0.2.2", "10.0.2.3", "172.17.0.1", "192.168.65.2", "192.168.127.1", "169.254.1.1", "169.254.169.254", "64:ff9b::7f00:1", "fe80::1",
}

// reach tries to receive something from a port of every host, "PORT HOST...", over TCP and UDP. After
// "tampered" each attempt has the shorter time, offline.
func reach(args []string) {
	longest := patience
	var wg sync.WaitGroup
	for _, host := range args[1:] {
		if host == "tampered" {
			longest = offline
			continue
		}
		for _, network := range []string{"tcp", "udp"} {
			wg.Go(func() { fmt.Println(hear(network, host, args[0], longest)) })
		}
	}
	wg.Wait()
}

func hear(network, host, port string, longest time.Duration) string {
	at := net.JoinHostPort(host, port)
	limit := min(longest, within(at))
	// One address after the other: a name with two addresses gets only one connection at a time.
	c, err := (&net.Dialer{Timeout: limit, FallbackDelay: -1}).Dial(network, at)
	if err != nil {
		return fmt.Sprintf("no %s %s: %v", network, host, err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(limit))
	_, _ = c.Write([]byte("HELLO\n"))
	b := make([]byte, 64)
	n, err := c.Read(b)
	if n > 0 {
		return fmt.Sprintf("REACHED %s %s: %q", network, host, b[:n])
	}
	return fmt.Sprintf("silent %s %s: %v", network, host, err)
}

// misbehave is a server inside that misbehaves: deaf never reads, chatty never stops writing, silent
// never answers, rude resets.
func misbehave(manner, at string) {
	l, err := net.Listen("tcp", at)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = os.WriteFile("serving-"+manner, nil, 0o600)
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		switch manner {
		case "chatty":
			go func() {
				b := make([]byte, 1<<20)
				for {
					if _, err := c.Write(b); err != nil {
						return
					}
				}
			}()
		case "rude":
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		case "polite":
			_, _ = io.WriteString(c, "welcome\n")
			_ = c.Close()
		}
	}
}

// secret listens on the loopback of the host, on both families and over TCP and UDP, at one port. It
// counts its callers.
func secret(t *testing.T) (port string, callers *atomic.Int64) {
	t.Helper()
	callers = &atomic.Int64{}
	answer := func(l net.Listener) {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			callers.Add(1)
			_, _ = io.WriteString(c, "secret\n")
			_ = c.Close()
		}
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go answer(l)
	_, port, _ = net.SplitHostPort(l.Addr().String())
	if six, err := net.Listen("tcp6", "[::1]:"+port); err == nil {
		t.Cleanup(func() { six.Close() })
		go answer(six)
	}
	for _, at := range []string{"127.0.0.1:", "[::1]:"} {
		u, err := net.ListenPacket("udp", at+port)
		if err != nil {
			t.Log("not tried:", err)
			continue
		}
		t.Cleanup(func() { u.Close() })
		go func() {
			b := make([]byte, 64)
			for {
				_, from, err := u.ReadFrom(b)
				if err != nil {
					return
				}
				callers.Add(1)
				_, _ = u.WriteTo([]byte("secret\n"), from)
			}
		}()
	}
	return port, callers
}

// TestHostLoopbackIsClosed checks that the inside cannot reach a service on the host's loopback: by no
// name or address, as no user, with the widest policy, and even when root inside changes its own
// network. A20, B9.
func TestHostLoopbackIsClosed(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		port, callers := secret(t)
		other, _ := secret(t)
		me := c.Plant(t, c.Work)
		c.Must(t, "policy", "allow", "**", "*.host.bothy.example", "0.0.0.0/0", "[::/0]")
		c.Must(t, "create", "--name", "closed", "shell", c.Work)
		c.Must(t, "create", "--name", "other", "--allow-host-port", other, "shell", c.Work)
		for _, box := range []string{"closed", "other"} {
			for _, trick := range []string{
				"",
				"ip addr del 127.0.0.1/8 dev lo; ip route add 127.0.0.0/8 dev eth0; ip route add 127.0.0.0/8 via 198.18.0.1",
				"ip addr flush dev lo; ip route add local 0.0.0.0/0 dev lo; ip -6 route add ::1 dev eth0",
				"printf '127.0.0.1 host.bothy\\n198.18.0.1 localtest.me\\n' >> /etc/hosts",
			} {
				args := append([]string{"exec", "-u", "root", box, "sh", "-c", "{ " + trick + "\n} 2>/dev/null; exec \"$@\"", "sh", me, "intruder", "reach", port, "tampered"}, spellings...)
				if trick == "" {
					args = append([]string{"exec", box, me, "intruder", "reach", port}, spellings...)
				}
				r := c.Run(args...)
				if strings.Contains(r.Stdout, "REACHED") {
					t.Errorf("%s, after %q: %s", box, trick, grep(r.Stdout, "REACHED"))
				}
				if !strings.Contains(r.Stdout, "no tcp host.bothy") {
					t.Errorf("%s, after %q it did not try: %v", box, trick, r)
				}
			}
		}
		if n := callers.Load(); n != 0 {
			t.Errorf("the host's server saw %d callers", n)
		}
		log := c.Must(t, "logs", "--source", "network", "other")
		if want := "suggest=bothy ports other --allow-host-port " + port; !strings.Contains(log, want) {
			t.Errorf("the log does not tell %q", want)
		}
		c.Must(t, "rm", "-f", "closed", "other")
	})
}

func grep(text, word string) string {
	var found []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}

// TestOneHostPort checks that only the named port is reached, and only by the host's name.
func TestOneHostPort(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		port, callers := secret(t)
		me := c.Plant(t, c.Work)
		c.Must(t, "policy", "allow", "**")
		c.Must(t, "create", "--name", "box", "--allow-host-port", port, "shell", c.Work)
		r := c.Run(append([]string{"exec", "box", me, "intruder", "reach", port}, spellings...)...)
		for line := range strings.Lines(grep(r.Stdout, "REACHED")) {
			host := strings.ToLower(strings.TrimSuffix(strings.Fields(line)[2], ":"))
			switch strings.TrimSuffix(host, ".") {
			case "host.bothy", "host.docker.internal", "198.18.0.3", "fd62:6f74:6879::3":
			default:
				t.Errorf("by another name: %s", line)
			}
			if !strings.HasPrefix(line, "REACHED tcp ") {
				t.Errorf("by another protocol: %s", line)
			}
		}
		if n := strings.Count(r.Stdout, "REACHED"); n != 6 || callers.Load() != 6 {
			t.Errorf("reached %d times, the server saw %d: %s", n, callers.Load(), grep(r.Stdout, "REACHED"))
		}
		// Another sandbox cannot reach it.
		c.Must(t, "create", "--name", "two", "shell", c.Work)
		if r := c.Run(append([]string{"exec", "two", me, "intruder", "reach", port}, spellings...)...); strings.Contains(r.Stdout, "REACHED") {
			t.Errorf("another sandbox: %s", grep(r.Stdout, "REACHED"))
		}
		c.Must(t, "rm", "-f", "box", "two")
	})
}

// published returns the address of a sandbox's port on the host's loopback.
func published(t *testing.T, c *harness.Caller, box string, port uint16) string {
	t.Helper()
	var list []spec.Port
	if err := json.Unmarshal([]byte(c.Must(t, "ports", "--json", box)), &list); err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		if p.Port == port && p.HostIP.Is4() {
			return strconv.Itoa(int(p.HostPort))
		}
	}
	t.Fatalf("port %d of %s is not published: %v", port, box, list)
	return ""
}

// TestPublishedPortsInside checks that the inside cannot reach ports that another sandbox
// publishes, or any other listener of a keeper.
func TestPublishedPortsInside(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		me := c.Plant(t, c.Work)
		c.Must(t, "policy", "allow", "**")
		c.Must(t, "run", "-d", "--name", "server", "-p", "3000", "shell", ".", "--", me, "intruder", "serve", "polite", ":3000")
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		waitFile(t, c, "serving-polite")
		port := published(t, c, "server", 3000)
		if said, err := ask(port); said != "welcome\n" {
			t.Fatalf("from the host: %q, %v", said, err)
		}
		for _, as := range [][]string{nil, {"-u", "root"}} {
			r := c.Run(slices.Concat([]string{"exec"}, as, []string{"box", me, "intruder", "reach", port}, spellings)...)
			if strings.Contains(r.Stdout, "REACHED") || !strings.Contains(r.Stdout, "no tcp host.bothy") {
				t.Errorf("%s", r.Stdout)
			}
		}
		// The gateway itself listens for names, and explains refusals; the port to which init connects
		// back accepts only init.
		scan := `for p in $(seq 1 1024) 3000 8080 ` + port + `; do (exec 3<>/dev/tcp/198.18.0.1/$p) 2>/dev/null && echo $p; done; true`
		r := c.Run("exec", "box", "bash", "-c", scan)
		if open := strings.Fields(r.Stdout); r.Code != 0 || strings.Join(open, " ") != "53 80" {
			t.Errorf("open at the gateway: %v", r)
		}
		c.Must(t, "rm", "-f", "server", "box")
	})
}

func waitFile(t *testing.T, c *harness.Caller, name string) {
	t.Helper()
	harness.WaitFor(t, harness.Timeout, name, func() bool {
		_, err := os.Lstat(filepath.Join(c.Work, name))
		return err == nil
	})
}

// ask connects to a port of the loopback, and returns the server's message.
func ask(port string) (string, error) {
	c, err := net.Dial("tcp4", "127.0.0.1:"+port)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(harness.Timeout)) // longer than all waits for a server inside together
	b, err := io.ReadAll(c)
	return string(b), err
}

// TestPublishedOnLoopbackOnly checks that other machines reach a published port only if its address
// was named. It connects from the host's own other address.
func TestPublishedOnLoopbackOnly(t *testing.T) {
	harness.AsUser(t)
	at := ownAddress(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		c.Must(t, "run", "-d", "--name", "box", "-p", "3000", "-p", at.String()+"::3001", "shell", ".", "--", "sleep", "1000")
		dial := func(at netip.Addr, port string) error {
			conn, err := net.Dial("tcp", net.JoinHostPort(at.String(), port))
			if err == nil {
				_ = conn.Close()
			}
			return err
		}
		if err := dial(at, published(t, c, "box", 3000)); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("at another address: %v", err)
		}
		// No server runs inside, so the connection may be reset as soon as it is made.
		if err := dial(at, published(t, c, "box", 3001)); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("at the address that was asked for: %v", err)
		}
		c.Must(t, "rm", "-f", "box")
	})
}

// TestHostileServer checks that a server at a published port uses host memory only up to a bound, and
// does not block other ports. A stopped init does not either.
func TestHostileServer(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		me := c.Plant(t, c.Work)
		args := []string{"run", "-d", "--name", "box"}
		for _, port := range []string{"3000", "3001", "3002", "3003", "3004"} {
			args = append(args, "-p", port)
		}
		script := ""
		manners := []string{"deaf :3000", "chatty :3001", "rude :3002", "polite :3003", "polite 127.0.0.1:3004"}
		for _, m := range manners {
			script += me + " intruder serve " + m + " & "
		}
		c.Must(t, append(args, "shell", ".", "--", "sh", "-c", script+"wait")...)
		for _, m := range manners {
			waitFile(t, c, "serving-"+strings.Fields(m)[0])
		}
		keeper := c.Machine(t, "box").Keeper
		before := resident(t, keeper)

		deaf, err := net.Dial("tcp4", "127.0.0.1:"+published(t, c, "box", 3000))
		if err != nil {
			t.Fatal(err)
		}
		defer deaf.Close()
		_ = deaf.SetWriteDeadline(time.Now().Add(5 * time.Second))
		const bound = 64 << 20
		taken := 0
		for b := make([]byte, 1<<16); taken <= bound; {
			n, err := deaf.Write(b)
			taken += n
			if err != nil {
				break
			}
		}
		if taken > bound {
			t.Errorf("a server that does not read was sent %d bytes", taken)
		}
		for range 50 { // clients that ask and do not read
			chatty, err := net.Dial("tcp4", "127.0.0.1:"+published(t, c, "box", 3001))
			if err != nil {
				t.Fatal(err)
			}
			defer chatty.Close()
		}
		if said, err := ask(published(t, c, "box", 3002)); err == nil || said != "" {
			t.Errorf("after a reset: %q, %v", said, err)
		}
		for _, port := range []uint16{3003, 3004} {
			if said, err := ask(published(t, c, "box", port)); said != "welcome\n" {
				t.Errorf("port %d: %q, %v", port, said, err)
			}
		}
		if grown := resident(t, keeper) - before; grown > 256<<20 {
			t.Errorf("the keeper grew by %d MiB", grown>>20)
		}

		freeze := c.Command(t.Context(), "exec", "-u", "root", "box", me, "intruder", "freeze")
		if err := freeze.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = freeze.Process.Kill(); _ = freeze.Wait() }()
		waitFile(t, c, "frozen")
		if said, err := ask(published(t, c, "box", 3003)); said != "welcome\n" {
			t.Errorf("with a stopped init: %q, %v", said, err)
		}
		if said, err := ask(published(t, c, "box", 3004)); said != "welcome\n" && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("by way of a stopped init: %q, %v", said, err)
		}
		if out := c.Must(t, "exec", "box", "echo", "alive"); out != "alive\n" {
			t.Errorf("a command says %q", out)
		}
		c.Must(t, "rm", "-f", "box")
	})
}

// resident returns the memory of a process of the host, in bytes.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	kb, _, _ := strings.Cut(harness.Status(pid, "VmRSS"), " ")
	n, err := strconv.ParseInt(kb, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}
