package test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/client"
	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/harness"
)

// Variables of a process that plays a Go program with a client.
const (
	clientProject = "BOTHY_TEST_CLIENT_PROJECT"
	clientState   = "BOTHY_TEST_CLIENT_STATE"
)

// clientTest runs a test as both users, with a client and a project. A client has the environment of its
// process, so each test has a process of its own.
func clientTest(t *testing.T, test func(t *testing.T, c *client.Client, proj string)) {
	needWall(t)
	if proj := os.Getenv(clientProject); proj != "" {
		test(t, &client.Client{
			Programs: lab.bin, StateDir: os.Getenv(clientState),
			AcceptUnprovenBuild: true, Notes: func(text string) { t.Log(text) },
		}, proj)
		return
	}
	t.Parallel()
	asBoth(t, func(t *testing.T) {
		l := newLodging(t)
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(t.Name(), "/")
		cmd := exec.CommandContext(t.Context(), self, "-test.v", "-test.run=^"+name+"$")
		cmd.Dir = l.proj
		state := l.home.dir
		cmd.Env = append(slices.DeleteFunc(slices.Clone(l.env), func(v string) bool { return strings.HasPrefix(v, "BOTHY_HOME=") }),
			clientProject+"="+l.proj, clientState+"="+state, binVar+"="+lab.bin, scriptsVar+"="+lab.scripts, "TMPDIR="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+name+" ")) {
			t.Errorf("%v\n%s", err, out)
		}
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
		if sb, status, err := c.Inspect(ctx, "worker"); err != nil || sb.Name != "worker" || status.State != spec.Running {
			t.Errorf("%+v, %+v, %v", sb, status, err)
		}
		if err := errors.Join(c.Stop(ctx, "worker"), c.Stop(ctx, "worker"), c.Remove(ctx, "worker")); err != nil {
			t.Error(err)
		}
		if err := c.Remove(ctx, "worker"); !errors.Is(err, spec.ErrNotFound) || spec.Hint(err) == "" {
			t.Errorf("removed twice: %v, hint %q", err, spec.Hint(err))
		}
	})
}

