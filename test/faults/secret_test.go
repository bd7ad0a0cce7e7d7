package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/test/harness"
)

// TestKillWhileSecretsChange kills commands that set a secret, the first one or a new value, and that
// lend it. The vault is intact each time: its values can be opened and lent, and the next command does
// its work. (Renewals of logins: internal/oauthfile TestSurvivesKill.)
func TestKillWhileSecretsChange(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		secrets := filepath.Join(c.State, "secrets")
		set := []string{"secret", "set", "one"}
		lease := []string{"secret", "lease", "one", "--sandbox", "box", "--host", "ci.example.com:443"}
		whole := c.RunInput("value-of-the-first\n", set...)
		if whole.Code != 0 {
			t.Fatal(whole)
		}
		const rounds = 8
		killed, length := 0, whole.Took
		for round := range rounds {
			if round%2 == 0 { // the key is created anew, too
				if err := os.RemoveAll(secrets); err != nil {
					t.Fatal(err)
				}
			}
			for _, args := range [][]string{set, lease} {
				delay := length * time.Duration(round+1) / rounds
				what := fmt.Sprintf("%q, killed after %v", args, delay)
				if killAfter(t, c, delay, fmt.Sprintf("value-of-round-%d\n", round), args...) {
					killed++
				} else { // it takes less time than the first did
					length = max(length/2, time.Millisecond)
				}
				if out := c.Must(t, "secret", "ls", "--json"); strings.Contains(out, `"name": "one"`) {
					if r := c.Run("secret", "revoke", "--all"); r.Code != 0 {
						t.Errorf("%s: %v", what, r)
					}
					if r := c.Run(lease...); r.Code != 0 {
						t.Errorf("%s: what is in the vault cannot be lent: %v", what, r)
					}
				}
				if r := c.RunInput("value-of-the-next\n", set...); r.Code != 0 {
					t.Errorf("%s: the next command: %v", what, r)
				}
				c.Must(t, "secret", "revoke", "--all")
			}
		}
		if killed == 0 {
			t.Error("every command ended before it was killed")
		}
		t.Logf("%d commands were killed", killed)
		if left, _ := filepath.Glob(filepath.Join(secrets, ".tmp-*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

// killAfter kills a command some time after its start, and reports whether that ended it.
func killAfter(t *testing.T, c *harness.Caller, delay time.Duration, input string, args ...string) bool {
	t.Helper()
	cmd := c.Command(t.Context(), args...)
	cmd.Stdin = strings.NewReader(input)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(delay, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	_ = cmd.Wait()
	return !cmd.ProcessState.Exited()
}
