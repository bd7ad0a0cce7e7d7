package test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/client"
	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/harness"
)

// clientTest runs a test as both users, with a client and a project.
func clientTest(t *testing.T, test func(t *testing.T, c *client.Client, proj string)) {
	needWall(t)
	t.Parallel()
	asBoth(t, func(t *testing.T) {
		l := newLodging(t)
		test(t, &client.Client{Program: filepath.Join(lab.bin, "bothy"), Env: l.env}, l.proj)
	})
}

func TestClient(t *testing.T) {
	harness.AsUser(t)
	clientTest(t, func(t *testing.T, c *client.Client, proj string) {
		ctx := t.Context()
		sb, err := c.Create(ctx, client.Sandbox{
			Name: "worker", Agent: "shell", Workspaces: []string{proj}, Disk: "2g", Pids: 500,
			Budget: spec.Budget{Tokens: 1000, USD: 0.5}, Checkpoint: "10m",
			Env: map[string]string{"KIND": "made by\na program", "HOME_OF": "x=y", "PATH_INFO": ""},
		})
		if err != nil || sb.Name != "worker" || sb.Limits.Disk != 2<<30 || sb.Budget != (spec.Budget{Tokens: 1000, USD: 0.5}) || len(sb.Workspaces) != 1 || sb.Workspaces[0].Source != proj {
			t.Fatalf("%+v, %v", sb, err)
		}
		if sb, err := c.Create(ctx, client.Sandbox{Agent: "shell", Lend: []string{"no-such-tool"}}); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("lent what there is not: %+v, %v", sb, err)
		}
		if _, err := c.Create(ctx, client.Sandbox{Name: "flagged", Agent: "--help"}); err == nil {
			t.Error("an agent is taken for an option")
		}
		if _, err := c.Create(ctx, client.Sandbox{Name: "worker", Agent: "shell"}); !errors.Is(err, spec.ErrConflict) {
			t.Errorf("the same name again: %v", err)
		}
		r, err := c.Exec(ctx, "worker", client.Command{
			Args: []string{"sh", "-c", `echo "$KIND|$HOME_OF|$TOKEN|$BOTHY_WORD|$(pwd)"; echo complaint >&2; cat; exit 42`},
			Env:  map[string]string{"TOKEN": "of the\ncommand", "BOTHY_WORD": "w", "LD_PRELOAD": "", "BOTHY_HOME": "/nowhere"}, Workdir: "/opt", Stdin: strings.NewReader("input"),
		})
		if want := "made by\na program|x=y|of the\ncommand|w|/opt\ncomplaint\ninput"; err != nil || r.ExitCode != 42 || r.Output != want {
			t.Errorf("%+v, %v", r, err)
		}
		var out, complaints bytes.Buffer
		r, err = c.Exec(ctx, "worker", client.Command{Args: []string{"sh", "-c", "echo out; echo err >&2"}, Stdout: &out, Stderr: &complaints})
		if err != nil || r.ExitCode != 0 || out.String() != "out\n" || complaints.String() != "err\n" || r.Output != "" {
			t.Errorf("%+v, %q, %q, %v", r, &out, &complaints, err)
		}
		list, err := c.List(ctx)
		if err != nil || len(list) != 1 || list[0].Status != "running" || list[0].Workspaces[0] != proj {
			t.Errorf("%+v, %v", list, err)
		}
		if err := errors.Join(c.Stop(ctx, "worker"), c.Stop(ctx, "worker"), c.Remove(ctx, "worker")); err != nil {
			t.Error(err)
		}
		if err := c.Remove(ctx, "worker"); !errors.Is(err, spec.ErrNotFound) || spec.Hint(err) == "" {
			t.Errorf("removed twice: %v, hint %q", err, spec.Hint(err))
		}
	})
}

// toBegin are the time limits for a command that must report that it has started. They are tried in
// order: a limit may be too short on a busy machine.
var toBegin = []time.Duration{2 * time.Second, 10 * time.Second, time.Minute}

