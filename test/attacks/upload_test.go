package attacks

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/test/harness"
)

// drop is a server that accepts any data from any program.
type drop struct {
	at        netip.AddrPort
	got, open atomic.Int64 // bytes; connections
}

func dropServer(t *testing.T, at netip.Addr) *drop {
	t.Helper()
	l, err := net.Listen("tcp", netip.AddrPortFrom(at, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	d := &drop{at: netip.MustParseAddrPort(l.Addr().String())}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d.open.Add(1)
			go func() {
				defer d.open.Add(-1)
				defer c.Close()
				buf := make([]byte, 64<<10)
				for {
					n, err := c.Read(buf)
					d.got.Add(int64(n))
					if err != nil {
						return
					}
				}
			}()
		}
	}()
	return d
}

// all returns how many bytes arrived, once nothing arrives any more.
func (d *drop) all() int64 {
	for last := int64(-1); last != d.got.Load() || d.open.Load() > 0; time.Sleep(100 * time.Millisecond) {
		last = d.got.Load()
	}
	return d.got.Load()
}

// upTo is all, once at least this much has arrived. It may be on its way for a while.
func (d *drop) upTo(want int64) int64 {
	harness.Comes(harness.Moment, func() bool { return d.got.Load() >= want })
	return d.all()
}

// TestA18UploadsAreBounded checks at the receiver that the uploads of a rule with max_upload are bounded
// over the sandbox's lifetime: over many connections at once, a stop, the death of its keeper in the
// middle, a checkpoint, and other limits. A fork and a later copy start with the amount already sent.
func TestA18UploadsAreBounded(t *testing.T) {
	harness.AsUser(t)
	at := ownAddress(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		drop := dropServer(t, at)
		server := drop.at
		const limit = 1 << 20
		const most = limit / 4 // of it may be lost: a block by a death, and the buffers of connections that are cut
		allow := func(name string, size int) {
			c.Must(t, "policy", "allow", server.String(), "--max-upload", fmt.Sprint(size), "--sandbox", name)
		}
		// pour makes some programs inside send this many bytes each, to the allowed server.
		pour := func(name string, bytes int) {
			c.Run("exec", name, "bash", "-c", fmt.Sprintf(
				`for i in 1 2 3; do { head -c %d /dev/zero >/dev/tcp/%s/%d; } 2>/dev/null & done; wait`, bytes, server.Addr(), server.Port()))
		}
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		allow("box", limit)
		pour("box", 1000)
		if n := drop.upTo(3000); n != 3000 {
			t.Fatalf("%d bytes arrived, of 3000", n)
		}
		c.Must(t, "checkpoint", "create", "box", "begin")

		// The keeper dies while something is sent.
		done := make(chan struct{})
		go func() {
			defer close(done)
			pour("box", limit/8)
		}()
		harness.WaitFor(t, harness.Timeout, "something to arrive", func() bool { return drop.got.Load() > 3000 })
		if err := syscall.Kill(c.Machine(t, "box").Keeper, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-done
		before := drop.all()
		for _, after := range []func(){
			func() {},
			func() { c.Must(t, "stop", "box") },
			func() { c.Must(t, "checkpoint", "restore", "-f", "box", "begin") },
			func() { c.Must(t, "policy", "rm", server.String(), "--sandbox", "box"); allow("box", limit) },
		} {
			after()
			pour("box", limit)
		}
		total := drop.upTo(limit - most)
		if total > limit || total < limit-most {
			t.Errorf("%d bytes arrived, %d of them before the keeper died; %d may", total, before, limit)
		}

		// The check names the command that would allow more, and the amount so far.
		said := c.Run("policy", "check", server.String(), "--sandbox", "box")
		command := fmt.Sprintf("bothy policy allow %s --max-upload 2MiB --sandbox box", server)
		if said.Code != 3 || !strings.Contains(said.Stdout, "used up") || !strings.Contains(said.Stdout, command) {
			t.Errorf("check: %v", said)
		}
		if out := c.Must(t, "policy", "ls", "--sandbox", "box"); !strings.Contains(out, "(1 MiB so far)") {
			t.Errorf("ls: %s", out)
		}
		if out := c.Must(t, "policy", "log", "box"); !strings.Contains(out, command) {
			t.Errorf("log: %s", out)
		}

		// A fork is not a way around it either.
		c.Must(t, "fork", "box", "--name", "again")
		pour("again", 1000)
		if n := drop.all(); n != total {
			t.Errorf("a fork sends %d bytes", n-total)
		}
		allow("again", limit+10)
		pour("again", 1000)
		if n := drop.upTo(total + 10); n != total+10 {
			t.Errorf("with 10 bytes more a fork sends %d", n-total)
		}
		allow("again", 10)
		pour("again", 1000)
		if n := drop.all(); n != total+10 {
			t.Errorf("with less a fork sends %d", n-total-10)
		}

		// An unreadable record does not count as zero.
		c.Must(t, "stop", "box")
		file := filepath.Join(c.Inspect(t, "box").Directory, "uploads.json")
		c.Write(t, file, `{"version":1,"uploads":[`)
		if r := c.Run("exec", "box", "true"); r.Code == 0 || !strings.Contains(r.Stderr, "uploads.json") {
			t.Errorf("it starts with a damaged file: %v", r)
		}
		c.Must(t, "rm", "-f", "box", "again")
	})
}
