package traffic

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/smalldisk"
	"github.com/bothy-dev/bothy/spec"
)

// gate is a gateway that can only be paused.
type gate struct {
	mu     sync.Mutex
	reason string
	times  int
}

func (g *gate) pause(reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reason = reason
	g.times++
}

func (g *gate) paused() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reason
}

func openTraffic(t *testing.T, path string) *Log {
	t.Helper()
	log, err := audit.Open(path, audit.Options{MaxBytes: 64 << 10})
	must(t, err)
	tr := New("box", log, slog.New(slog.DiscardHandler), func() {})
	t.Cleanup(tr.Close)
	return tr
}

// recorded reads a network log back.
func recorded(t *testing.T, path string) (list []spec.NetworkRecord) {
	t.Helper()
	err := audit.Read(path, func(ev audit.Event) error {
		var r spec.NetworkRecord
		list = append(list, r)
		return ev.Decode(&list[len(list)-1])
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return list
}

// counts sums up the refusals in a log: lines, and the number of refusals that they stand for.
func counts(list []spec.NetworkRecord) (lines, times int64) {
	for _, r := range list {
		if r.Verdict != spec.VerdictDeny {
			continue
		}
		lines++
		if r.Event == spec.NetworkSuppressed {
			times += r.Suppressed
		} else {
			times += max(r.Count, 1)
		}
	}
	return lines, times
}

func denial(name string) spec.NetworkRecord {
	return spec.NetworkRecord{Event: spec.NetworkLookup, Sandbox: "box", Verdict: spec.VerdictDeny, Name: name, Reason: "no rule allows " + name}
}

// TestRepeatedRefusals checks that the first refusal is written at once and the rest is counted. Lines
// become rarer the longer it goes on.
func TestRepeatedRefusals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "network.jsonl")
	synctest.Test(t, func(t *testing.T) {
		tr := openTraffic(t, path)
		defer tr.Close()
		tr.Record(denial("a.example"))
		if list := recorded(t, path); len(list) != 1 || list[0].Name != "a.example" || list[0].Count != 0 {
			t.Fatalf("at once there is %+v", list)
		}
		const each = 10_000
		for range 600 { // ten minutes of it
			for range each / 100 {
				tr.Record(denial("a.example"))
			}
			time.Sleep(time.Second)
		}
		tr.Record(denial("b.example"))
		tr.Close()
		list := recorded(t, path)
		lines, times := counts(list)
		if times != 600*each/100+2 {
			t.Errorf("it tells of %d refusals", times)
		}
		if lines > 14 {
			t.Errorf("in %d lines", lines)
		}
		if last := list[len(list)-1]; last.Name != "b.example" && list[len(list)-2].Name != "b.example" {
			t.Errorf("the other one is not there: %+v", last)
		}
	})
}

// TestRefusalForgotten checks that a refusal long after the last one counts as the first of its kind.
func TestRefusalForgotten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "network.jsonl")
	synctest.Test(t, func(t *testing.T) {
		tr := openTraffic(t, path)
		defer tr.Close()
		for range 3 {
			tr.Record(denial("a.example"))
			time.Sleep(time.Minute)
		}
		if list := recorded(t, path); len(list) != 3 || list[2].Count != 0 {
			t.Errorf("there is %+v", list)
		}
		// It does so too after a change of the rules.
		tr.Record(denial("a.example"))
		tr.Flush()
		tr.Record(denial("a.example"))
		if list := recorded(t, path); len(list) != 5 {
			t.Errorf("there is %+v", list)
		}
		if held := tr.holds(); held != 1 {
			t.Errorf("%d are held", held)
		}
	})
}

// holds counts the held kinds; a sweep may be due just now.
func (t *Log) holds() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.held)
}

