// Package harness runs the real bothy binary for tests outside of it: as root and as an ordinary user,
// each with a home and a state directory of its own. It checks the host for leftovers of sandboxes.
package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// OrdinaryID is the uid and gid of the ordinary user. No account is needed.
const OrdinaryID = 54322

// Timeout bounds every command that runs without a time limit of its own, on a slow and busy machine.
const Timeout = 4 * time.Minute

// Moment is how long an ended process may take to disappear, on a slow and busy machine.
const Moment = 30 * time.Second

// binary is the program that Main built.
var binary string

// Binary is the path of the bothy under test. Every user may execute it.
func Binary() string { return binary }

// Main builds bothy, runs the tests and returns their exit code. BOTHY_TEST_BINARY names a bothy to use
// instead of a fresh one, with its other programs next to it.
func Main(m *testing.M) int {
	if binary = os.Getenv("BOTHY_TEST_BINARY"); binary != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "bothy-bin-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		binary = filepath.Join(dir, "bothy")
		err = Build(dir, "", programs...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "harness:", err)
		return 1
	}
	return m.Run()
}

// Builder makes sure that the program that builds images is next to the bothy under test.
func Builder(t *testing.T) {
	t.Helper()
	dir := filepath.Dir(binary)
	if _, err := os.Lstat(filepath.Join(dir, builder)); err == nil {
		return
	}
	if err := Build(dir, "", builder); err != nil {
		t.Fatal(err)
	}
}

// programs are those that a sandbox needs. builder is the one that builds images.
var programs = []string{"bothy", "bothy-keeper", "bothy-guest"}

const builder = "bothy-build"

// Beside returns the path of a program that belongs to a bothy.
func Beside(bothy, name string) string { return filepath.Join(filepath.Dir(bothy), name) }

// CopyPrograms copies the programs that belong to a bothy into a directory, and returns the path of the
// bothy there.
func CopyPrograms(t *testing.T, bothy, dir string) string {
	t.Helper()
	for _, name := range programs {
		data, err := os.ReadFile(Beside(bothy, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, programs[0])
}

// Build builds programs into a directory, with flags for the linker.
func Build(dir, ldflags string, names ...string) error {
	_, here, _, ok := runtime.Caller(0)
	if !ok {
		return errors.New("find the module: no caller information")
	}
	args := []string{"build", "-ldflags", ldflags, "-o", dir + "/"}
	for _, name := range names {
		args = append(args, "./cmd/"+name)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = filepath.Join(filepath.Dir(here), "..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %v: %w\n%s", names, err, out)
	}
	return nil
}

// Caller is a user who runs bothy.
type Caller struct {
	Name     string // root or user
	UID, GID int
	Base     string // contains everything below; others may pass through, not list it
	Home     string
	State    string // BOTHY_HOME
	Work     string // a directory to work in, in Home
	Env      []string
	Binary   string // the program to run; default Binary()
	// Dirty is set if the test breaks the state on purpose: leftovers are removed without a report.
	Dirty bool

	ids map[string]bool
}

// Each runs a test concurrently for every kind of caller that is possible here: as root and as an
// ordinary user, or only as oneself when not root.
func Each(t *testing.T, f func(t *testing.T, c *Caller)) {
	t.Helper()
	for _, name := range Callers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, New(t, name))
		})
	}
}

// EachAlone is Each for tests that look at state shared by all callers: one after the other.
func EachAlone(t *testing.T, f func(t *testing.T, c *Caller)) {
	t.Helper()
	for _, name := range Callers() {
		t.Run(name, func(t *testing.T) { f(t, New(t, name)) })
	}
}

// callersVar names the callers that root runs, if an ordinary user runs the same tests anyway.
const callersVar = "BOTHY_TEST_CALLERS"

// Callers returns the names of the callers that are possible here.
func Callers() []string {
	if os.Geteuid() != 0 {
		return []string{"user"}
	}
	if names := strings.Fields(os.Getenv(callersVar)); len(names) > 0 {
		return names
	}
	return []string{"root", "user"}
}

// New makes a caller with empty directories. The end of the test removes them, after checking that
// nothing of a sandbox is left.
func New(t *testing.T, name string) *Caller {
	t.Helper()
	id := os.Geteuid()
	gid := os.Getegid()
	if name == "user" && id == 0 {
		id, gid = OrdinaryID, OrdinaryID
	}
	return NewAs(t, name, id, gid)
}

// NewAs is New for any uid and gid.
func NewAs(t *testing.T, name string, uid, gid int) *Caller {
	t.Helper()
	base, err := os.MkdirTemp("", "bothy-test-")
	if err != nil {
		t.Fatal(err)
	}
	if base, err = filepath.EvalSymlinks(base); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(base, 0o711); err != nil {
		t.Fatal(err)
	}
	c := &Caller{
		Name: name, UID: uid, GID: gid, Base: base,
		Home: filepath.Join(base, "home"), State: filepath.Join(base, "state"),
		Binary: binary, ids: map[string]bool{},
	}
	c.Work = filepath.Join(c.Home, "project")
	c.Own(t, base)
	c.Mkdir(t, c.Home)
	c.Mkdir(t, c.Work)
	t.Cleanup(func() { c.finish(t) })
	return c
}