// TestClientErrors checks that Bothy's own failures differ from those of the program inside, which may
// end with the same codes.
func TestClientErrors(t *testing.T) {
	harness.AsUser(t)
	clientTest(t, func(t *testing.T, c *client.Client, proj string) {
		ctx := t.Context()
		if _, err := c.Exec(ctx, "nobody", client.Command{Args: []string{"true"}}); !errors.Is(err, spec.ErrNotFound) {
			t.Errorf("no sandbox: %v", err)
		}
		if _, err := c.Create(ctx, client.Sandbox{Name: "worker", Agent: "shell", Workspaces: []string{proj}}); err != nil {
			t.Fatal(err)
		}
		for _, code := range []int{1, 4, 124, 125, 127, 143} {
			r, err := c.Exec(ctx, "worker", client.Command{Args: []string{"sh", "-c", "echo 'bothy: error: not so' >&2; exit $0", strconv.Itoa(code)}})
			if err != nil || r.ExitCode != code {
				t.Errorf("a program that ends with %d: %+v, %v", code, r, err)
			}
		}
		if _, err := c.Exec(ctx, "worker", client.Command{Args: []string{"no-such-program"}}); !errors.Is(err, spec.ErrNoSuchBinary) {
			t.Errorf("no program: %v", err)
		}
		var r client.Result
		var err error
		for _, limit := range toBegin {
			r, err = c.Exec(ctx, "worker", client.Command{Args: []string{"sh", "-c", "echo begun; sleep 43210"}, Timeout: limit})
			if r.Output != "" {
				break
			}
		}
		if !errors.Is(err, spec.ErrTimeout) || r.ExitCode != spec.ExitTimeout || r.Output != "begun\n" {
			t.Errorf("too long: %+v, %v", r, err)
		}
		ctx, cancel := context.WithCancelCause(ctx)
		why := errors.New("enough")
		time.AfterFunc(time.Second, func() { cancel(why) })
		if _, err := c.Exec(ctx, "worker", client.Command{Args: []string{"sleep", "43211"}}); !errors.Is(err, why) {
			t.Errorf("cancelled: %v", err)
		}
		r, err = c.Exec(t.Context(), "worker", client.Command{Args: []string{"sh", "-c", "for i in $(seq 60); do ps -eo args | grep -q '[s]leep 4321' || exit 0; sleep 1; done; exit 1"}})
		if err != nil || r.ExitCode != 0 {
			t.Errorf("what was ended goes on: %+v, %v", r, err)
		}
		none := &client.Client{Program: "/no/such/bothy"}
		if _, err := none.List(t.Context()); err == nil || !strings.Contains(err.Error(), "/no/such/bothy") {
			t.Errorf("no bothy: %v", err)
		}
	})
}

// countSleeps counts the sleep processes that TestLoopSandbox started and that still run.
const countSleeps = `cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\000' '\n' | grep -c '^3210[1-9]$' || true`

// TestLoopSandbox checks the calls for loops: repeating a step reuses its sandbox, and each loop
// has its own.
func TestLoopSandbox(t *testing.T) {
	clientTest(t, func(t *testing.T, c *client.Client, proj string) {
		ctx := t.Context()
		var names []string
		for _, id := range []string{"7", "7", "7-shell", "8"} {
			name, err := c.CreateLoopSandbox(ctx, id, "shell", proj)
			if err != nil || name != "loop-"+id+"-shell" {
				t.Fatalf("%q, %v", name, err)
			}
			names = append(names, name)
		}
		if _, err := c.CreateLoopSandbox(ctx, "7", "shell", t.TempDir()); !errors.Is(err, spec.ErrConflict) {
			t.Errorf("another directory: %v", err)
		}
		code, output, err := c.ExecInSandbox(ctx, names[0], []string{"sh", "-c", "echo $A in $(pwd); exit 3"}, client.ExecOptions{
			Env: map[string]string{"A": "b"}, WorkDir: "/tmp", Timeout: time.Minute,
		})
		if code != 3 || output != "b in /tmp\n" || err != nil {
			t.Errorf("%d, %q, %v", code, output, err)
		}
		// The timeout ends all processes of the command, including one that left its session.
		for _, limit := range toBegin {
			code, output, err = c.ExecInSandbox(ctx, names[0], []string{"sh", "-c", "sleep 32101 & (setsid sleep 32102 &); until [ $(" + countSleeps + ") = 2 ]; do sleep 0.1; done; echo begun; sleep 32103"}, client.ExecOptions{Timeout: limit})
			if strings.Contains(output, "begun") {
				break
			}
		}
		output, _ = strings.CutSuffix(output, "Terminated\n") // a shell may live long enough to report this of its child
		if code != spec.ExitTimeout || output != "begun\n" || err != nil {
			t.Errorf("too long: %d, %q, %v", code, output, err)
		}
		code, output, err = c.ExecInSandbox(ctx, names[0], []string{"sh", "-c", countSleeps}, client.ExecOptions{Timeout: time.Minute})
		if code != 0 || output != "0\n" || err != nil {
			t.Errorf("what was ended goes on: %d, %q, %v", code, output, err)
		}
		if err := errors.Join(c.DestroyLoopSandbox(ctx, "7"), c.DestroyLoopSandbox(ctx, "7")); err != nil {
			t.Error(err)
		}
		list, err := c.List(ctx)
		if err != nil || len(list) != 2 {
			t.Errorf("left are %+v, %v", list, err)
		}
		for range 2 { // by another of its names
			if name, err := c.CreateLoopSandbox(ctx, "9", "cursor-agent", proj); err != nil || name != "loop-9-cursor-agent" {
				t.Errorf("%q, %v", name, err)
			}
		}
		if err := c.DestroyLoopSandbox(ctx, "9"); err != nil {
			t.Error(err)
		}
		if list, err := c.List(ctx); err != nil || len(list) != 2 {
			t.Errorf("left are %+v, %v", list, err)
		}
		if c.DestroyLoopSandbox(ctx, "") == nil {
			t.Error("nobody's sandboxes were removed")
		}
	})
}