// TestRefusalFlood checks that thousands of different names neither fill the log nor push out its
// contents, and do not hide a refused connection.
func TestRefusalFlood(t *testing.T) {
	path := filepath.Join(t.TempDir(), "network.jsonl")
	synctest.Test(t, func(t *testing.T) {
		log, err := audit.Open(path, audit.Options{})
		must(t, err)
		tr := New("box", log, slog.New(slog.DiscardHandler), func() {})
		tr.Record(spec.NetworkRecord{Event: spec.NetworkFlow, Verdict: spec.VerdictAllow, Name: "useful.example"})
		n, path64k := int64(0), strings.Repeat("/<", 32<<10)
		for range 3600 { // an hour
			for range 10 {
				r := denial(fmt.Sprintf("%d.%s.example", n, strings.Repeat("x", 200)))
				r.Event = []string{spec.NetworkLookup, spec.NetworkRequest, spec.NetworkFlow, spec.NetworkSecret}[n%4]
				r.Path, r.Reason = path64k, path64k
				tr.Record(r)
				n++
			}
			time.Sleep(time.Second)
		}
		tr.Record(spec.NetworkRecord{Event: spec.NetworkFlow, Verdict: spec.VerdictDeny, Name: "caught.example", Addr: netip.MustParseAddr("192.0.2.1")})
		if held := tr.holds(); held > maxHeld {
			t.Errorf("%d are held", held)
		}
		tr.Close()
		list := recorded(t, path)
		if list[0].Name != "useful.example" {
			t.Errorf("it begins with %+v", list[0])
		}
		caught := false
		for _, r := range list {
			caught = caught || r.Name == "caught.example"
		}
		if !caught {
			t.Error("the refused connection is not there")
		}
		lines, times := counts(list)
		if times != n+1 {
			t.Errorf("it tells of %d refusals, there were %d", times, n+1)
		}
		if lines > 4*(lineBurst+3600/10)+3600/60+3 {
			t.Errorf("in %d lines", lines)
		}
		if n := size(t, path) + size(t, path+".1"); n > 4*usualLine*(lineBurst+3600/10)*3/2 {
			t.Errorf("in %d bytes", n)
		}
	})
}

// TestPacketsHideNothing checks that a refused connection has its line at once, however many datagrams
// are refused.
func TestPacketsHideNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "network.jsonl")
	log, err := audit.Open(path, audit.Options{})
	must(t, err)
	tr := New("box", log, slog.New(slog.DiscardHandler), func() {})
	for n := range 2 * maxHeld {
		r := denial(fmt.Sprintf("%d.example", n))
		r.Event, r.Protocol = spec.NetworkFlow, []string{spec.ProtocolUDP, spec.ProtocolICMP, spec.ProtocolIP}[n%3]
		tr.Record(r)
	}
	r := denial("caught.example")
	r.Event, r.Protocol = spec.NetworkFlow, "tcp"
	tr.Record(r)
	tr.Record(spec.NetworkRecord{Event: spec.NetworkSuppressed, Verdict: spec.VerdictDeny, Suppressed: 7000})
	defer func() {
		if _, times := counts(recorded(t, path)); times != 2*maxHeld+1+7000 {
			t.Errorf("it tells of %d refusals", times)
		}
	}()
	defer tr.Close()
	list := recorded(t, path)
	if len(list) != lineBurst+1 || list[lineBurst].Name != "caught.example" {
		t.Errorf("%d records, the last %+v", len(list), list[len(list)-1])
	}
}

// TestAllowedIsNotCounted checks that every connection has its lines.
func TestAllowedIsNotCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "network.jsonl")
	tr := openTraffic(t, path)
	for range 20 {
		for _, state := range []string{spec.FlowOpened, spec.FlowClosed} {
			tr.Record(spec.NetworkRecord{Event: spec.NetworkFlow, State: state, Verdict: spec.VerdictAllow, Name: "a.example", Port: 443})
		}
	}
	if list := recorded(t, path); len(list) != 40 || list[0].State != spec.FlowOpened || list[39].State != spec.FlowClosed {
		t.Errorf("there are %d lines", len(list))
	}
}

// TestEndsAreNotCounted checks that an opened flow has a line for its end, however it ends. So a flow
// with an opening line and no end line is still open.
func TestEndsAreNotCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "network.jsonl")
	tr := openTraffic(t, path)
	for range 20 {
		for _, verdict := range []string{spec.VerdictDeny, spec.VerdictError} {
			tr.Record(spec.NetworkRecord{Event: spec.NetworkFlow, State: spec.FlowClosed, Verdict: verdict, Name: "a.example", Port: 443})
			tr.Record(spec.NetworkRecord{Event: spec.NetworkFlow, Verdict: verdict, Name: "a.example", Port: 443})
		}
	}
	list := recorded(t, path)
	ends := 0
	for _, r := range list {
		if r.State == spec.FlowClosed {
			ends++
		}
	}
	if ends != 40 || len(list) != 42 {
		t.Errorf("there are %d ends in %d lines", ends, len(list))
	}
}