// finish removes everything of the caller and reports leftovers of bothy.
func (c *Caller) finish(t *testing.T) {
	defer os.RemoveAll(c.Base)
	c.noteIDs()
	if !c.Dirty {
		if r := c.Run("reset", "-f"); r.Code != 0 {
			t.Errorf("reset failed: %v", r)
		}
		c.NothingLeft(t)
		if _, err := os.Lstat(c.State); err == nil {
			t.Errorf("reset left the state directory: %v", Tree(c.State))
		}
	}
	c.KillAll()
	for _, dir := range c.Cgroups() {
		_ = os.Remove(dir) // leftovers were already reported
	}
}

// Mkdir makes a directory that belongs to the caller, and those above it.
func (c *Caller) Mkdir(t testing.TB, dir string) {
	t.Helper()
	if _, err := os.Lstat(dir); err == nil {
		return
	}
	c.Mkdir(t, filepath.Dir(dir))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c.Own(t, dir)
}

// Write writes a file that belongs to the caller.
func (c *Caller) Write(t testing.TB, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Own(t, path)
	return path
}

// Own gives a file to the caller.
func (c *Caller) Own(t testing.TB, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Lchown(path, c.UID, c.GID); err != nil {
		t.Fatal(err)
	}
}

// Attributes make a process run as the caller.
func (c *Caller) Attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 && c.UID != 0 {
		attr.Credential = &syscall.Credential{Uid: uint32(c.UID), Gid: uint32(c.GID)}
	}
	return attr
}

// Environment returns the environment of the caller's commands.
func (c *Caller) Environment() []string {
	return append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + c.Home, "BOTHY_HOME=" + c.State}, c.Env...)
}

// Command prepares a bothy command in the caller's working directory.
func (c *Caller) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.Binary, args...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = c.Work, c.Environment(), c.Attributes()
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// Result is the outcome of a command.
type Result struct {
	Args           []string
	Code           int // -1 if it was killed
	Stdout, Stderr string
	Took           time.Duration
	TimedOut       bool
}

func (r Result) String() string {
	return fmt.Sprintf("bothy %q: code %d after %v (timed out: %v)\nstdout: %s\nstderr: %s",
		r.Args, r.Code, r.Took.Round(time.Millisecond), r.TimedOut, clip(r.Stdout), clip(r.Stderr))
}

func clip(s string) string {
	if len(s) > 4000 {
		return s[:4000] + "…"
	}
	return s
}

// Run runs a bothy command without input.
func (c *Caller) Run(args ...string) Result { return c.RunInput("", args...) }

// RunInput runs a bothy command with input.
func (c *Caller) RunInput(input string, args ...string) Result {
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	cmd := c.Command(ctx, args...)
	if input != "" {
		cmd.Stdin = strings.NewReader(input)
	}
	return Finish(ctx, cmd, args)
}

// Finish runs a prepared command to its end.
func Finish(ctx context.Context, cmd *exec.Cmd, args []string) Result {
	var out, errs bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &errs
	}
	began := time.Now()
	err := cmd.Run()
	r := Result{Args: args, Took: time.Since(began), Stdout: out.String(), Stderr: errs.String(), TimedOut: ctx.Err() != nil}
	r.Code = cmd.ProcessState.ExitCode()
	if cmd.ProcessState == nil {
		r.Code, r.Stderr = -1, r.Stderr+err.Error()
	}
	return r
}

// Must runs a command that has to succeed and returns its output.
func (c *Caller) Must(t testing.TB, args ...string) string {
	t.Helper()
	r := c.Run(args...)
	if r.Code != 0 {
		t.Fatalf("%v", r)
	}
	return r.Stdout
}

// Sh runs a shell script inside a sandbox as the given user; "" is the
// caller.
func (c *Caller) Sh(name, user, script string) Result {
	args := []string{"exec"}
	if user != "" {
		args = append(args, "-u", user)
	}
	return c.Run(append(args, name, "/bin/sh", "-c", script)...)
}

// Inspected is the output of inspect.
type Inspected struct {
	spec.Sandbox
	Status    spec.Status    `json:"status"`
	Directory string         `json:"directory"`
	Sessions  []spec.Session `json:"sessions"`
}

// Inspect runs bothy inspect for a sandbox.
func (c *Caller) Inspect(t testing.TB, name string) Inspected {
	t.Helper()
	var i Inspected
	out := c.Must(t, "inspect", name)
	if err := json.Unmarshal([]byte(out), &i); err != nil {
		t.Fatalf("inspect %s: %v\n%s", name, err, out)
	}
	c.ids[i.ID] = true
	return i
}

// WaitFor polls until cond holds.
func WaitFor(t testing.TB, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	if !Comes(limit, cond) {
		t.Fatalf("waited %v in vain for %s", limit, what)
	}
}

// Comes polls until cond holds, and reports whether it did in time. It calls cond once more when the
// time is over: the polling process may have had no processor time.
func Comes(limit time.Duration, cond func() bool) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if cond() {
			return true
		}
	}
	return cond()
}
