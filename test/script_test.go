package test

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bothy-dev/bothy/internal/agent/registrytest"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/test/harness"
)

// scriptTime is how long one script may take on a slow and busy machine: docker-inside, which takes a
// minute by itself, takes nine next to a dozen other sandboxes on two processors. Tests that install
// packages make images with hundreds of them.
var scriptTime = func() time.Duration {
	if os.Getenv(installsVar) != "" {
		return 30 * time.Minute
	}
	return 20 * time.Minute
}()

func TestScript(t *testing.T) {
	needWall(t)
	files, err := filepath.Glob(filepath.Join(lab.scripts, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s: %v", lab.scripts, err)
	}
	each := func(run func(t *testing.T, file string)) func(t *testing.T) {
		return func(t *testing.T) {
			for _, file := range files {
				t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
					if !isForRoot(t, file) {
						harness.AsUser(t)
					}
					t.Parallel()
					run(t, file)
				})
			}
		}
	}
	callers(t, each(runScript), each(func(t *testing.T, _ string) { again(t) }))
}

// isForRoot reports whether root must run a script, too, according to its first line. The other scripts
// behave the same for root.
func isForRoot(t *testing.T, file string) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.HasPrefix(string(text), "# As root, too.\n")
}

// scriptT runs a script in the calling test, not in a subtest.
type scriptT struct{ *testing.T }

func (s scriptT) Run(_ string, f func(testscript.T)) { f(s) }
func (s scriptT) Parallel()                          {}
func (s scriptT) Verbose() bool                      { return testing.Verbose() }

func runScript(t *testing.T, file string) {
	testscript.RunT(scriptT{t}, testscript.Params{
		Files:     []string{file},
		Deadline:  time.Now().Add(scriptTime),
		Setup:     func(env *testscript.Env) error { return setUp(t, env) },
		Condition: condition,
		Cmds:      commands,
	})
}

// setUp gives a script a home and a state directory of its own.
func setUp(t *testing.T, env *testscript.Env) error {
	h, err := newHome(t, scriptTime+time.Minute)
	if err != nil {
		return err
	}
	h.also = env.WorkDir
	env.Defer(func() { h.end(t) })
	env.Values[registryKey{}] = &registry{t: t, versions: map[string]*registrytest.Version{}}
	env.Values[imagesKey{}] = &images{t: t}
	env.Values[notesKey{}] = &notes{}
	person := filepath.Join(env.WorkDir, "home")
	for _, dir := range []string{person, filepath.Join(env.WorkDir, "proj")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	env.Setenv("PATH", path())
	env.Setenv("HOME", person)
	env.Setenv("BOTHY_HOME", h.dir)
	env.Setenv("BOTHY_BIN", filepath.Join(lab.bin, "bothy"))
	env.Setenv("UID", strconv.Itoa(os.Getuid()))
	env.Setenv("ALLOW", "--allow="+os.Getenv(installsVar))
	if tool, err := exec.LookPath("go"); err == nil {
		env.Setenv("GODIR", filepath.Dir(tool))
	}
	env.Setenv("INNER_UID", "1000")
	if os.Getuid() != 0 {
		env.Setenv("INNER_UID", strconv.Itoa(os.Getuid()))
	}
	return nil
}

// installsVar makes package managers install from their registries. Its value is the network of the
// registries, if that is a private one.
const installsVar = "BOTHY_INSTALLS"

// condition evaluates [root], [user], [account] (the caller has one), [cgroup] (this caller's limits can
// be enforced) and [inside:PROGRAM] (a sandbox has that program).
func condition(cond string) (bool, error) {
	switch cond {
	case "root":
		return os.Geteuid() == 0, nil
	case "account":
		_, err := user.LookupId(strconv.Itoa(os.Getuid()))
		return err == nil, nil
	case "user":
		return os.Geteuid() != 0, nil
	case "cgroup":
		return canLimit()
	case "installs":
		return os.Getenv(installsVar) != "", nil
	}
	if prog, ok := strings.CutPrefix(cond, "inside:"); ok {
		for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"} {
			if info, err := os.Stat(filepath.Join(dir, prog)); err == nil && info.Mode().IsRegular() {
				return true, nil
			}
		}
		return false, nil
	}
	return false, fmt.Errorf("unknown condition %q", cond)
}