// TestUselessIsCounted checks that connections over which nothing could pass are only counted. They cost
// their maker nothing, and must not push the rest out of the log.
func TestUselessIsCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "network.jsonl")
	tr := openTraffic(t, path)
	for range 20 {
		for _, verdict := range []string{spec.VerdictAllow, spec.VerdictError} {
			tr.Record(spec.NetworkRecord{Event: spec.NetworkFlow, Verdict: verdict, Name: "a.example", Port: 443})
		}
	}
	if list := recorded(t, path); len(list) != 2 {
		t.Errorf("there are %d lines", len(list))
	}
}

// passing records an allowed connection, and a request over it.
func passing(tr *Log, n int, name, path string) {
	r := spec.NetworkRecord{
		Event: spec.NetworkFlow, Sandbox: "box", Verdict: spec.VerdictAllow, Name: name, Port: 443, Protocol: "tls",
		Addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}), Rule: "allow " + name, Source: "sandbox", Reason: "a rule allows it",
	}
	r.State, r.Flow = spec.FlowOpened, fmt.Sprint("run-", n)
	tr.Record(r)
	q := r
	q.Event, q.State, q.Flow, q.Method, q.Path, q.Status = spec.NetworkRequest, "", "", fmt.Sprint("M", n), path, 200+n%100
	tr.Record(q)
	r.State, r.Up, r.Down, r.Duration = spec.FlowClosed, 1000, 10, int64(n)
	if n%3 == 0 {
		r.Verdict, r.Reason = spec.VerdictError, fmt.Sprint("broken off at ", n)
	}
	tr.Record(r)
}

// TestPassedFlood makes as many allowed connections and requests as it can, to one host or to many. It
// checks that they neither push earlier records out of the log, nor hide the destination of a
// concurrent upload, and that all of them are counted.
func TestPassedFlood(t *testing.T) {
	for _, what := range []string{"one host", "many hosts"} {
		t.Run(what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "network.jsonl")
			synctest.Test(t, func(t *testing.T) {
				log, err := audit.Open(path, audit.Options{})
				must(t, err)
				tr := New("box", log, slog.New(slog.DiscardHandler), func() {})
				passing(tr, 0, "before.example", "/taken")
				n := 1
				flood := func(times int) {
					for range times {
						name := "flood.example"
						if what == "many hosts" {
							name = fmt.Sprintf("h%d.flood.example", n%400)
						}
						passing(tr, n, name, fmt.Sprint("/", n, strings.Repeat("<", 900)))
						n++
					}
				}
				flood(20_000)
				passing(tr, n, "meanwhile.example", "/taken")
				n++
				for range 600 { // ten minutes
					flood(50)
					time.Sleep(time.Second)
				}
				tr.Close()
				if held := len(tr.passed.crowded); held != 0 {
					t.Errorf("%d flows that have ended are remembered", held)
				}
				seen := map[string]int{}
				var opened, closed, requests, up, told int64
				for _, r := range recorded(t, path) {
					seen[r.Name+r.Path]++
					times := max(r.Count, 1)
					switch {
					case r.State == spec.FlowOpened:
						opened += times
					case r.State == spec.FlowClosed:
						closed += times
						up += r.Up
					case r.Event == spec.NetworkRequest:
						requests += times
					default:
						t.Errorf("there is %+v", r)
					}
					if r.Count > 0 {
						told++
					}
				}
				if seen["before.example"] != 2 || seen["before.example/taken"] != 1 {
					t.Errorf("what was done before is not in the log: %v", seen)
				}
				if seen["meanwhile.example"] < 2 {
					t.Errorf("that something was sent meanwhile is not in the log: %v", seen)
				}
				if all := int64(n); opened != all || closed != all || requests != all || up != 1000*all {
					t.Errorf("of %d connections it tells of %d openings, %d ends with %d bytes, and %d requests", all, opened, closed, up, requests)
				}
				if told == 0 {
					t.Error("nothing was summed up")
				}
				if size := size(t, path) + size(t, path+".1"); size > 5<<20 {
					t.Errorf("it takes %d bytes", size)
				}
			})
		})
	}
}

