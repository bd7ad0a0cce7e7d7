package attacks

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/test/harness"
)

// ownAddress returns an address of this machine that is not its loopback: traffic to it does not leave
// the machine, and inside it is not the sandbox's own.
func ownAddress(t *testing.T) netip.Addr {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() {
			return p.Addr()
		}
	}
	harness.Missing(t, "this machine has no address but its loopback's")
	return netip.Addr{}
}

// echoServer repeats lines. It counts its callers.
func echoServer(t *testing.T, at netip.Addr) (netip.AddrPort, *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", netip.AddrPortFrom(at, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	callers := &atomic.Int64{}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			callers.Add(1)
			go func() { defer c.Close(); _, _ = io.Copy(c, c) }()
		}
	}()
	return netip.MustParseAddrPort(l.Addr().String()), callers
}

const lineTalk = `exec 3<>/dev/tcp/%s/%d && echo "$0" >&3 && head -1 <&3`

// TestA16NetworkByRule checks that a connection that no rule allows is refused at once and reaches
// no host; that an allowed one works; and that it ends when the rule is removed.
func TestA16NetworkByRule(t *testing.T) {
	harness.AsUser(t)
	at := ownAddress(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		server, callers := echoServer(t, at)
		script := fmt.Sprintf(lineTalk, server.Addr(), server.Port())
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		for _, as := range [][]string{nil, {"-u", "root"}} {
			r := c.Run(slices.Concat([]string{"exec"}, as, []string{"box", "bash", "-c", script, "hello"})...)
			if r.Code == 0 || !strings.Contains(r.Stderr, "refused") {
				t.Errorf("exec %q without a rule: %v", as, r)
			}
		}
		if n := callers.Load(); n != 0 {
			t.Fatalf("the server saw %d callers", n)
		}
		log := c.Must(t, "logs", "--source", "network", "--json", "box")
		if !strings.Contains(log, `"verdict":"deny"`) || !strings.Contains(log, fmt.Sprintf("bothy policy allow %s --sandbox box", server)) {
			t.Errorf("the log does not tell: %s", log)
		}

		c.Must(t, "policy", "allow", server.String(), "--sandbox", "box")
		if out := c.Must(t, "exec", "box", "bash", "-c", script, "hello"); out != "hello\n" {
			t.Errorf("with a rule: %q", out)
		}
		c.Must(t, "create", "--name", "other", "shell")
		if r := c.Run("exec", "other", "bash", "-c", script, "hello"); r.Code == 0 {
			t.Error("one sandbox's rule holds in another")
		}

		cmd := c.Command(t.Context(), "exec", "box", "bash", "-c", script+"; echo got; cat <&3; echo end $?", "first")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		lines.Scan()
		lines.Scan()
		if lines.Text() != "got" {
			t.Fatalf("it says %q", lines.Text())
		}
		if out := c.Must(t, "top", "--flows", "box"); !strings.Contains(out, server.String()) || !strings.Contains(out, "6 B") {
			t.Errorf("the open connection is not shown: %s", out)
		}
		if out := c.Must(t, "top", "--json", "box"); !strings.Contains(out, `"up_bytes": 6`) {
			t.Errorf("the open connection is not in the JSON: %s", out)
		}
		c.Must(t, "policy", "rm", server.String(), "--sandbox", "box")
		ended := make(chan string, 1)
		go func() { lines.Scan(); ended <- lines.Text() }()
		select {
		case said := <-ended:
			if said == "end 0" {
				t.Error("the connection ended as if it were complete")
			}
		case <-time.After(20 * time.Second):
			t.Error("the connection outlives its rule")
		}
		_ = cmd.Wait()
		if r := c.Run("exec", "box", "bash", "-c", script, "hello"); r.Code == 0 {
			t.Error("without the rule it works again")
		}
		said := c.Must(t, "policy", "log", "box", "--name", server.String())
		for _, want := range []string{" allow ", " deny ", "the policy changed", "  bothy policy allow " + server.String() + " --sandbox box\n"} {
			if !strings.Contains(said, want) {
				t.Errorf("%q is not in the log:\n%s", want, said)
			}
		}
		c.Must(t, "rm", "-f", "box", "other")
	})
}

// TestA12Names checks that a name is known inside only if a rule has exactly that name, and that it
// leads to an address of the sandbox's own.
func TestA12Names(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		c.Must(t, "policy", "allow", "api.example.com", "**.wide.example")
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		for name, want := range map[string]bool{
			"api.example.com": true, "API.Example.COM": true, "a.b.wide.example": true,
			"example.com": false, "wide.example": false, "xapi.example.com": false, "secret.evil.example": false,
		} {
			r := c.Run("exec", "box", "getent", "ahostsv4", name)
			if got := r.Code == 0 && strings.HasPrefix(r.Stdout, "198.1"); got != want {
				t.Errorf("%s: %v", name, r)
			}
		}
		if out := c.Must(t, "exec", "box", "getent", "hosts", "localhost"); !strings.Contains(out, "127.0.0.1") && !strings.Contains(out, "::1") {
			t.Errorf("localhost is %q", out)
		}
		c.Must(t, "rm", "-f", "box")
	})
}

