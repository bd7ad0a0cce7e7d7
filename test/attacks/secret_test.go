package attacks

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
)

// writings are what a value could be written down as: in clear, in base64 at
// each alignment, in hexadecimal, reversed.
func writings(value string) map[string][]byte {
	out := map[string][]byte{"clear": []byte(value), "hex": []byte(hex.EncodeToString([]byte(value)))}
	for shift := range 3 {
		for name, e := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
			text := e.EncodeToString([]byte(strings.Repeat("x", shift) + value))
			// What stands at the ends depends on the neighbours.
			out[fmt.Sprintf("%s+%d", name, shift)] = []byte(text[4 : len(text)-4])
		}
	}
	return out
}

// absent complains about every spelling of the value that stands in data.
func absent(t *testing.T, where string, data []byte, value string) {
	t.Helper()
	for how, text := range writings(value) {
		if bytes.Contains(data, text) {
			t.Errorf("%s has the value, in %s", where, how)
		}
	}
}

// absentInFiles looks into every regular file below a directory.
func absentInFiles(t *testing.T, dir, value string) (files int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		absent(t, path, data, value)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return files
}

// absentInProcesses looks at what any process of the host was started with.
func absentInProcesses(t *testing.T, value string) (seen int) {
	t.Helper()
	for _, what := range []string{"cmdline", "environ"} {
		files, _ := filepath.Glob("/proc/[0-9]*/" + what)
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				continue // gone, or somebody else's
			}
			seen++
			absent(t, f, data, value)
		}
	}
	return seen
}

// TestSecretStaysOutside lends a secret and looks for its value everywhere but
// in the keeper's memory.
func TestSecretStaysOutside(t *testing.T) {
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
		if n := absentInProcesses(t, value); n < 10 {
			t.Errorf("only %d processes were looked at", n)
		}
		me := install(t, c, c.Work)
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
		if n := absentInFiles(t, c.State, value); n < 8 {
			t.Errorf("only %d files were looked at", n)
		}
		// Another value, another start, and the end of it.
		next := value[:20] + strings.Repeat("z", 20)
		run(c.RunInput(next+"\n", "secret", "set", "github"))
		run(c.Run("stop", "box"))
		run(c.Run("exec", "box", "printenv", "GH_TOKEN"))
		run(c.Run("secret", "revoke", "--all"))
		for _, v := range []string{value, next} {
			absentInFiles(t, c.State, v)
			absentInFiles(t, c.Home, v)
			absentInProcesses(t, v)
			absent(t, "what was said", []byte(said), v)
		}
	})
}

// TestSecretSearchBites makes sure that the test above can fail.
func TestSecretSearchBites(t *testing.T) {
	value := "ghp_0123456789abcdefghij"
	for _, text := range []string{
		value, "x" + value + "y", hex.EncodeToString([]byte(value)),
		base64.StdEncoding.EncodeToString([]byte("ab" + value + "cd")), base64.URLEncoding.EncodeToString([]byte("abc" + value)),
	} {
		found := false
		for _, s := range writings(value) {
			found = found || strings.Contains(text, string(s))
		}
		if !found {
			t.Errorf("%q is overlooked", text)
		}
	}
}