// TestNothingIsPushedOut checks that records written just before a log file was full survive for five
// minutes of any flood, with names and paths of maximum length. The flood uses all kinds of
// lines at once: allowed traffic, the first of each destination, uses of a secret, refusals of
// each kind, and the lines that refill meanwhile.
func TestNothingIsPushedOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "network.jsonl")
	synctest.Test(t, func(t *testing.T) {
		log, err := audit.Open(path, audit.Options{MaxBytes: MaxBytes})
		must(t, err)
		tr := New("box", log, slog.New(slog.DiscardHandler), func() {})
		for size(t, path) < MaxBytes-4000 {
			tr.writeLine(spec.NetworkRecord{Event: spec.NetworkFlow, Verdict: spec.VerdictDeny, Name: strings.Repeat("a", 1000)})
		}
		passing(tr, 0, "before.example", "/taken")
		label := strings.Repeat(strings.Repeat("a", 60)+".", 3) + "example"
		passed := func(event, name string) spec.NetworkRecord {
			return spec.NetworkRecord{
				Event: event, Sandbox: "box", Verdict: spec.VerdictAllow, Name: name, Port: 443, Protocol: "HTTP/1.1",
				Addr: netip.MustParseAddr("192.0.2.1"), Rule: "allow **.example", Source: "sandbox", Method: "POST", Path: "/" + strings.Repeat("a", 500), Status: 200,
			}
		}
		flood := func(n int) {
			tr.Record(passed(spec.NetworkRequest, "one.example"))
			tr.Record(passed(spec.NetworkRequest, "two.example"))
			name := fmt.Sprint("h", n, ".", label)
			r := passed(spec.NetworkFlow, name)
			r.State, r.Flow = spec.FlowOpened, fmt.Sprint("run-", n)
			tr.Record(r)
			tr.Record(passed(spec.NetworkRequest, name))
			r.State = spec.FlowClosed
			tr.Record(r)
			r = passed(spec.NetworkSecret, name)
			r.Secret, r.Lease = "anthropic", "lease-0c8f38ea19e0"
			tr.Record(r)
			for _, event := range []string{spec.NetworkLookup, spec.NetworkFlow, spec.NetworkRequest, spec.NetworkSecret} {
				r = passed(event, "no-"+name)
				r.Verdict, r.Suggest = spec.VerdictDeny, "bothy policy allow box "+r.Name
				tr.Record(r)
			}
			r = passed(spec.NetworkFlow, name)
			r.Verdict, r.Protocol = spec.VerdictDeny, spec.ProtocolUDP
			tr.Record(r)
		}
		for n := range 3000 {
			flood(n)
		}
		for n := range 300 { // five minutes
			flood(3000 + n)
			time.Sleep(time.Second)
		}
		tr.Close()
		if !slices.ContainsFunc(recorded(t, path), func(r spec.NetworkRecord) bool { return r.Name == "before.example" && r.Path == "/taken" }) {
			t.Errorf("it is gone: %d and %d bytes were written since", size(t, path+".1"), size(t, path))
		}
	})
}

// size returns the length of a file, 0 if it does not exist.
func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	must(t, err)
	return info.Size()
}

// TestPassedFloodOfHosts checks that hosts beyond the limit share one line.
func TestPassedFloodOfHosts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "network.jsonl")
	synctest.Test(t, func(t *testing.T) {
		log, err := audit.Open(path, audit.Options{})
		must(t, err)
		tr := New("box", log, slog.New(slog.DiscardHandler), func() {})
		const all = 8 * maxDestinations
		for n := range all {
			passing(tr, n, fmt.Sprintf("h%d.example", n), "/")
		}
		if len(tr.passed.each) > maxDestinations || tr.many > maxPassed {
			t.Errorf("%d hosts are remembered, %d kinds are held", len(tr.passed.each), tr.many)
		}
		tr.Close()
		var up int64
		for _, r := range recorded(t, path) {
			up += r.Up
		}
		if up != 1000*all {
			t.Errorf("it tells of %d of %d bytes", up, 1000*all)
		}
	})
}

// TestRecordKind checks that time, generation, byte counts and duration do not distinguish kinds of
// records, and that every other field does.
func TestRecordKind(t *testing.T) {
	a := denial("a.example")
	b := a
	b.Time, b.Generation, b.Up, b.Down, b.Duration = time.Now(), 7, 1, 2, 3
	if kindOf(a) != kindOf(b) {
		t.Error("they are different")
	}
	for _, change := range []func(*spec.NetworkRecord){
		func(r *spec.NetworkRecord) { r.Port = 1 }, func(r *spec.NetworkRecord) { r.Verdict = spec.VerdictError },
		func(r *spec.NetworkRecord) { r.Reason = "x" }, func(r *spec.NetworkRecord) { r.Path = "/x" },
		func(r *spec.NetworkRecord) { r.Addr = netip.IPv6Loopback() }, func(r *spec.NetworkRecord) { r.Secret = "x" },
	} {
		c := a
		change(&c)
		if kindOf(a) == kindOf(c) {
			t.Errorf("%+v is the same", c)
		}
	}
}

