package attacks

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
)

// TestC6SecretStaysOutside lends a secret and looks for its value everywhere except in the keeper's
// memory.
func TestC6SecretStaysOutside(t *testing.T) {
	harness.AsUser(t)
	harness.EachAlone(t, func(t *testing.T, c *harness.Caller) {
		var b [24]byte
		rand.Read(b[:])
		value := "ghp_" + hex.EncodeToString(b[:])[:36]
		said := ""
		run := func(r harness.Result) string {
			t.Helper()
			if r.Code != 0 {
				t.Fatalf("%v", r)
			}
			said += r.Stdout + r.Stderr
			return r.Stdout
		}
		run(c.RunInput(value+"\n", "secret", "set", "github"))
		run(c.Run("run", "--name", "box", "--secret", "github", "-d", "shell", c.Work, "--", "sleep", "1000"))
		inside := run(c.Run("exec", "box", "sh", "-c", `env; echo "in a file: $GH_TOKEN" > $HOME/token; echo "$GH_TOKEN" > /var/token; cat /proc/*/environ /proc/*/cmdline | tr "\0" "\n"`))
		if !strings.Contains(inside, "GH_TOKEN=ghp_") || !strings.Contains(inside, "GITHUB_TOKEN=ghp_") {
			t.Fatalf("there is no placeholder inside:\n%s", inside)
		}
		if n := harness.AbsentInProcesses(t, value); n < 10 {
			t.Errorf("only %d processes were looked at", n)
		}
		me := c.Plant(t, c.Work)
		wanted := []string{value}
		if os.Geteuid() == 0 { // only root can read a keeper's memory, to know what to look for
			wanted = append(wanted, authorityKey(t, c.Machine(t, "box").Keeper))
		}
		absentInside(t, c, "box", me, wanted...)
		for _, args := range [][]string{
			{"secret", "ls"},
			{"secret", "ls", "--json"},
			{"secret", "audit"},
			{"inspect", "box"},
			{"ls", "--json"},
			{"logs", "box"},
			{"logs", "--source", "events", "box"},
			{"logs", "--source", "network", "box"},
			{"logs", "--source", "keeper", "box"},
			{"top", "--once", "--json"},
		} {
			run(c.Run(args...))
		}
		if n := harness.AbsentInFiles(t, c.State, value); n < 8 {
			t.Errorf("only %d files were looked at", n)
		}
		absentInCheckpoint(t, c, wanted...)
		for _, as := range []string{"", "root"} {
			args := []string{"exec"}
			if as != "" {
				args = append(args, "-u", as)
			}
			out := run(c.Run(append(args, "box", me, "intruder", "search", value, "/", "/proc/1/root")...))
			if strings.Contains(out, "CONTENT") {
				t.Errorf("found inside as %q:\n%s", as, out)
			}
		}
		// Another value, another start, and the end of the lease.
		next := value[:20] + strings.Repeat("z", 20)
		run(c.RunInput(next+"\n", "secret", "set", "github"))
		run(c.Run("stop", "box"))
		run(c.Run("exec", "box", "printenv", "GH_TOKEN"))
		run(c.Run("secret", "revoke", "--all"))
		for _, v := range []string{value, next} {
			harness.AbsentInFiles(t, c.State, v)
			harness.AbsentInFiles(t, c.Home, v)
			harness.AbsentInProcesses(t, v)
			harness.Absent(t, "what was said", []byte(said), v)
		}
	})
}

// absentInCheckpoint looks for values in all memory of the inside, as a full checkpoint has it, in its
// files and in state that is stored outside: the lent secrets (C6), and the key of the authority that
// the inside trusts (C11).
func absentInCheckpoint(t *testing.T, c *harness.Caller, values ...string) {
	t.Helper()
	c.Must(t, "exec", "-u", "root", "box", "sh", "-c", "echo $((40+2))-is-in-memory > /dev/shm/bait; sleep 1000 < /dev/shm/bait &")
	c.Must(t, "checkpoint", "create", "--full", "box", "whole")
	images := 0
	for _, dir := range []string{c.State, c.Home} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil
			}
			b, err := os.ReadFile(path)
			if bytes.Contains(b, []byte("42-is-in-memory")) {
				images++
			}
			for _, v := range values {
				harness.Absent(t, path, b, v)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if images == 0 {
		t.Error("the memory of the inside is in no file that was looked into")
	}
	for _, v := range values {
		harness.AbsentInProcesses(t, v)
	}
}

// TestSecretSearchBites checks that the test above can fail.
func TestSecretSearchBites(t *testing.T) {
	harness.AsUser(t)
	value := "ghp_0123456789abcdefghij"
	for _, text := range []string{
		value, "x" + value + "y", hex.EncodeToString([]byte(value)),
		base64.StdEncoding.EncodeToString([]byte("ab" + value + "cd")), base64.URLEncoding.EncodeToString([]byte("abc" + value)),
	} {
		found := false
		for _, s := range harness.Writings(value) {
			found = found || strings.Contains(text, string(s))
		}
		if !found {
			t.Errorf("%q is overlooked", text)
		}
	}
}
