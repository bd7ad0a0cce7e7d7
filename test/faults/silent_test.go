package faults

import (
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
)

// resolves reports whether a sandbox may look up a name: the gateway answers for names that the
// rules allow, without asking a name server.
func resolves(t *testing.T, c *harness.Caller, sandbox, name string) bool {
	t.Helper()
	return c.Run("exec", sandbox, "getent", "hosts", name).Code == 0
}

// TestSilentKeeper stops (SIGSTOP) the keeper of one of two sandboxes. Changes of rules reach the other
// and name the silent one, which applies them before it lets anything new through. Every command about
// the silent one ends, and reports why.
func TestSilentKeeper(t *testing.T) {
	harness.AsUser(t)
	t.Parallel()
	for _, name := range harness.Callers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := harness.New(t, name)
			c.Must(t, "policy", "allow", "one.example:443", "two.example:443")
			c.Must(t, "create", "--name", "hung", "shell", c.Work)
			c.Must(t, "exec", "hung", "true")
			keeper := find(c, theKeeper, nil)
			beside := filepath.Join(c.Home, "beside")
			c.Mkdir(t, beside)
			c.Must(t, "create", "--name", "well", "shell", beside)
			for _, sandbox := range []string{"hung", "well"} {
				if !resolves(t, c, sandbox, "one.example") {
					t.Fatalf("%s does not resolve what is allowed", sandbox)
				}
			}
			if err := syscall.Kill(keeper, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			defer syscall.Kill(keeper, syscall.SIGCONT)
			for _, change := range [][]string{{"policy", "deny", "one.example"}, {"policy", "allow", "three.example:443"}} {
				r := c.Run(change...)
				if r.TimedOut || r.Code != 1 || !strings.Contains(r.Stderr, "sandbox hung") || strings.Contains(r.Stderr, "sandbox well") {
					t.Errorf("the silent sandbox is not named: %v", r)
				}
				understood(t, r)
			}
			if resolves(t, c, "well", "one.example") || !resolves(t, c, "well", "three.example") {
				t.Error("the rules do not hold in the sandbox that answers")
			}
			var asking sync.WaitGroup
			for _, args := range [][]string{
				{"exec", "--timeout", "3s", "hung", "true"},
				{"cost", "hung"},
				{"fork", "hung"},
				{"save", "hung", "kept"},
				{"cp", "hung:/etc/hostname", c.Work},
				{"ls"},
				{"inspect", "hung"},
			} {
				asking.Go(func() {
					r := c.Run(args...)
					if r.TimedOut {
						t.Errorf("it waits for a keeper that does not answer: %v", r)
					}
					if args[0] != "ls" && (r.Code == 0 || !strings.Contains(r.Stderr, "hung does not answer")) {
						t.Errorf("it does not say what it waited for: %v", r)
					}
					understood(t, r)
				})
			}
			asking.Wait()
			if err := syscall.Kill(keeper, syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			if resolves(t, c, "hung", "one.example") {
				t.Error("the first look after it goes on passes by the rules from before")
			}
			if !resolves(t, c, "hung", "three.example") {
				t.Error("what was allowed meanwhile is not")
			}
		})
	}
}
