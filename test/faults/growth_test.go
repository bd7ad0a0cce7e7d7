package faults

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
)

// growthVar is the number of rounds of TestGrowth. A sentry varies by 5 MB and more, so that only
// thousands of rounds (make soak) show a small leak.
const growthVar = "BOTHY_GROWTH_ROUNDS"

// Bounds of the growth after the warm-up, in kilobytes. Measured over 2,100 rounds: sentry 16 to
// 21 MB, keeper 10 to 21 MB, both without a trend.
const (
	growthWarmUp = 20
	growthRounds = 20
	growthBound  = 24 << 10
)

// TestGrowth makes a sandbox start a program, ask a server and make a checkpoint, again and again. The
// memory of its sentry and of its keeper stays within bounds.
func TestGrowth(t *testing.T) {
	harness.Sweep(t, "soak")
	t.Parallel()
	rounds := growthRounds
	if n, err := strconv.Atoi(os.Getenv(growthVar)); err == nil {
		rounds = n
	}
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "here") })}
		go func() { _ = server.Serve(l) }()
		defer server.Close()
		port := l.Addr().(*net.TCPAddr).Port
		c.Must(t, "create", "--name", "busy", "--allow-host-port", strconv.Itoa(port), "shell", c.Work)
		ask := fmt.Sprintf(`exec 3<>/dev/tcp/host.bothy/%d && printf 'GET / HTTP/1.0\r\nHost: host.bothy\r\n\r\n' >&3 && cat <&3; echo $RANDOM > f`, port)
		work := func(n int) {
			for range n {
				if out := c.Must(t, "exec", "busy", "bash", "-c", ask); !strings.Contains(out, "here") {
					t.Fatalf("no answer: %s", out)
				}
				c.Must(t, "checkpoint", "create", "busy")
			}
		}
		work(growthWarmUp)
		sentry, keeper := find(c, theSentry, nil), find(c, theKeeper, nil)
		before := [2]int{anonymous(t, sentry), anonymous(t, keeper)}
		work(rounds)
		after := [2]int{anonymous(t, sentry), anonymous(t, keeper)}
		t.Logf("after %d rounds: sentry %d → %d kB, keeper %d → %d kB", rounds, before[0], after[0], before[1], after[1])
		for i, name := range []string{"sentry", "keeper"} {
			if after[i]-before[i] > growthBound {
				t.Errorf("the %s grew from %d to %d kB in %d rounds", name, before[i], after[i], rounds)
			}
		}
	})
}

// anonymous returns the memory of a process that no file backs, in kilobytes.
func anonymous(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "RssAnon:" {
			n, _ := strconv.Atoi(words[1])
			return n
		}
	}
	t.Fatal("no RssAnon")
	return 0
}