// TestClientStreams checks that a command talks with the Go program while it runs, and that the end of a
// context ends it, with its output kept and no keeper left as a zombie.
func TestClientStreams(t *testing.T) {
	clientTest(t, func(t *testing.T, c *client.Client, proj string) {
		if _, err := c.Create(t.Context(), client.Sandbox{Name: "worker", Agent: "shell", Workspaces: []string{proj}}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		questions, say := io.Pipe()
		answers, hear := io.Pipe()
		why := errors.New("enough")
		go func() {
			line := make([]byte, 64)
			_, _ = io.WriteString(say, "first\n")
			n, err := answers.Read(line)
			if err != nil || string(line[:n]) != "got first\n" {
				t.Errorf("%q, %v", line[:n], err)
			}
			cancel(why) // it waits for a second line
			_, _ = io.Copy(io.Discard, answers)
		}()
		_, err := c.Exec(ctx, "worker", client.Command{
			Args:  []string{"sh", "-c", `while read -r line; do echo "got $line"; done`},
			Stdin: questions, Stdout: hear,
		})
		if !errors.Is(err, why) {
			t.Errorf("its context has ended: %v", err)
		}
		if _, err := c.Exec(ctx, "worker", client.Command{Args: []string{"true"}}); !errors.Is(err, why) {
			t.Errorf("its context had ended before: %v", err)
		}
		if _, err := c.Create(ctx, client.Sandbox{Name: "other", Agent: "shell"}); !errors.Is(err, why) {
			t.Errorf("likewise: %v", err)
		}
		if err := errors.Join(c.Stop(t.Context(), "worker"), c.Remove(t.Context(), "worker")); err != nil {
			t.Error(err)
		}
		if list, err := c.List(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("left are %+v, %v", list, err)
		}
		noZombies(t)
	})
}

// TestClientSetUp checks that the first command runs the due commands of a devcontainer.json before, tells of them
// apart from its own output, and is not run if they fail.
func TestClientSetUp(t *testing.T) {
	clientTest(t, func(t *testing.T, c *client.Client, proj string) {
		ctx := t.Context()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		var told noteList
		c.Notes = told.add
		file, base := filepath.Join(proj, ".devcontainer.json"), filepath.Join(t.TempDir(), "base.tar")
		tiny(t, "", "").Save(t, base, "base:v1")
		load := exec.CommandContext(ctx, filepath.Join(lab.bin, "bothy"), "template", "load", base)
		load.Env = append(os.Environ(), "BOTHY_HOME="+c.StateDir)
		if out, err := load.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		must(os.WriteFile(file, []byte(`{"image": "base:v1", "postCreateCommand": "echo made >> made; echo said; echo complained >&2; test ! -e bad || exit 3"}`), 0o600))
		if _, err := c.Create(ctx, client.Sandbox{Name: "dev", Agent: "shell", Workspaces: []string{proj}, Template: file}); err != nil {
			t.Fatal(err)
		}
		must(os.WriteFile(filepath.Join(proj, "bad"), nil, 0o600))
		r, err := c.Exec(ctx, "dev", client.Command{Args: []string{"touch", "never"}})
		if !errors.Is(err, spec.ErrSandbox) || r.ExitCode != spec.ExitSandbox || r.Output != "" {
			t.Errorf("a set-up that fails: %+v, %v", r, err)
		}
		if _, err := os.Stat(filepath.Join(proj, "never")); err == nil {
			t.Error("the command was run after a set-up that failed")
		}
		r, err = c.Exec(ctx, "dev", client.Command{Args: []string{"sh", "-c", "rm bad; echo removed"}, SkipSetUp: true})
		if err != nil || r.ExitCode != 0 || r.Output != "removed\n" || len(r.Notes) != 0 {
			t.Errorf("without a set-up: %+v, %v", r, err)
		}
		told.clear()
		r, err = c.Exec(ctx, "dev", client.Command{Args: []string{"cat", "made"}, Timeout: time.Minute})
		if err != nil || r.Output != "made\nmade\n" || len(r.Notes) != 1 || !strings.HasPrefix(r.Notes[0], "postCreateCommand: echo made") {
			t.Errorf("with a set-up: %+v, %v", r, err)
		}
		for _, want := range []string{r.Notes[0], "  | said", "  | complained"} {
			if !slices.Contains(told.all(), want) {
				t.Errorf("%q was not told: %q", want, told.all())
			}
		}
		told.clear()
		r, err = c.Exec(ctx, "dev", client.Command{Args: []string{"cat", "made"}})
		if err != nil || r.Output != "made\nmade\n" || len(r.Notes)+len(told.all()) != 0 {
			t.Errorf("after it: %+v, told %q, %v", r, told.all(), err)
		}
		must(errors.Join(c.Stop(ctx, "dev"), c.Remove(ctx, "dev")))
		noZombies(t)
	})
}

// noteList collects the notes of a client.
type noteList struct {
	mu   sync.Mutex
	list []string
}

func (n *noteList) add(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, text)
}

func (n *noteList) clear() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = nil
}

func (n *noteList) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.list)
}

// full is a writer that takes nothing.
type full struct{}

var errFull = errors.New("no room")

func (full) Write([]byte) (int, error) { return 0, errFull }

