package faults

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
)

// keeping is a command that copies or restores the state of a sandbox.
type keeping struct {
	args    []string
	at      string // the path that shows the stage, below the state directory
	victims []string
	// The possible states of the sandbox afterwards, and of the copy that may exist.
	box, copy string
}

var keepings = []keeping{
	{args: []string{"checkpoint", "create", "box"}, at: "sandboxes/*/checkpoints/.new-*", victims: []string{theCommand, theKeeper}, box: "two"},
	{args: []string{"checkpoint", "create", "--full", "box"}, at: "sandboxes/*/checkpoints/.new-*/memory/pages.img", victims: []string{theCommand, theKeeper}, box: "two"},
	{args: []string{"fork", "--name", "copy", "box"}, at: "sandboxes/*/checkpoints/.new-memory-*/pages.img", victims: []string{theCommand, theKeeper}, box: "two", copy: "two"},
	{args: []string{"fork", "--files", "--checkpoint", "one", "--name", "copy", "box"}, at: "sandboxes/.new-*/home", victims: []string{theCommand}, box: "two", copy: "one"},
	{args: []string{"save", "box", "made"}, at: "templates/.new-*", victims: []string{theCommand}, box: "two"},
	{args: []string{"checkpoint", "export", "-o", "FILE", "box", "one"}, at: "../exported*", victims: []string{theCommand}, box: "two"},
	{args: []string{"checkpoint", "import", "--name", "copy", "FILE"}, at: "imports/stage/*", victims: []string{theCommand}, box: "two", copy: "one"},
	{args: []string{"checkpoint", "import", "--name", "copy", "FILE"}, at: "sandboxes/.new-*/home", victims: []string{theCommand}, box: "two", copy: "one"},
	{args: []string{"checkpoint", "restore", "-f", "box", "one"}, at: "sandboxes/*/checkpoints/.new-*", victims: []string{theCommand}, box: "one two"},
	{args: []string{"checkpoint", "restore", "-f", "box", "one"}, at: "sandboxes/*/checkpoints/restoring.json", victims: []string{theCommand}, box: "one"},
	{args: []string{"apply", "box"}, at: "sandboxes/*/review/*/applying.json", victims: []string{theCommand}, box: "two"},
}

// TestKillWhileKeeping kills when the disk shows a stage of a checkpoint, a fork, a template or
// applied changes. Each sandbox then holds all of one state. The same command sweeps the leftovers,
// and works.
func TestKillWhileKeeping(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		file := filepath.Join(c.Base, "exported")
		holds := func(name, want string) {
			t.Helper()
			r := recovers(t, c, "exec", name, "sh", "-c", "cat ~/many/* many/* /opt/at | sort | uniq -c")
			f := strings.Fields(r.Stdout)
			if len(f) != 2 || f[0] != "121" || !slices.Contains(strings.Fields(want), f[1]) {
				t.Errorf("%s does not hold all of %s and nothing else: %v", name, want, r)
			}
		}
		write := func(what string) {
			if r := c.Sh("box", "", "mkdir -p ~/many many; for i in $(seq 60); do echo "+what+" > many/$i; echo "+what+" > ~/many/$i; done"); r.Code != 0 {
				t.Fatal(r)
			}
			if r := c.Sh("box", "root", "echo "+what+" > /opt/at"); r.Code != 0 {
				t.Fatal(r)
			}
			c.Must(t, "checkpoint", "create", "box", what)
		}
		c.Must(t, "create", "--name", "box", "--workspace", "review", "shell", c.Work)
		write("one")
		write("two")
		struck := 0
		for _, k := range keepings {
			args := slices.Clone(k.args)
			if i := slices.Index(args, "FILE"); i >= 0 {
				args[i] = file
			}
			for _, victim := range k.victims {
				r, hit := strike(t, c, victim, exists(c, k.at), args...)
				if hit {
					struck++
				} else {
					t.Logf("%q ended before the %s was killed", args, victim)
				}
				if victim != theCommand {
					explained(t, r)
				}
				holds("box", k.box)
				there := strings.Contains(recovers(t, c, "ls", "-q").Stdout, "copy\n")
				if there {
					holds("copy", k.copy)
					c.Must(t, "rm", "-f", "copy")
				}
				if there && k.copy == "" || r.Code == 0 && k.copy != "" && !there {
					t.Errorf("there is a copy: %v", there)
				}
				c.Must(t, args...)
				if k.copy != "" {
					holds("copy", k.copy)
					c.Must(t, "rm", "-f", "copy")
				}
				if args[1] == "restore" {
					holds("box", "one")
					c.Must(t, "checkpoint", "restore", "-f", "--discard", "box", "two")
				}
				left, _ := filepath.Glob(filepath.Join(c.State, k.at))
				if args[1] != "export" && len(left) > 0 {
					t.Errorf("left behind: %q", left)
				}
				if t.Failed() {
					t.Fatalf("%q, when the %s was killed at %s (%v): %v", args, victim, k.at, hit, r)
				}
			}
		}
		t.Logf("struck %d times", struck)
		left, _ := filepath.Glob(filepath.Join(c.Work, ".*"))
		if got := strings.Count(readFile(filepath.Join(c.Work, "many/1"))+readFile(filepath.Join(c.Work, "many/60")), "two\n"); got != 2 || len(left) > 0 {
			t.Errorf("applied are %d, left is %q", got, left)
		}
		c.Must(t, "rm", "-f", "--all")
		settled(t, c, 0)
		c.NothingLeft(t)
		if left, err := os.ReadDir(filepath.Join(c.State, "sandboxes")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
}