// canLimit asks doctor. The scripts check both answers.
func canLimit() (bool, error) {
	dir, err := os.MkdirTemp("", "doctor")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command(filepath.Join(lab.bin, "bothy"), "doctor", "--json")
	cmd.Env = []string{"PATH=" + path(), "HOME=" + dir, "BOTHY_HOME=" + dir + "/s"}
	out, err := cmd.Output()
	if err != nil {
		return false, fmt.Errorf("bothy doctor: %w", err)
	}
	v, err := lookUp(string(out), "checks.name=limit memory.result")
	return v == "ok", err
}

// commands are the commands of the scripts, in addition to those of testscript.
var commands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"bothy":      cmdBothy,
	"sh":         cmdSh,
	"code":       cmdCode,
	"quiet":      cmdQuiet,
	"json":       cmdJSON,
	"hint":       cmdHint,
	"eventually": cmdEventually,
	"printable":  cmdPrintable,
	"random":     cmdRandom,
	"same":       cmdSame,
	"mine":       cmdMine,
	"mode":       cmdMode,
	"scratch":    cmdScratch,
	"socket":     cmdSocket,
	"deb":        cmdDeb,
	"freeport":   cmdFreePort,
	"greeter":    cmdGreeter,
	"waiter":     cmdWaiter,
	"models":     cmdModels,
	"visit":      cmdVisit,
	"keep":       cmdKeep,
	"registry":   cmdRegistry,
	"notes":      cmdNotes,
	"note":       cmdNote,
	"image":      cmdImage,
	"clean":      cmdClean,
}

// cmdBothy is the script command "bothy ARG...". It runs the binary under test.
func cmdBothy(ts *testscript.TestScript, neg bool, args []string) {
	run(ts, neg, append([]string{"bothy"}, args...))
}

// slow matches the message that a sandbox is slow, as it may be while many tests run at once.
var slow = regexp.MustCompile(`(?m)^bothy: sandbox \S+ (does not answer yet; |is being made by another bothy).*\n`)

// cmdQuiet is the script command quiet. It fails if the last command wrote to standard error.
func cmdQuiet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: quiet")
	}
	if said := slow.ReplaceAllString(ts.ReadFile("stderr"), ""); said != "" {
		ts.Fatalf("said on standard error: %s", said)
	}
}

// cmdSh is the script command "sh SCRIPT [ARG...]". It runs a shell command line.
func cmdSh(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: sh SCRIPT [ARG...]")
	}
	run(ts, neg, append([]string{"sh", "-c", args[0], "sh"}, args[1:]...))
}

func run(ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec(args[0], args[1:]...)
	switch {
	case err == nil && neg:
		ts.Fatalf("unexpected success")
	case err != nil && !neg:
		ts.Fatalf("unexpected failure: %v", err)
	}
}

// cmdCode is the script command "code N COMMAND [ARG...]". It fails unless the command exits with
// exactly that code.
func cmdCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		if got = exit.ExitCode(); got < 0 {
			ts.Fatalf("ended by %v", err)
		}
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// cmdJSON is the script command "json PATH [= TEXT | ~ REGEXP | len N]". It checks the last standard
// output.
func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: json PATH [= TEXT | ~ REGEXP | len N]")
	}
	err := checkJSON(ts.ReadFile("stdout"), args)
	if neg && err == nil {
		ts.Fatalf("json %s: unexpectedly so", strings.Join(args, " "))
	}
	if !neg {
		ts.Check(err)
	}
}

