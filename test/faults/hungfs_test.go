package faults

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/fusefs"
	"github.com/bothy-dev/bothy/test/harness"
)

// hungBound is how long a command may take while a file system hangs.
const hungBound = 90 * time.Second

// TestHungFileSystem makes a FUSE file system stop answering: a process that waits for it can be killed
// in one case, and cannot in the other. Commands about other sandboxes work. Commands about a sandbox on
// it return and name the directory. stop and rm do their work.
func TestHungFileSystem(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system here; as root the test runs as an ordinary user, too")
	}
	for _, tt := range []struct {
		name string
		hang func(*fusefs.FS)
	}{{"killable", (*fusefs.FS).StopReading}, {"unkillable", (*fusefs.FS).StopAnswering}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			harness.Each(t, func(t *testing.T, c *harness.Caller) { testHungFileSystem(t, c, tt.hang) })
		})
	}
}

func testHungFileSystem(t *testing.T, c *harness.Caller, hang func(*fusefs.FS)) {
	shared, beside, third := filepath.Join(c.Home, "shared"), filepath.Join(c.Home, "beside"), filepath.Join(c.Home, "third")
	for _, dir := range []string{shared, beside, third} {
		c.Mkdir(t, dir)
	}
	fs, err := fusefs.Mount(shared, c.UID, c.GID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fs.Close(); err != nil {
			t.Error(err)
		}
	})
	c.Must(t, "create", "--name", "hung", "shell", shared)
	c.Must(t, "exec", "hung", "sh", "-c", "cat "+fusefs.File+"; sleep 1000 > open 2>&1 &")
	c.Must(t, "create", "--name", "idle", "-v", shared+":/shared", "shell", third)
	c.Must(t, "create", "--name", "judged", "--workspace", "review", "shell", shared)
	c.Must(t, "create", "--name", "well", "shell", beside)
	c.Must(t, "exec", "well", "true")
	hang(fs)
	defer fs.GoOn()

	sideBySide(t, c, [][]string{
		{"exec", "well", "true"},
		{"inspect", "well"},
		{"checkpoint", "create", "well"},
		{"run", "--rm", "shell", beside, "--", "true"},
		{"system", "df"},
		{"prune", "-f"},
		{"doctor"},
		{"cost"},
		{"policy", "ls"},
		{"logs", "well"},
		{"inspect", "idle"},
		{"checkpoint", "ls", "hung"},
	}, func(r harness.Result) {
		if r.Code != 0 {
			t.Errorf("it does not work beside a file system that hangs: %v", r)
		}
	})
	sideBySide(t, c, [][]string{
		{"exec", "hung", "true"},
		{"exec", "idle", "true"},
		{"exec", "judged", "true"},
		{"checkpoint", "create", "hung"},
		{"fork", "hung"},
		{"cp", "hung:/etc/hostname", beside},
		{"diff", "judged"},
		{"apply", "judged"},
		{"create", "shell", shared},
		{"create", "-v", shared + ":/data", "shell", beside},
		{"cp", filepath.Join(shared, fusefs.File), "well:/tmp"},
		{"policy", "check", "--sandbox", "hung", "one.example:443"},
	}, func(r harness.Result) {
		if r.Code != spec.ExitSandbox || !strings.Contains(r.Stderr, shared+" does not answer") {
			t.Errorf("it does not say what hangs: %v", r)
		}
		understood(t, r)
	})
	sideBySide(t, c, [][]string{{"ls"}}, func(r harness.Result) {
		for line := range strings.Lines(r.Stdout) {
			name, _, _ := strings.Cut(line, " ")
			if silent := name == "hung" || name == "judged"; silent != strings.Contains(line, "(does not answer)") {
				t.Errorf("ls: %s", line)
			}
		}
	})
	sideBySide(t, c, [][]string{{"stop", "hung"}, {"stop", "well"}, {"rm", "-f", "idle"}, {"rm", "-f", "judged"}}, func(r harness.Result) {
		if r.Code != 0 && !strings.Contains(r.Stderr, "is stopped, but every change") {
			t.Errorf("it does not end: %v", r)
		}
	})
	for line := range strings.FieldsSeq(c.Must(t, "ls", "-q")) {
		if line == "idle" || line == "judged" {
			t.Errorf("%s is still there", line)
		}
	}
	if status := c.Inspect(t, "hung").Status; status.State != spec.Stopped {
		t.Errorf("hung is %s after stop", status.State)
	}
	fs.GoOn()
	var r harness.Result
	for end := time.Now().Add(hungBound); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if r = c.Run("exec", "hung", "cat", fusefs.File); r.Code == 0 { // processes that look have ended
			break
		}
	}
	if r.Stdout != fusefs.Content {
		t.Errorf("when the file system answers again: %v", r)
	}
}

// sideBySide runs commands concurrently, and has each result checked. A command that takes too long is
// abandoned: it may hang where it cannot be killed.
func sideBySide(t *testing.T, c *harness.Caller, commands [][]string, judge func(harness.Result)) {
	t.Helper()
	results := make([]*harness.Result, len(commands))
	var all sync.WaitGroup
	for i, args := range commands {
		all.Go(func() { results[i] = runBounded(c, args) })
	}
	all.Wait()
	for i, r := range results {
		if r == nil {
			t.Errorf("bothy %v hangs", commands[i])
			continue
		}
		judge(*r)
	}
}

func runBounded(c *harness.Caller, args []string) *harness.Result {
	ctx, cancel := context.WithTimeout(context.Background(), hungBound)
	defer cancel()
	var out, said bytes.Buffer
	cmd := c.Command(ctx, args...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &said, time.Second
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Run() }()
	select {
	case <-ended:
	case <-time.After(hungBound + 5*time.Second):
		return nil
	}
	if ctx.Err() != nil {
		return nil
	}
	return &harness.Result{Args: args, Code: cmd.ProcessState.ExitCode(), Stdout: out.String(), Stderr: said.String()}
}