// TestClientStreamsLeft checks that a writer that fails does not leave the command stuck, and that a command
// takes no input that arrives after its end.
func TestClientStreamsLeft(t *testing.T) {
	clientTest(t, func(t *testing.T, c *client.Client, proj string) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if _, err := c.Create(ctx, client.Sandbox{Name: "worker", Agent: "shell", Workspaces: []string{proj}}); err != nil {
			t.Fatal(err)
		}
		r, err := c.Exec(ctx, "worker", client.Command{Args: []string{"yes"}, Stdout: full{}})
		if err != nil || r.ExitCode != spec.ExitSignal+int(unix.SIGPIPE) {
			t.Errorf("ended by SIGPIPE: %+v, %v", r, err)
		}
		r, err = c.Exec(ctx, "worker", client.Command{Args: []string{"sh", "-c", "yes; exit 0"}, Stdout: full{}})
		if !errors.Is(err, errFull) {
			t.Errorf("a success: %+v, %v", r, err)
		}
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		near, far := os.NewFile(uintptr(fds[0]), "near"), os.NewFile(uintptr(fds[1]), "far")
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		for _, ends := range [][2]*os.File{{near, far}, {reader, writer}} {
			for _, text := range []string{"", "one\n", "", "two\n"} {
				if _, err := ends[1].WriteString(text); err != nil {
					t.Fatal(err)
				}
				r, err := c.Exec(ctx, "worker", client.Command{Args: []string{"head", "-c", strconv.Itoa(len(text))}, Stdin: ends[0]})
				if err != nil || r.Output != text {
					t.Errorf("%+v, %v: the command did not read %q", r, err, text)
				}
			}
			ends[0].Close()
			ends[1].Close()
		}
		if err := c.Remove(ctx, "worker"); err != nil {
			t.Error(err)
		}
	})
}

// noZombies waits until this process has no ended child.
func noZombies(t *testing.T) {
	t.Helper()
	for range 100 {
		out, err := exec.CommandContext(t.Context(), "ps", "-o", "stat=,args=", "--ppid", strconv.Itoa(os.Getpid())).Output()
		if err != nil || !slices.ContainsFunc(strings.Split(string(out), "\n"), func(l string) bool { return strings.HasPrefix(l, "Z") }) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("an ended keeper stays a zombie")
}

// TestForeign checks the client in a program of another module, which has this one by a replace directive:
// it does not use programs whose build it cannot compare, unless it says so and hears the warning.
func TestForeign(t *testing.T) {
	needWall(t)
	t.Parallel()
	built := filepath.Join(lab.bin, "foreign")
	if _, err := os.Stat(built); err != nil {
		buildForeign(t, built)
	}
	asBoth(t, func(t *testing.T) {
		l := newLodging(t)
		run := func(args ...string) (string, error) {
			cmd := exec.CommandContext(t.Context(), built, args...)
			cmd.Dir, cmd.Env = l.proj, l.env
			out, err := cmd.CombinedOutput()
			return string(out), err
		}
		if out, err := run(); err == nil || !strings.Contains(out, "may be of another build than this program") {
			t.Errorf("a build that is not known: %v\n%s", err, out)
		}
		if out, err := run("-accept"); err == nil || !strings.Contains(out, "needs Notes") {
			t.Errorf("silently: %v\n%s", err, out)
		}
		set := l.command("secret", "set", "github")
		set.Stdin = strings.NewReader("ghp_012345678901234567890123456789012345")
		if out, err := set.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		out, err := run("-accept", "-notes")
		for _, want := range []string{"note: warning: ", "created one\n", "hello over pipes\n", "cancelled: enough\n", "stopped and removed\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("it does not print %q", want)
			}
		}
		if err != nil || t.Failed() {
			t.Errorf("%v\n%s", err, out)
		}
		if left := l.bothy("ls", "-q"); left != "" {
			t.Errorf("left: %s", left)
		}
	})
}

// buildForeign builds the program of another module.
func buildForeign(t *testing.T, to string) {
	t.Helper()
	top, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "foreign"))); err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(filepath.Join(top, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/bothy-dev/bothy"
	mod := strings.Replace(string(own), "module "+module, "module example.com/foreign", 1) +
		"\nrequire " + module + " v0.0.0\n\nreplace " + module + " => " + top + "\n"
	sums, err := os.ReadFile(filepath.Join(top, "go.sum"))
	if err == nil {
		err = errors.Join(
			os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600),
			os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600),
			os.Rename(filepath.Join(dir, "main.go.txt"), filepath.Join(dir, "main.go")))
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-o", to, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOPROXY=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build a foreign program: %v\n%s", err, out)
	}
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
		other := &client.Client{Programs: t.TempDir()}
		if _, err := other.List(t.Context()); !errors.Is(err, spec.ErrSandbox) || !strings.Contains(err.Error(), other.Programs) {
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
