package faults

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/harness"
)

// faulty builds the bothy that panics on request.
func faulty(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bothy-faulty-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "bothy")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-tags", "bothy_faults", "-o", dir+"/", "../../cmd/bothy", "../../cmd/bothy-keeper", "../../cmd/bothy-guest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build it: %v\n%s", err, out)
	}
	return path
}

// visitor waits on a port of the host's loopback for a program inside.
type visitor struct {
	port string
	l    *net.TCPListener
}

func newVisitor(t *testing.T) *visitor {
	t.Helper()
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return &visitor{port, l}
}

// visit makes a program inside connect, and returns the connection.
func (v *visitor) visit(t *testing.T, c *harness.Caller) net.Conn {
	t.Helper()
	recovers(t, c, "exec", "-d", "box", "bash", "-c", "exec 3<>/dev/tcp/host.bothy/"+v.port+"; cat <&3")
	_ = v.l.SetDeadline(time.Now().Add(harness.Timeout))
	conn, err := v.l.Accept()
	if err != nil {
		t.Fatalf("nothing inside connects: %v", err)
	}
	return conn
}

// cut reports a connection that the other side did not end.
func cut(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(harness.Timeout))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection of the sandbox that died: %v", err)
	}
}

// TestMistakes runs a bothy that panics on request.
func TestMistakes(t *testing.T) {
	harness.AsUser(t)
	binary := faulty(t)
	for name, f := range map[string]func(*testing.T, *harness.Caller){"of the keeper": keeperDies, "at a request": mistakeAtRequest} {
		t.Run(name, func(t *testing.T) {
			harness.Each(t, func(t *testing.T, c *harness.Caller) {
				c.Binary = binary
				f(t, c)
			})
		})
	}
}

// keeperDies kills the process that is a sandbox's network, in several ways, while connections are open.
// They end and no way out is left; the wall dies with it. Commands report the crash, even after the next
// command has started the sandbox again.
func keeperDies(t *testing.T, c *harness.Caller) {
	deaths := []struct {
		name, last string // its last message
		code       int    // of the command that caused it
		die        func(c *harness.Caller) harness.Result
	}{
		{"a lookup", "panic: a mistake at a lookup", 125, func(c *harness.Caller) harness.Result {
			return c.Run("exec", "box", "getent", "hosts", "lookup.panic.example")
		}},
		{"a connection", "panic: a mistake at a flow", 125, func(c *harness.Caller) harness.Result {
			// The connection may be refused a moment before the keeper is gone, so the program that
			// opened it stays.
			return c.Run("exec", "box", "bash", "-c", "(exec 3<>/dev/tcp/203.0.113.66/443); sleep 100")
		}},
		{"a command", "panic: a mistake at port 1", 0, func(c *harness.Caller) harness.Result {
			// The new setting is on the disk: it applies when the sandbox runs.
			return c.Run("ports", "box", "--allow-host-port", "1")
		}},
		{"a kill", "", 0, func(c *harness.Caller) harness.Result {
			_ = syscall.Kill(find(c, theKeeper, nil), syscall.SIGKILL)
			return c.Run("inspect", "box")
		}},
	}
	v := newVisitor(t)
	c.Must(t, "create", "--name", "box", "--allow-host-port", v.port, "-p", "3000", "shell", c.Work)
	for _, d := range deaths {
		conn := v.visit(t, c)
		m := c.Machine(t, "box")
		ports := c.Inspect(t, "box").Status.Ports
		began := time.Now()
		r := d.die(c)
		cut(t, conn)
		conn.Close()
		explained(t, r)
		// On a busy machine the program may end the keeper before the keeper has said that the program runs.
		unsaid := d.code == spec.ExitSandbox && r.Code == spec.ExitMayHaveRun && strings.Contains(r.Stderr, "the command may have run")
		if r.Code != d.code && !unsaid {
			t.Errorf("%s: %v", d.name, r)
		}
		harness.WaitFor(t, harness.Timeout, "the end of all its processes", func() bool {
			return !harness.Alive(m.Keeper) && !harness.Alive(m.Sentry) && !harness.Alive(m.Gofer)
		})
		settled(t, c, 0)
		for _, p := range ports {
			if conn, err := net.Dial("tcp", net.JoinHostPort(p.HostIP.String(), fmt.Sprint(p.HostPort))); err == nil {
				conn.Close()
				t.Errorf("%s: its port is still open at %s", d.name, p.HostIP)
			}
		}
		st := c.Inspect(t, "box").Status
		if st.State != "stopped" || !st.Crashed || !strings.Contains(st.Reason, "its keeper died") || !strings.Contains(st.Reason, d.last) {
			t.Errorf("%s: inspect says %+v", d.name, st)
		}
		r = recovers(t, c, "exec", "box", "echo", "again")
		if r.Stdout != "again\n" || !strings.Contains(r.Stderr, "had not been stopped properly") || !strings.Contains(r.Stderr, d.last) {
			t.Errorf("%s: the next command says %v", d.name, r)
		}
		if log := c.Must(t, "logs", "--source", "events", "box"); !strings.Contains(log, "crashed") || !strings.Contains(log, d.last) {
			t.Errorf("%s: the events are\n%s", d.name, log)
		}
		if log := c.Must(t, "logs", "--source", "keeper", "box"); d.last != "" && (!strings.Contains(log, d.last) || !strings.Contains(log, "goroutine ")) {
			t.Errorf("%s: the keeper's words are\n%s", d.name, log)
		}
		t.Logf("%s: %v", d.name, time.Since(began).Round(time.Millisecond))
	}
	v.visit(t, c).Close()
	c.Must(t, "stop", "box")
	c.Must(t, "exec", "box", "true")
	if log := c.Must(t, "logs", "--source", "keeper", "box"); strings.Contains(log, "panic: ") {
		t.Errorf("after a proper end the keeper's last words are still there:\n%s", log)
	}
	c.Must(t, "rm", "-f", "box")
}

// mistakeAtRequest checks that a panic while one request is served ends that request and its connection.
// Other connections continue, and the keeper reports the panic.
func mistakeAtRequest(t *testing.T, c *harness.Caller) {
	v := newVisitor(t)
	c.Must(t, "policy", "allow", "request.panic.example:80", "--method", "GET", "--path", "/never")
	c.Must(t, "create", "--name", "box", "--allow-host-port", v.port, "shell", c.Work)
	conn := v.visit(t, c)
	defer conn.Close()
	keeper := c.Machine(t, "box").Keeper
	r := c.Run("exec", "box", "curl", "-sS", "--max-time", "60", "http://request.panic.example/")
	if r.Code == 0 || strings.Contains(r.Stderr, "timed out") {
		t.Errorf("%v", r)
	}
	if _, err := io.WriteString(conn, "still there\n"); err != nil || c.Machine(t, "box").Keeper != keeper {
		t.Errorf("the keeper died of it: %v", err)
	}
	if log := c.Must(t, "logs", "--source", "keeper", "box"); !strings.Contains(log, "a mistake at a request") || !strings.Contains(log, "goroutine ") {
		t.Errorf("the keeper says nothing of it:\n%s", log)
	}
	if out := c.Must(t, "exec", "box", "curl", "-sS", "http://policy.bothy/"); !strings.Contains(out, "request.panic.example") {
		t.Errorf("requests are not answered any more: %s", out)
	}
	c.Must(t, "rm", "-f", "box")
}