// cmdHint is the script command "hint REGEXP". It fails unless the last standard error is an error in
// Bothy's form with a hint that matches.
func cmdHint(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: hint REGEXP")
	}
	var hints []string
	errs := 0
	for line := range strings.Lines(ts.ReadFile("stderr")) {
		line = strings.TrimRight(line, "\n")
		if text, ok := strings.CutPrefix(line, "bothy: error: "); ok {
			errs++
			if text == "" || strings.HasSuffix(text, ".") || strings.HasPrefix(text, "failed to") {
				ts.Fatalf("not in the house style: %q", line)
			}
		}
		if text, ok := strings.CutPrefix(line, "bothy: hint: "); ok {
			hints = append(hints, text)
		}
	}
	if errs != 1 || len(hints) != 1 {
		ts.Fatalf("%d errors and %d hints, want one of each", errs, len(hints))
	}
	if ok, err := regexp.MatchString(args[0], hints[0]); err != nil || !ok {
		ts.Fatalf("hint %q does not match %q", hints[0], args[0])
	}
}

// cmdEventually is the script command "eventually REGEXP COMMAND [ARG...]". It repeats a command until
// it succeeds and its standard output matches; with "!" until it fails or does not match.
func cmdEventually(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: eventually REGEXP COMMAND [ARG...]")
	}
	re := regexp.MustCompile("(?m)" + args[0])
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		err := ts.Exec(args[1], args[2:]...)
		if (err == nil && re.MatchString(ts.ReadFile("stdout"))) != neg {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("it did not come to that in time (%v)", err)
		}
	}
}

// cmdPrintable is the script command "printable FILE...". It allows no control characters except line
// breaks and tabs.
func cmdPrintable(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		for i, r := range ts.ReadFile(name) {
			if unicode.IsControl(r) && r != '\n' && r != '\t' {
				ts.Fatalf("%s has %q at byte %d", name, r, i)
			}
		}
	}
}

// cmdRandom is the script command "random FILE SIZE". It makes a file of random bytes.
func cmdRandom(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: random FILE SIZE")
	}
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	_, err = io.CopyN(f, rand.Reader, n)
	ts.Check(err)
	ts.Check(f.Close())
}

// cmdSame is the script command "same FILE FILE". It fails unless both files have the same bytes.
func cmdSame(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: same FILE FILE")
	}
	a, b := ts.ReadFile(args[0]), ts.ReadFile(args[1])
	if (sha256.Sum256([]byte(a)) == sha256.Sum256([]byte(b))) == neg {
		ts.Fatalf("%s has %d bytes, %s has %d", args[0], len(a), args[1], len(b))
	}
}

// cmdMine is the script command "mine FILE...". It fails unless the files belong to the caller,
// including everything in directories.
func cmdMine(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		ts.Check(filepath.WalkDir(ts.MkAbs(name), func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			st := info.Sys().(*syscall.Stat_t)
			if int(st.Uid) != os.Getuid() || int(st.Gid) != os.Getgid() {
				return fmt.Errorf("%s belongs to %d:%d", path, st.Uid, st.Gid)
			}
			return nil
		}))
	}
}

// cmdMode is the script command "mode OCTAL FILE...". It fails unless the files have those permission
// bits, including set-uid and the like.
func cmdMode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: mode OCTAL FILE...")
	}
	want, err := strconv.ParseUint(args[0], 8, 32)
	ts.Check(err)
	for _, name := range args[1:] {
		var st syscall.Stat_t
		ts.Check(syscall.Lstat(ts.MkAbs(name), &st))
		if got := st.Mode & 0o7777; got != uint32(want) {
			ts.Fatalf("%s has mode %o", name, got)
		}
	}
}

// cmdScratch is the script command "scratch VAR DIR". It makes a directory of this test in DIR and sets
// VAR to it. If DIR cannot be written to, the script is skipped.
func cmdScratch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: scratch VAR DIR")
	}
	dir, err := os.MkdirTemp(args[1], "bothy-test-")
	ts.Check(err)
	ts.Defer(func() { _ = store.RemoveTree(dir) })
	ts.Setenv(args[0], dir)
}

