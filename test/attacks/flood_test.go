package attacks

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/harness"
)

// The floods (B10): hostile code inside makes the gateway use as much memory as it can. Its memory is
// bounded, does not accumulate, and does not affect other sandboxes.

// Sizes of the floods. They are as large as two busy processors can make them in
// less than half a minute.
const (
	crowdSize = 3000 // connections that are open and idle
	slowSize  = 1500 // heads of requests, and greetings of TLS, that never end
	askers    = 64   // that ask for names, as fast as they can
	askTime   = 5 * time.Second
	overloads = 20 // questions to a model of 14 MiB each, of either kind
)

// The cost that a flood may cause the keeper, in bytes.
const (
	perCrowded = 48 << 10 // a third of it is not yet collected garbage
	perSlow    = 160 << 10
	floodRoom  = 48 << 20 // for the keeper's other work
	perLarge   = 80 << 20 // for the one large question to a model that is read at a time
)

// flood is the hostile side: KIND TARGET... It writes the file "flooding" when the flood is complete,
// and stays until its input ends.
func flood(kind string, targets []string) {
	switch kind {
	case "crowd":
		hold(crowdSize, func(int) (net.Conn, error) { return greeted(targets[0]) })
	case "slow":
		ended := hold(slowSize, func(i int) (net.Conn, error) { return begun(targets[i%len(targets)], i%len(targets) == 1) })
		go func() { // report when all connections were cut
			ended.Wait()
			_ = os.WriteFile("cut", nil, 0o600)
		}()
	case "ask":
		askAround(targets[0])
	case "mock":
		overload(targets[0])
	}
	_ = os.WriteFile("flooding", nil, 0o600)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// overload sends a model more than it can hold, in many requests at once: half of them have a length,
// the rest do not. It prints each answer that is not a refusal.
func overload(target string) {
	question := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x ", 7<<20) + `"}]}`
	var wg sync.WaitGroup
	for i := range 2 * overloads {
		wg.Go(func() {
			began := time.Now()
			c, err := net.DialTimeout("tcp", target, 60*time.Second)
			if err != nil {
				fmt.Println(err)
				return
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(harness.Timeout))
			head, body, end := fmt.Sprintf("Content-Length: %d", len(question)), question, ""
			if i%2 == 1 {
				head, body, end = "Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n", len(question), question), "0\r\n\r\n"
			}
			go func() {
				for _, s := range []string{"POST /v1/chat/completions HTTP/1.1\r\nHost: api.openai.com\r\n" + head + "\r\n\r\n", body, end} {
					_, _ = io.WriteString(c, s)
				}
			}()
			line, err := bufio.NewReader(c).ReadString('\n')
			// A reset is also a refusal: it was seen once, on a busy machine, and its cause is unknown.
			if !strings.HasPrefix(line, "HTTP/1.1 400 ") && !errors.Is(err, unix.ECONNRESET) {
				fmt.Printf("question %d after %v: %q, %v\n", i, time.Since(began), line, err)
			}
		})
	}
	wg.Wait()
}

// hold opens connections, many at once, and waits until all are open. The returned group waits
// until all have ended.
func hold(n int, open func(i int) (net.Conn, error)) *sync.WaitGroup {
	var ended, opened sync.WaitGroup
	next := atomic.Int64{}
	for range 64 {
		opened.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				c, err := open(i)
				for tries := 0; err != nil && tries < 20; tries++ { // too many concurrent attempts are delayed
					time.Sleep(50 * time.Millisecond)
					c, err = open(i)
				}
				if err != nil {
					fmt.Println("no connection", i, err)
					continue
				}
				ended.Go(func() { _, _ = io.Copy(io.Discard, c); _ = c.Close() })
			}
		})
	}
	opened.Wait()
	return &ended
}

// greeted returns a connection on which a line went both ways.
func greeted(target string) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", target, 20*time.Second)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	_, err = io.WriteString(c, "hello\n")
	if err == nil {
		_, err = io.ReadFull(c, make([]byte, 6))
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, c.SetDeadline(time.Time{})
}

// begun returns a connection on which a request, or TLS, has begun.
func begun(target string, secure bool) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", target, 20*time.Second)
	if err != nil {
		return nil, err
	}
	// Within the total that a sandbox may use. Beyond it connections are refused.
	say := "GET / HTTP/1.1\r\nHost: slow.example\r\nX-Slow: " + strings.Repeat("x", 6<<10)
	if secure {
		say = "\x16\x03\x01\x3f\x00\x01\x00\x3e\xfc\x03\x03" + strings.Repeat("x", 8<<10)
	}
	_, err = io.WriteString(c, say)
	return c, err
}

// askAround floods the name server with names that rules allow and deny, over datagrams. Over lasting
// connections it sends questions that are too long or never end.
func askAround(server string) {
	var wg sync.WaitGroup
	for i := range 300 { // more than are allowed, before the machine is too busy
		if c, err := net.DialTimeout("tcp", server, time.Second); err == nil {
			_, _ = c.Write([]byte{[]byte{0xff, 0x0f}[i%2], 0xff, 0}) // a question that is too long, or never ends
			wg.Go(func() { _, _ = io.Copy(io.Discard, c) })
		}
	}
	end := time.Now().Add(askTime)
	for i := range askers {
		wg.Go(func() {
			c, err := net.Dial("udp", server)
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, c) }()
			for n := 0; time.Now().Before(end); n++ {
				_, _ = c.Write(question(fmt.Sprintf("n%d-%d.wide.example", i, n), 1, false))
				_, _ = c.Write(question(fmt.Sprintf("%s.n%d-%d.evil.example", strings.Repeat("x", 60), i, n), 16, false))
			}
		})
	}
	wg.Wait()
}

// private returns the memory that a process shares with no other process, in bytes.
func private(t *testing.T, pid int) int64 {
	t.Helper()
	kb, _, _ := strings.Cut(harness.Status(pid, "RssAnon"), " ")
	n, err := strconv.ParseInt(kb, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// flooded is a sandbox that is flooded, and another one.
type flooded struct {
	*harness.Caller
	me     string
	server netip.AddrPort // outside; both may reach it
	open   *atomic.Int64  // connections to it
}

func newFlooded(t *testing.T) *flooded {
	t.Helper()
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil || files.Max < crowdSize+1000 {
		harness.Missing(t, "only %d files may be open here, and that cannot be raised", files.Max)
	}
	l, err := net.Listen("tcp", netip.AddrPortFrom(ownAddress(t), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	f := &flooded{Caller: harness.New(t, harness.Callers()[0]), open: &atomic.Int64{}}
	f.server = netip.MustParseAddrPort(l.Addr().String())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.open.Add(1)
			go func() {
				defer f.open.Add(-1)
				defer c.Close()
				line, _ := bufio.NewReaderSize(c, 16).ReadString('\n')
				_, _ = io.WriteString(c, line)
				_, _ = io.Copy(io.Discard, c)
			}()
		}
	}()
	f.me = f.Plant(t, f.Work)
	f.Must(t, "policy", "allow", f.server.String())
	f.Must(t, "policy", "allow", "slow.example", "--method", "GET")
	f.Must(t, "policy", "allow", "**.wide.example")
	for _, box := range []string{"box", "beside"} {
		f.Must(t, "create", "--name", box, "shell", f.Work)
		f.goesOn(t, box)
	}
	return f
}

// goesOn checks that a sandbox reaches the server, gets the gateway's explanation page, looks names
// up, and takes commands.
func (f *flooded) goesOn(t *testing.T, box string) {
	t.Helper()
	f.talks(t, box)
	script := "getent ahostsv4 slow.example && curl -sS --max-time 60 http://policy.bothy/"
	if r := f.Run("exec", box, "sh", "-c", script); r.Code != 0 || !strings.Contains(r.Stdout, "You are in the sandbox") {
		t.Errorf("%v", r)
	}
}

func (f *flooded) talks(t *testing.T, box string) {
	t.Helper()
	r := f.Run("exec", box, "bash", "-c", fmt.Sprintf(lineTalk, f.server.Addr(), f.server.Port()), "hello")
	if r.Stdout != "hello\n" {
		t.Errorf("%v", r)
	}
}

// begin starts a flood and returns when it is complete. The returned function ends it.
func (f *flooded) begin(t *testing.T, kind string, targets ...string) (end func()) {
	t.Helper()
	for _, sign := range []string{"flooding", "cut"} {
		_ = os.Remove(filepath.Join(f.Work, sign))
	}
	cmd := f.Command(t.Context(), append([]string{"exec", "-i", "box", f.me, "intruder", "flood", kind}, targets...)...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFile(t, f.Caller, "flooding")
	return func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil || said.Len() > 0 {
			t.Errorf("the flood %s: %v\n%s", kind, err, said.String())
		}
	}
}

// bounded floods and checks the keeper's memory: it grows within bounds, and returns to the host
// afterwards.
func (f *flooded) bounded(t *testing.T, bound int64, once func()) {
	t.Helper()
	keeper := f.Machine(t, "box").Keeper
	before := private(t, keeper)
	began := time.Now()
	peak := f.peak(t, keeper, once) - before
	t.Logf("it took %v; the keeper had %d MiB and grew by %d", time.Since(began).Round(time.Millisecond), before>>20, peak>>20)
	if peak > bound {
		t.Errorf("the keeper grew by %d MiB, more than %d", peak>>20, bound>>20)
	}
	rest := before + floodRoom
	harness.WaitFor(t, harness.Timeout, fmt.Sprintf("the keeper to have less than %d MiB", rest>>20), func() bool { return private(t, keeper) < rest })
	if f.Machine(t, "box").Keeper != keeper {
		t.Error("the sandbox ended meanwhile")
	}
	f.goesOn(t, "box")
}

// peak returns the most memory that a process uses while something is done.
func (f *flooded) peak(t *testing.T, pid int, do func()) int64 {
	t.Helper()
	most := private(t, pid)
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
				most = max(most, private(t, pid))
			}
		}
	}()
	do()
	close(done)
	<-stopped
	return most
}

// TestB10Crowd opens as many connections as a program likes, all of them idle.
func TestB10Crowd(t *testing.T) {
	harness.Sweep(t, "floods")
	f := newFlooded(t)
	f.bounded(t, crowdSize*perCrowded+floodRoom, func() {
		end := f.begin(t, "crowd", f.server.String())
		if n := f.open.Load(); n < crowdSize {
			t.Errorf("%d connections arrived", n)
		}
		f.goesOn(t, "box")
		f.goesOn(t, "beside")
		end()
		harness.WaitFor(t, harness.Timeout, "the end of all connections", func() bool { return f.open.Load() == 0 })
	})
	f.countsAll(t)
}

// countsAll checks that the crowd has not pushed earlier records out of the log, and that each of
// its connections is counted although not all have lines.
func (f *flooded) countsAll(t *testing.T) {
	t.Helper()
	f.Must(t, "stop", "box")
	var opened, closed, lines int64
	list := flows(t, f.Caller, "")
	for _, r := range list {
		lines++
		switch r.State {
		case spec.FlowOpened:
			opened += max(r.Count, 1)
		case spec.FlowClosed:
			closed += max(r.Count, 1)
		}
	}
	if opened < crowdSize || opened != closed || lines >= opened+closed {
		t.Errorf("of %d connections the log tells of %d that were opened and %d that have ended, in %d lines", crowdSize, opened, closed, lines)
	}
	if len(list) == 0 || list[0].State != spec.FlowOpened || list[0].Addr != f.server.Addr() || list[0].Count != 0 {
		t.Errorf("the log begins with %+v", list[:min(1, len(list))])
	}
	var sum struct {
		Allowed []struct {
			Host  string `json:"host"`
			Count int64  `json:"count_since"`
		} `json:"allowed_hosts"`
	}
	if err := json.Unmarshal([]byte(f.Must(t, "policy", "log", "--json", "box")), &sum); err != nil {
		t.Fatal(err)
	}
	var counted int64
	for _, h := range sum.Allowed {
		if h.Host == f.server.String() {
			counted += h.Count
		}
	}
	if counted != opened {
		t.Errorf("policy log counts %d of %d", counted, opened)
	}
}

// TestB10Slow checks that heads of requests and greetings of TLS that never end are cut off, and do no
// harm until then.
func TestB10Slow(t *testing.T) {
	harness.Sweep(t, "floods")
	f := newFlooded(t)
	f.bounded(t, slowSize*perSlow+floodRoom, func() {
		end := f.begin(t, "slow", "slow.example:80", "slow.example:443")
		f.goesOn(t, "box")
		f.goesOn(t, "beside")
		waitFile(t, f.Caller, "cut")
		end()
	})
}

// TestB10Names sends more questions than any program has, over datagrams and over lasting connections.
func TestB10Names(t *testing.T) {
	harness.Sweep(t, "floods")
	f := newFlooded(t)
	f.bounded(t, floodRoom, func() {
		end := f.begin(t, "ask", "198.18.0.1:53")
		f.goesOn(t, "beside")
		f.goesOn(t, "box")
		end()
	})
	log, err := os.Stat(filepath.Join(f.Inspect(t, "box").Directory, "log", "network.jsonl"))
	if err != nil || log.Size() > 4<<20 {
		t.Errorf("the log: %v, %v", log, err)
	}
}

// TestB10Mock sends a sandbox's scripted model more at once than would fit. The requests are read
// one by one and refused, and the model of the other sandbox keeps working.
func TestB10Mock(t *testing.T) {
	harness.Sweep(t, "floods")
	f := newFlooded(t)
	for box, says := range map[string]string{"box": "one", "beside": "two"} {
		f.Must(t, "rm", "-f", box)
		script := f.Write(t, filepath.Join(f.Base, says+".yaml"), "conversations: [{match: ^hi$, turns: [{text: it is "+says+"}]}]\n")
		f.Must(t, "create", "--name", box, "--mock", script, "shell", f.Work)
	}
	plays := func(box, says string) {
		t.Helper()
		const question = `curl -sS --max-time 60 -d '{"messages":[{"role":"user","content":"hi"}]}' https://api.openai.com/v1/chat/completions`
		if r := f.Run("exec", box, "sh", "-c", question); !strings.Contains(r.Stdout, "it is "+says) {
			t.Errorf("%s: %v", box, r)
		}
	}
	f.goesOn(t, "box")
	f.bounded(t, perLarge+floodRoom, func() {
		end := f.begin(t, "mock", "api.openai.com:80")
		plays("box", "one")
		plays("beside", "two")
		f.goesOn(t, "beside")
		end()
	})
	log, err := os.Stat(filepath.Join(f.Inspect(t, "box").Directory, "log", "model.jsonl"))
	if err != nil || log.Size() > 4<<20 {
		t.Errorf("the log: %v, %v", log, err)
	}
}