// TestFullLog checks that the network is closed while the log cannot be written, and open again
// afterwards. The log then reports the missing records.
func TestFullLog(t *testing.T) {
	smalldisk.Test(t, "1m", testFullLog)
}

func testFullLog(t *testing.T, dir string) {
	path := filepath.Join(dir, "network.jsonl")
	changes := make(chan string, 10)
	log, err := audit.Open(path, audit.Options{})
	must(t, err)
	var tr *Log
	tr = New("box", log, slog.New(slog.DiscardHandler), func() { changes <- tr.PausedBecause() })
	defer tr.Close()
	g := &gate{}
	tr.PauseWhileBroken(g.pause)
	tr.Record(denial("before.example"))

	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 2<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("fill disk: %v", err)
	}
	for i := range 200 { // the last block of the log may have room
		tr.Record(spec.NetworkRecord{Event: spec.NetworkFlow, Verdict: spec.VerdictAllow, Name: fmt.Sprint(i, ".example")})
		if g.paused() != "" {
			break
		}
	}
	if why := g.paused(); !strings.Contains(why, "no space left on device") {
		t.Fatalf("it is paused by %q", why)
	}
	if why := <-changes; why != g.paused() {
		t.Errorf("who is told of it reads %q", why)
	}
	for i := range 500 {
		tr.Record(denial(fmt.Sprint(i, ".lost.example")))
	}
	must(t, os.Remove(ballast))
	if why := <-changes; why != "" {
		t.Errorf("there is room again, and it is paused by %q", why)
	}
	if g.paused() != "" || g.times != 2 {
		t.Errorf("the gateway is paused by %q, and was told %d times", g.paused(), g.times)
	}
	tr.Record(denial("after.example"))
	tr.Flush()

	var text []string
	list := recorded(t, path)
	for _, r := range list {
		line, err := json.Marshal(r)
		must(t, err)
		text = append(text, string(line))
	}
	whole := strings.Join(text, "\n")
	for _, want := range []string{"before.example", "after.example", audit.KindDropped} {
		if !strings.Contains(whole, want) {
			t.Errorf("%s is not in the log:\n%s", want, whole)
		}
	}
	if _, times := counts(list); times != 502 {
		t.Errorf("it tells of %d refusals:\n%s", times, whole)
	}
}

// BenchmarkFlow measures the cost of the two lines of a flow.
func BenchmarkFlow(b *testing.B) {
	log, err := audit.Open(filepath.Join(b.TempDir(), "network.jsonl"), audit.Options{})
	if err != nil {
		b.Fatal(err)
	}
	tr := New("box", log, slog.New(slog.DiscardHandler), func() {})
	defer tr.Close()
	r := spec.NetworkRecord{
		Event: spec.NetworkFlow, Sandbox: "box", Generation: 7, Verdict: spec.VerdictAllow, Name: "api.example.com", Port: 443, Protocol: "https",
		Addr: netip.MustParseAddr("192.0.2.1"), Rule: "allow api.example.com:443", Source: "sandbox", Reason: "a rule allows it",
	}
	for b.Loop() {
		r.State, r.Up, r.Down = spec.FlowOpened, 0, 0
		tr.Record(r)
		r.State, r.Up, r.Down = spec.FlowClosed, 1000, 2000
		tr.Record(r)
	}
}

// BenchmarkRefusals measures the cost of a refusal that is only counted.
func BenchmarkRefusals(b *testing.B) {
	log, err := audit.Open(filepath.Join(b.TempDir(), "network.jsonl"), audit.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for name, many := range map[string]int{"same": 1, "different": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			tr := New("box", log, slog.New(slog.DiscardHandler), func() {})
			defer tr.Close()
			names := make([]spec.NetworkRecord, min(many, 1<<14))
			for i := range names {
				names[i] = denial(fmt.Sprint(i, ".example"))
			}
			b.ResetTimer()
			for i := range b.N {
				tr.Record(names[i%len(names)])
			}
		})
	}
}