// TestA8ToolsOfRoot has root inside take the card apart and reassemble it in other ways: nothing becomes
// reachable.
func TestA8ToolsOfRoot(t *testing.T) {
	harness.AsUser(t)
	at := ownAddress(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		server, callers := echoServer(t, at)
		script := fmt.Sprintf(lineTalk, server.Addr(), server.Port())
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		if r := c.Run("exec", "-u", "root", "box", "ip", "-V"); r.Code != 0 {
			harness.Missing(t, "ip is not there inside: %s", r.Stderr)
		}
		for _, trick := range []struct {
			tool  string // it may be missing
			works bool   // otherwise gVisor may refuse it
			do    string
		}{
			{"", true, "echo nameserver 8.8.8.8 > /etc/resolv.conf"},
			{"", true, "ip addr del 198.18.0.2/15 dev eth0 && ip addr add 10.0.0.1/8 dev eth0 && ip -o addr show dev eth0 | grep -F 10.0.0.1/8"},
			{"", true, "ip link set eth0 down && ip link set eth0 up"},
			{"", false, "ip route del default; ip route add default dev eth0"},
			{"iptables", false, "iptables -t nat -A OUTPUT -p tcp -j DNAT --to 198.18.0.1:53"},
			{"nft", false, "nft add table ip t && nft 'add chain ip t out { type nat hook output priority 0; }' && nft add rule ip t out meta l4proto tcp dnat to 198.18.0.1:53"},
			{"", true, "ip addr add " + server.Addr().String() + "/32 dev eth0 && ip -o addr show dev eth0 | grep -F " + server.Addr().String() + "/32"},
		} {
			if trick.tool != "" && c.Run("exec", "-u", "root", "box", "sh", "-c", "command -v "+trick.tool).Code != 0 {
				t.Logf("%s is not there inside", trick.tool)
				continue
			}
			const notThere = 127
			if r := c.Run("exec", "-u", "root", "box", "bash", "-c", trick.do); r.Code == notThere || trick.works && r.Code != 0 {
				t.Errorf("%q was not done: %v", trick.do, r)
			}
			// Nothing answers if the network was changed: an attempt would last for minutes.
			if r := c.Run("exec", "-u", "root", "box", "timeout", "10", "bash", "-c", script, "hello"); r.Code == notThere || r.Code == 0 && strings.Contains(r.Stdout, "hello") {
				t.Errorf("after %q it got through, or was not tried: %v", trick.do, r)
			}
		}
		if n := callers.Load(); n != 0 {
			t.Errorf("the server saw %d callers", n)
		}
		c.Must(t, "rm", "-f", "box")
	})
}

// TestA21ProjectNarrowsOnly checks that a repository's network settings only take away, and never add.
func TestA21ProjectNarrowsOnly(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		c.Must(t, "policy", "allow", "one.example", "two.example")
		look := func(name string) bool { return c.Run("exec", "box", "getent", "ahostsv4", name).Code == 0 }
		for text, want := range map[string][2]bool{
			"network: {allow: [one.example, evil.example]}\n": {true, false},
			"network: {deny: [one.example]}\n":                {false, true},
			"other: true\n":                                   {true, true},
		} {
			c.Write(t, c.Work+"/bothy.yaml", text)
			c.Must(t, "create", "--name", "box", "shell", c.Work)
			if got := [2]bool{look("one.example"), look("two.example")}; got != want || look("evil.example") {
				t.Errorf("with %q one and two are %v, want %v; evil: %t", text, got, want, look("evil.example"))
			}
			c.Must(t, "rm", "-f", "box")
		}
		// The file also does not keep the user's rules from a running sandbox, however it changes.
		c.Write(t, c.Work+"/bothy.yaml", "network: {allow: [one.example]}\n")
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		if !look("one.example") || look("two.example") {
			t.Error("the project does not narrow")
		}
		c.Must(t, "exec", "box", "sh", "-c", "rm bothy.yaml && mkdir bothy.yaml")
		if r := c.Run("policy", "deny", "other.example"); r.Code != 0 || !strings.Contains(r.Stderr, "bothy.yaml") || !look("one.example") || look("two.example") {
			t.Errorf("what the project said before does not hold on: %v", r)
		}
		if c.Must(t, "policy", "deny", "one.example", "--sandbox", "box"); look("one.example") {
			t.Error("a rule of the user's is kept off by a file of the project's")
		}
		c.Must(t, "rm", "-f", "box")
		if err := os.Remove(c.Work + "/bothy.yaml"); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"network: null\n", "network: {default: allow}\n", "network: {presets: [open]}\n", "network: {allow: []}\n", "network: [\n"} {
			c.Write(t, c.Work+"/bothy.yaml", text)
			c.Must(t, "create", "--name", "box", "shell", c.Work)
			if r := c.Run("exec", "box", "true"); r.Code == 0 {
				t.Errorf("with %q it starts", text)
			}
			c.Must(t, "rm", "-f", "box")
		}
	})
}