// cmdSocket is the script command "socket PATH". It listens on a unix socket until the script ends.
func cmdSocket(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: socket PATH")
	}
	l, err := net.Listen("unix", args[0])
	ts.Check(err)
	ts.Defer(func() { l.Close() })
}

// cmdFreePort is the script command "freeport VAR". It sets a variable to a free port of the loopback.
func cmdFreePort(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: freeport VAR")
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	ts.Check(err)
	ts.Check(l.Close())
	ts.Setenv(args[0], strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
}

// cmdGreeter is the script command "greeter VAR TEXT". It sends a text to every client that connects, on
// a port of the loopback to which it sets VAR, until the script ends.
func cmdGreeter(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: greeter VAR TEXT")
	}
	serve(ts, args[0], func(c net.Conn) {
		_, _ = io.WriteString(c, args[1]+"\n")
		_ = c.Close()
	})
}

// cmdWaiter is the script command "waiter VAR". It runs a server on this host's loopback that says
// hello, and nothing more for as long as the caller stays. Its port is in VAR.
func cmdWaiter(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waiter VAR")
	}
	serve(ts, args[0], func(c net.Conn) {
		_, _ = io.WriteString(c, "hello\n")
		go func() {
			defer c.Close()
			_, _ = io.Copy(io.Discard, c)
		}()
	})
}

// serve answers on a port of this host's loopback, to which it sets a variable.
func serve(ts *testscript.TestScript, variable string, answer func(net.Conn)) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	ts.Setenv(variable, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			answer(c)
		}
	}()
}

// cmdVisit is the script command "visit HOST PORT". It prints the message of the server there.
func cmdVisit(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: visit HOST PORT")
	}
	c, err := net.DialTimeout("tcp", net.JoinHostPort(args[0], args[1]), patience)
	if err == nil {
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		_, err = io.Copy(ts.Stdout(), c)
	}
	if neg && err == nil {
		ts.Fatalf("unexpected success")
	}
	if !neg {
		ts.Check(err)
	}
}

// cmdDeb is the script command "deb FILE". It builds a Debian package "hello-bothy" with
// /usr/bin/hello-bothy in it.
func cmdDeb(ts *testscript.TestScript, neg bool, args []string) {
	tree := ts.MkAbs("deb-tree")
	for name, content := range map[string]string{
		"DEBIAN/control": "Package: hello-bothy\nVersion: 1.0\nArchitecture: all\n" +
			"Maintainer: Nobody <nobody@example.com>\nDescription: a greeting\n",
		"usr/bin/hello-bothy": "#!/bin/sh\necho hello from a package\n",
	} {
		file := filepath.Join(tree, name)
		ts.Check(os.MkdirAll(filepath.Dir(file), 0o755))
		ts.Check(os.WriteFile(file, []byte(content), 0o755))
		ts.Check(os.Chmod(file, 0o755))
	}
	ts.Check(ts.Exec("dpkg-deb", "--root-owner-group", "-b", tree, ts.MkAbs(args[0])))
}

// cmdKeep is the script command "keep VAR". It sets a variable to the last standard output, without its
// last line break.
func cmdKeep(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: keep VAR")
	}
	ts.Setenv(args[0], strings.TrimSuffix(ts.ReadFile("stdout"), "\n"))
}

// cmdClean is the script command clean. It fails if a process of any sandbox of this state directory
// runs.
func cmdClean(ts *testscript.TestScript, neg bool, args []string) {
	h := &home{dir: ts.Getenv("BOTHY_HOME")}
	var left []string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if left = h.processes(); len(left) == 0 {
			return
		}
	}
	ts.Fatalf("still there: %s", strings.Join(left, "\n"))
}
