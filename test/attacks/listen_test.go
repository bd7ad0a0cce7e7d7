package attacks

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// TestB9NobodyListens checks the processes of a running sandbox, with requests looked into and a
// connection open: none has an internet socket that another program could use. The gateway is reached
// only through the card.
func TestB9NobodyListens(t *testing.T) {
	harness.AsUser(t)
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		p := newSpy(t, c, s)
		c.Write(t, c.State+"/policy.yaml", "version: 1\ninspect: all\nallow: ["+allowed4+", "+allowed6+"]\n")
		p.tries(t, "web=http://"+allowed4+"/", "web=http://policy.bothy/")
		cmd := c.Command(t.Context(), "exec", "box", "bash", "-c", "exec 3<>/dev/tcp/"+allowed4+"/9418; echo talking; cat <&3")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
		// A match here proves that other sockets would be found, too.
		harness.WaitFor(t, harness.Timeout, "the keeper's connection", func() bool { return sockets(t, c) > 0 })
		c.Must(t, "stop", "box")
		_ = cmd.Wait()
	})
}

// sockets counts the connections of a caller's sandboxes, and reports every other socket that they have.
func sockets(t *testing.T, c *harness.Caller) (connected int) {
	t.Helper()
	for _, process := range c.Running() {
		mine := socketsOf(process.PID)
		for _, table := range []string{"tcp", "tcp6", "udp", "udp6", "udplite", "udplite6", "raw", "raw6", "icmp", "icmp6", "packet"} {
			for _, line := range socketTable(process.PID, table) {
				switch {
				case !mine[line.inode]:
				case strings.HasPrefix(table, "tcp") && line.state != listening:
					connected++ // to the server that it was asked to reach
				case strings.HasPrefix(table, "udp") && strings.HasSuffix(line.peer, ":0035"): // a question to the host's name server
				default:
					t.Errorf("process %d %q has a socket in %s: at %s, peer %s, state %s", process.PID, process.Args, table, line.at, line.peer, line.state)
				}
			}
		}
	}
	return connected
}

// listening is the state of a TCP socket that accepts connections.
const listening = "0A"

// socketsOf returns the inodes of a process's sockets.
func socketsOf(pid int) map[string]bool {
	set := map[string]bool{}
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		target, _ := os.Readlink(dir + "/" + e.Name())
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			set[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return set
}

// socketLine is a line of a table in /proc/PID/net.
type socketLine struct{ at, peer, state, inode string }

func socketTable(pid int, name string) []socketLine {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, name))
	var list []socketLine
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || f[0] == "sl" || f[0] == "sk":
		case name == "packet" && len(f) >= 9:
			list = append(list, socketLine{at: f[3], inode: f[8]})
		case len(f) >= 10:
			list = append(list, socketLine{f[1], f[2], f[3], f[9]})
		}
	}
	return list
}
