package test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/test/harness"
)

// testTime is how long a test may take on a slow and busy machine. The soaks have hours if they are made
// longer by hand.
var testTime = func() time.Duration {
	if os.Getenv(soakTime)+os.Getenv(soakIterations) != "" {
		return 12 * time.Hour
	}
	return scriptTime
}()

// patience is how long a test waits for output, on a slow and busy machine.
const patience = 2 * time.Minute

// lodging is a person with a home, a project and a state directory.
type lodging struct {
	t    *testing.T
	proj string
	env  []string
	home *home
}

func newLodging(t *testing.T) *lodging {
	t.Helper()
	h, err := newHome(t, testTime)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	h.also = dir
	t.Cleanup(func() { h.end(t) })
	l := &lodging{t: t, proj: filepath.Join(dir, "proj"), home: h}
	for _, d := range []string{l.proj, filepath.Join(dir, "home", ".config", "bothy")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l.env = []string{
		"PATH=" + path(), "HOME=" + filepath.Join(dir, "home"), "BOTHY_HOME=" + h.dir,
		"SHELL=/bin/bash", "TERM=xterm-256color",
	}
	return l
}

// command returns a bothy to be run in the project.
func (l *lodging) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(l.t.Context(), filepath.Join(lab.bin, "bothy"), args...)
	cmd.Dir, cmd.Env = l.proj, l.env
	return cmd
}

// bothy runs a bothy without a terminal and returns its output.
func (l *lodging) bothy(args ...string) string {
	l.t.Helper()
	cmd := l.command(args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		l.t.Fatalf("bothy %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return string(out)
}

// terminal is an emulator with a person at it, and one program that runs on it.
type terminal struct {
	harness.Pty // its line is open all the time, to read its settings

	t     *testing.T
	cmd   *exec.Cmd
	ended chan error
	asked int

	mu     sync.Mutex
	screen []byte
	seen   int // how much of it was expected already
}

// terminal opens a terminal and runs a bothy on it.
func (l *lodging) terminal(args ...string) *terminal {
	l.t.Helper()
	tm := openTerminal(l.t)
	tm.start(l.command(args...))
	return tm
}

func openTerminal(t *testing.T) *terminal {
	t.Helper()
	tm := &terminal{t: t, Pty: harness.OpenPty(t)}
	t.Cleanup(func() {
		if tm.cmd != nil && tm.ended != nil {
			_ = tm.cmd.Process.Kill()
			<-tm.ended
		}
	})
	tm.resize(24, 80)
	// Settings that no default would restore.
	s := tm.settings()
	s.Iflag |= unix.IXANY
	s.Lflag &^= unix.ECHOK
	s.Cc[unix.VTIME] = 7
	if err := unix.IoctlSetTermios(int(tm.Line.Fd()), unix.TCSETS, &s); err != nil {
		t.Fatal(err)
	}
	go tm.read()
	return tm
}

func (tm *terminal) start(cmd *exec.Cmd) {
	tm.t.Helper()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tm.Line, tm.Line, tm.Line
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		tm.t.Fatal(err)
	}
	tm.cmd, tm.ended = cmd, make(chan error, 1)
	go func() { tm.ended <- cmd.Wait() }()
}

func (tm *terminal) read() {
	buf := make([]byte, 64<<10)
	for {
		n, err := tm.Emulator.Read(buf)
		tm.mu.Lock()
		tm.screen = append(tm.screen, buf[:n]...)
		tm.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// press sends keys unchanged.
func (tm *terminal) press(keys string) {
	tm.t.Helper()
	if _, err := tm.Emulator.WriteString(keys); err != nil {
		tm.t.Fatal(err)
	}
}

// expect waits until new output matches, and returns the groups.
func (tm *terminal) expect(pattern string) []string {
	tm.t.Helper()
	groups := tm.comes(pattern, patience)
	if groups == nil {
		tm.t.Fatalf("%q does not come; what came is\n%q", pattern, tm.shown())
	}
	return groups
}

// comes is expect for output that may not arrive in time. Then it returns no groups.
func (tm *terminal) comes(pattern string, within time.Duration) []string {
	re := regexp.MustCompile("(?s)" + pattern)
	for deadline := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		late := time.Now().After(deadline)
		if groups := tm.match(re); groups != nil || late {
			return groups
		}
	}
}

// match checks once, and returns the groups, or nil.
func (tm *terminal) match(re *regexp.Regexp) (groups []string) {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	rest := tm.screen[tm.seen:]
	at := re.FindSubmatchIndex(rest)
	if at == nil {
		return nil
	}
	tm.seen += at[1]
	for i := 0; i < len(at); i += 2 {
		groups = append(groups, string(rest[max(at[i], 0):max(at[i+1], 0)]))
	}
	return groups
}

// again presses keys until their effect is shown: the program may not read them yet, and nothing shows
// when it does.
func (tm *terminal) again(keys, pattern string) {
	tm.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		tm.press(keys)
		if tm.comes(pattern, time.Second) != nil {
			return
		}
		if time.Now().After(deadline) {
			tm.t.Fatalf("%q does not come of %q; what came is\n%q", pattern, keys, tm.shown())
		}
	}
}

// shown returns the output that expect has not matched yet.
func (tm *terminal) shown() string {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return string(tm.screen[tm.seen:])
}

// ask types a command to the shell and returns its output.
func (tm *terminal) ask(command string) string {
	tm.t.Helper()
	tm.asked++
	tm.press(fmt.Sprintf("printf '{%%s:%%s}' $((%d+1000)) \"$(%s)\"\r", tm.asked, command))
	return tm.expect(fmt.Sprintf(`\{%d:(.*?)\}`, tm.asked+1000))[1]
}

// works types a command to the shell, with text after it, and waits until the command gets the
// keys.
func (tm *terminal) works(command, behind string) {
	tm.t.Helper()
	tm.asked++
	tm.press(fmt.Sprintf("sh -c 'echo works-$((%d+1000)); exec %s'%s\r", tm.asked, command, behind))
	tm.expect(fmt.Sprintf("works-%d", tm.asked+1000))
}

// code waits for the end of the program and returns its exit code.
func (tm *terminal) code() int {
	tm.t.Helper()
	select {
	case <-tm.ended:
	case <-time.After(patience):
		tm.t.Fatalf("it does not end; unseen is\n%q", tm.shown())
	}
	tm.ended = nil
	return tm.cmd.ProcessState.ExitCode()
}

func (tm *terminal) resize(rows, cols uint16) {
	tm.t.Helper()
	tm.Resize(tm.t, rows, cols)
}

func (tm *terminal) settings() unix.Termios {
	tm.t.Helper()
	s, err := unix.IoctlGetTermios(int(tm.Line.Fd()), unix.TCGETS)
	if err != nil {
		tm.t.Fatal(err)
	}
	return *s
}

// restored checks that the settings are those from before.
func (tm *terminal) restored(before unix.Termios) {
	tm.t.Helper()
	if now := tm.settings(); !reflect.DeepEqual(now, before) {
		tm.t.Errorf("the terminal is left with other settings:\n%+v, was\n%+v", now, before)
	}
}

const (
	ctrlC      = "\x03"
	ctrlD      = "\x04"
	ctrlZ      = "\x1a"
	ctrlQuit   = "\x1c" // Ctrl-\
	detachKeys = ctrlQuit + ctrlQuit
)

// terminalTest runs a test as both users, concurrently with others.
func terminalTest(t *testing.T, test func(t *testing.T, l *lodging)) {
	needWall(t)
	t.Parallel()
	asBoth(t, func(t *testing.T) { test(t, newLodging(t)) })
}

func TestTerminalShell(t *testing.T) {
	harness.AsUser(t)
	terminalTest(t, func(t *testing.T, l *lodging) {
		tm := openTerminal(t)
		before := tm.settings()
		tm.resize(37, 91)
		tm.start(l.command("run", "shell", "."))
		if got := tm.ask("tty"); !strings.HasPrefix(got, "/dev/pts/") {
			t.Errorf("tty says %q", got)
		}
		if s := tm.settings(); s.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) != 0 {
			t.Errorf("the terminal is not raw: lflag %x", s.Lflag)
		}
		if got := tm.ask("pwd; echo $TERM; echo $-"); !regexp.MustCompile("^" + l.proj + "\r?\nxterm-256color\r?\n.*m.*$").MatchString(got) {
			t.Errorf("a shell with job control in the project says %q", got)
		}

		// Its size follows ours.
		if got := tm.ask("stty size </dev/tty"); got != "37 91" {
			t.Errorf("size %q", got)
		}
		tm.press("bash -c 'trap \"stty size; exit\" WINCH; echo armed-$((1+1)); while :; do sleep 0.1; done'\r")
		tm.expect("armed-2")
		tm.resize(50, 132)
		tm.expect("\n50 132\r")
		if got := tm.ask("stty size </dev/tty"); got != "50 132" {
			t.Errorf("size %q after a change", got)
		}

		// It has no offsets, and reports that as on Linux: programs then write in another way.
		if _, err := exec.LookPath("perl"); err == nil {
			write := fmt.Sprintf(`perl -e '$text = "x"; syscall(%d, 0, $text, 1, 0); print $! + 0'`, unix.SYS_PWRITE64)
			if got, want := tm.ask(write), strconv.Itoa(int(unix.ESPIPE)); got != want {
				t.Errorf("a write at an offset of a terminal fails with %q, want %q", got, want)
			}
		}

		// Typed text passes unchanged.
		if got := tm.ask("echo grüße-日本-🏠"); got != "grüße-日本-🏠" {
			t.Errorf("typed text comes back as %q", got)
		}
		tm.press("exit 3\r")
		if code := tm.code(); code != 3 {
			t.Errorf("exit code %d", code)
		}
		tm.restored(before)
	})
}

// TestTerminalSettings checks that the user's terminal settings apply inside.
func TestTerminalSettings(t *testing.T) {
	harness.AsUser(t)
	terminalTest(t, func(t *testing.T, l *lodging) {
		l.env = append(l.env, "TERM=bothy-unheard-of", "COLORTERM=truecolor", "TERM_PROGRAM=Mine", "TERM_PROGRAM_VERSION=1.2", "FORCE_COLOR=1")
		tm := openTerminal(t)
		tm.pixels(37, 91, 910, 740)
		start := l.command("run", "shell", ".")
		shell := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", `umask 027; exec "$@"`, "sh"}, start.Args...)...)
		shell.Dir, shell.Env = start.Dir, start.Env
		tm.start(shell)
		if got := tm.ask("echo $TERM $COLORTERM $TERM_PROGRAM $TERM_PROGRAM_VERSION $FORCE_COLOR"); got != "xterm-256color truecolor Mine 1.2 1" {
			t.Errorf("the terminal's variables are %q", got)
		}
		if got := tm.ask("umask"); got != "0027" {
			t.Errorf("the file mode mask is %q", got)
		}
		if _, err := exec.LookPath("python3"); err == nil {
			size := `python3 -c 'import fcntl, struct, termios; print(*struct.unpack("HHHH", fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))))'`
			if got := tm.ask(size); got != "37 91 910 740" {
				t.Errorf("rows, columns and pixels are %q", got)
			}
			tm.pixels(20, 50, 500, 400)
			for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
				got := tm.ask(size)
				if got == "20 50 500 400" {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("after a change they are %q", got)
				}
			}
		}
		tm.press("exit\r")
		tm.code()

		// An explicit setting wins.
		tm = openTerminal(t)
		tm.start(l.command("run", "-e", "COLORTERM=mine", "shell", "."))
		if got := tm.ask("echo $COLORTERM"); got != "mine" {
			t.Errorf("COLORTERM is %q", got)
		}
		tm.press("exit\r")
		tm.code()
		if got := l.bothy("exec", "shell-proj", "env"); strings.Contains(got, "COLORTERM=true") || strings.Contains(got, "FORCE_COLOR") {
			t.Errorf("a command without a terminal has\n%s", got)
		}
	})
}

// pixels is resize for a terminal that knows the size of its characters.
func (tm *terminal) pixels(rows, cols, width, height uint16) {
	tm.t.Helper()
	size := unix.Winsize{Row: rows, Col: cols, Xpixel: width, Ypixel: height}
	if err := unix.IoctlSetWinsize(int(tm.Emulator.Fd()), unix.TIOCSWINSZ, &size); err != nil {
		tm.t.Fatal(err)
	}
}

func TestTerminalBulk(t *testing.T) {
	harness.AsUser(t)
	terminalTest(t, func(t *testing.T, l *lodging) {
		tm := l.terminal("run", "shell", ".", "--", "bash", "-c", `stty raw -echo; printf 'go{'; head -c 300000 | sha256sum; printf '}'; stty sane; seq 100000; echo end`)
		tm.expect(`go\{`)
		typed := strings.Repeat("0123456789abcdefghijklmnopqrs\n", 10000)
		go func() { _, _ = tm.Emulator.WriteString(typed) }()
		if got, want := tm.expect(`([0-9a-f]{64})`)[1], fmt.Sprintf("%x", sha256.Sum256([]byte(typed))); got != want {
			t.Errorf("300000 bytes typed arrive as others")
		}
		out := tm.expect(`\}(.*)end\r\n`)[1]
		if lines := strings.Count(out, "\r\n"); lines != 100000 || !strings.Contains(out, "\r\n54321\r\n") {
			t.Errorf("%d lines of 100000 shown", lines)
		}
		if code := tm.code(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
}

// TestTerminalLeft checks that processes left on a program's terminal do not keep its session alive:
// neither one that writes for ever, nor one that only holds the terminal open.
func TestTerminalLeft(t *testing.T) {
	harness.AsUser(t)
	terminalTest(t, func(t *testing.T, l *lodging) {
		for code, command := range map[int]string{3: "trap '' HUP; yes & read; exit 3", 4: "trap '' HUP; sleep 1000 & echo said; exit 4"} {
			tm := l.terminal("run", "shell", ".", "--", "bash", "-c", command)
			tm.expect("y\r\ny|said\r\n")
			tm.press("\r") // the writer has begun
			if got := tm.code(); got != code {
				t.Errorf("%s: exit code %d", command, got)
			}
		}
	})
}

func TestTerminalKeys(t *testing.T) {
	harness.AsUser(t)
	terminalTest(t, func(t *testing.T, l *lodging) {
		tm := l.terminal("run", "shell", ".")
		tm.ask("true")

		// Ctrl-C goes to the program.
		tm.works("sleep 1000", "; echo ended with $?")
		tm.press(ctrlC)
		tm.ask("true")
		tm.press("bash -c 'trap \"echo caught-\\$((2+2)); exit 7\" INT; echo armed-$((3+3)); while :; do sleep 0.1; done'; echo code-$?\r")
		tm.expect("armed-6")
		tm.press(ctrlC)
		tm.expect("caught-4")
		tm.expect("code-7")

		// Job control. The kernel inside loses a Ctrl-Z that arrives while sleep is being executed, just
		// after works returns (docs/design/run.md).
		tm.works("sleep 1001", "")
		tm.again(ctrlZ, `Stopped +.*sleep 1001`)
		if got := tm.ask("jobs"); !strings.Contains(got, "Stopped") {
			t.Errorf("jobs says %q", got)
		}
		tm.press("bg\r")
		tm.expect("sleep 1001' &")
		if got := tm.ask("jobs"); !strings.Contains(got, "Running") {
			t.Errorf("jobs says %q", got)
		}
		tm.press("fg\r")
		tm.expect(`fg\r\n.*sleep 1001`)
		tm.again(ctrlC+"echo code-$?\r", "code-130")

		// Ctrl-\ once goes to the program too, a little later.
		tm.works("sleep 1002", "; echo code-$?")
		tm.press(ctrlQuit)
		tm.expect("code-131")
		if l.bothy("exec", "shell-proj", "sh", "-c", "pgrep sleep || echo none"); !strings.Contains(l.bothy("ls"), "running") {
			t.Error("it does not run any more")
		}

		// Ctrl-D at the prompt ends the shell.
		tm.press(ctrlD)
		if code := tm.code(); code != 131 && code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
}

// TestTerminalSuspend checks that Ctrl-Z does not stop a program that no shell could continue:
// one that leads its session, one in its leader's group, one whose terminal has another key for
// it, and one on a terminal that a program inside has made. A handler for the signal runs.
func TestTerminalSuspend(t *testing.T) {
	harness.AsUser(t)
	terminalTest(t, func(t *testing.T, l *lodging) {
		l.bothy("create", "shell", ".")
		for name, c := range map[string]struct{ script, key string }{
			"leader":     {`echo up-$((1+1)); exec cat`, ctrlZ},
			"group":      {`echo up-$((1+1)); cat; true`, ctrlZ},
			"other key":  {`stty susp ^Y; echo up-$((1+1)); exec cat`, "\x19"},
			"terminal":   {`exec script -qec "sh -c 'echo up-\$((1+1)); exec cat'" /dev/null`, ctrlZ},
			"of a shell": {`exec script -qec "bash -c 'echo up-\$((1+1)); cat; true'" /dev/null`, ctrlZ},
		} {
			t.Run(name, func(t *testing.T) {
				tm := l.terminal("exec", "-it", "shell-proj", "sh", "-c", c.script)
				tm.expect("up-2")
				for _, line := range []string{"first", "second"} {
					tm.press(c.key + line + "\r")
					tm.expect(line + "\r\n" + line + "\r\n") // its echo, and the output of cat
				}
				tm.press(ctrlD)
				if code := tm.code(); code != 0 {
					t.Errorf("exit code %d", code)
				}
			})
		}
		tm := l.terminal("exec", "-it", "shell-proj", "bash", "-c", `trap 'echo caught-$((2+2))' TSTP; echo up-$((1+1)); read line; echo "got-$line"`)
		tm.expect("up-2")
		tm.press(ctrlZ)
		tm.press("more\r")
		tm.expect("caught-4.*got-more")
		tm.code()
	})
}

func TestTerminalDetach(t *testing.T) {
	harness.AsUser(t)
	terminalTest(t, func(t *testing.T, l *lodging) {
		tm := openTerminal(t)
		before := tm.settings()
		tm.start(l.command("run", "shell", "."))
		tm.press("X=kept-$((20+22))\r")
		pid := tm.ask("echo $$")
		tm.press(detachKeys)
		tm.expect(`bothy: detached; the session goes on: bothy run --name shell-proj\r\n`)
		if code := tm.code(); code != 0 {
			t.Errorf("detaching ends with %d", code)
		}
		tm.restored(before)
		waitFor(t, "nobody to be attached", func() bool {
			return checkJSON(l.bothy("inspect", "shell-proj"), []string{"sessions.kind=agent.attached", "=", "0"}) == nil
		})

		// Back to the same shell, from a terminal of another size.
		tm2 := openTerminal(t)
		tm2.resize(40, 100)
		tm2.start(l.command("run", "shell", "."))
		tm2.expect("back in the running session")
		if got := tm2.ask("echo $X $$; stty size </dev/tty"); strings.ReplaceAll(got, "\r", "") != "kept-42 "+pid+"\n40 100" {
			t.Errorf("the shell with pid %s says %q", pid, got)
		}

		// Its program continues meanwhile.
		tm2.press("for i in 1 2 3; do sleep 0.3; echo tick-$((i*11)); done; echo all-$((6*7)) > done\r")
		tm2.expect("tick-11")
		tm2.press(detachKeys)
		tm2.expect("detached")
		tm2.code()
		waitFor(t, "the program", func() bool {
			b, _ := os.ReadFile(filepath.Join(l.proj, "done"))
			return string(b) == "all-42\n"
		})

		// A program that reads its size late still redraws for a user who attaches again.
		tm2 = openTerminal(t)
		tm2.resize(40, 100)
		tm2.start(l.command("run", "shell", "."))
		tm2.press("was=$(stty size); echo armed-$((1+1)); while now=$(stty size); [ \"$now\" = \"$was\" ]; do sleep 0.4; done; echo drawn $now\r")
		tm2.expect("armed-2")
		tm2.press(detachKeys)
		tm2.expect("detached")
		tm2.code()
		// Each attach shows it another size for a while; another attach repeats that.
		waitFor(t, "a program that draws itself", func() bool {
			tm2 = openTerminal(t)
			tm2.resize(40, 100)
			tm2.start(l.command("run", "shell", "."))
			tm2.expect("back in the running session")
			drawn := tm2.comes("drawn 39 99", 8*time.Second) != nil
			tm2.press(detachKeys)
			tm2.expect("detached")
			tm2.code()
			return drawn
		})

		// The keys in two pieces, and by the sandbox's name.
		tm3 := l.terminal("run", "--name", "shell-proj")
		if got := tm3.ask("echo $$"); got != pid {
			t.Errorf("another shell, %s, not %s", got, pid)
		}
		waitFor(t, "both pieces to be taken for the keys", func() bool { // a late second piece does not count
			tm3.press(ctrlQuit)
			time.Sleep(100 * time.Millisecond)
			tm3.press(ctrlQuit)
			return tm3.comes("detached", time.Second) != nil
		})
		tm3.code()

		// A terminal that is closed leaves the shell running, too.
		tm4 := l.terminal("run", "shell-proj")
		tm4.ask("true")
		tm4.Line.Close()
		tm4.Emulator.Close()
		tm4.code()
		tm5 := l.terminal("run", "shell-proj")
		if got := tm5.ask("echo $X $$"); got != "kept-42 "+pid {
			t.Errorf("after a hang-up the shell with pid %s says %q", pid, got)
		}
		tm5.press("exit\r")
		if code := tm5.code(); code != 0 {
			t.Errorf("exit code %d", code)
		}

		// After the shell's end, the next run starts a new one.
		tm6 := l.terminal("run", "shell-proj")
		if got := tm6.ask("echo .$X."); got != ".." {
			t.Errorf("a new shell says %q", got)
		}
		tm6.press("exit\r")
		tm6.code()
	})
}

func TestTerminalDetachKeys(t *testing.T) {
	harness.AsUser(t)
	terminalTest(t, func(t *testing.T, l *lodging) {
		tm := l.terminal("run", "--detach-keys", "ctrl-p,ctrl-q", "shell", ".")
		pid := tm.ask("echo $$")
		tm.works("sleep 1000", "; echo code-$?")
		tm.press(detachKeys)
		tm.expect("code-131") // not ours now
		tm.press("\x10\x11")
		tm.expect("detached")
		if code := tm.code(); code != 0 {
			t.Errorf("exit code %d", code)
		}

		// By configuration; a single key.
		config := filepath.Join(l.proj, "..", "home", ".config", "bothy", "config.yaml")
		if err := os.WriteFile(config, []byte("detach_keys: ctrl-]\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		tm = l.terminal("run", "shell", ".")
		if got := tm.ask("echo $$"); got != pid {
			t.Errorf("another shell, %s, not %s", got, pid)
		}
		tm.press("\x1d")
		tm.expect("detached")
		tm.code()
		if err := os.Remove(config); err != nil {
			t.Fatal(err)
		}

		// A command started by exec -it continues as well.
		tm = l.terminal("exec", "-it", "shell-proj", "sh", "-c", "echo up-$((1+1)); sleep 1; echo over > over")
		tm.expect("up-2")
		tm.press(detachKeys)
		tm.expect("detached; the command goes on in shell-proj")
		if code := tm.code(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		waitFor(t, "the command", func() bool { _, err := os.Stat(filepath.Join(l.proj, "over")); return err == nil })

		cmd := l.command("run", "--detach-keys", "ctrl-nonsense", "shell", ".")
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 2 {
			t.Errorf("nonsense detach keys: %d %s", cmd.ProcessState.ExitCode(), out)
		}
	})
}

// modes turns on the modes of a full-screen program.
const modes = `printf '\033[?1049h\033[?25l\033[?1000h\033[?1006h\033[?2004h\033[?1h\033=drawn-%s' $((50+5))`

// undone waits for the sequences that must come before the shell's prompt.
func (tm *terminal) undone() {
	tm.t.Helper()
	for _, seq := range []string{"\x1b[?1049l", "\x1b[?25h", "\x1b[?1000l", "\x1b[?2004l"} {
		waitFor(tm.t, fmt.Sprintf("the terminal to see %q", seq), func() bool {
			tm.mu.Lock()
			defer tm.mu.Unlock()
			shown := string(tm.screen)
			return strings.Contains(shown[strings.LastIndex(shown, "drawn-55"):], seq)
		})
	}
}

// TestTerminalGoesOn checks that a shell resumes from a full checkpoint, and in forks, with its
// terminal.
func TestTerminalGoesOn(t *testing.T) {
	harness.AsUser(t)
	terminalTest(t, func(t *testing.T, l *lodging) {
		tm := l.terminal("run", "--workspace", "review", "shell", ".")
		tm.press("X=kept-$((20+22))\r")
		pid := tm.ask("echo $$")
		// A person is attached during the checkpoint, and notices nothing.
		l.bothy("checkpoint", "create", "--full", "shell-proj", "there")
		l.bothy("fork", "shell-proj")
		if got := tm.ask("echo $X $$"); got != "kept-42 "+pid {
			t.Errorf("the shell with pid %s says %q", pid, got)
		}
		tm.press("X=other\r")
		tm.press(detachKeys)
		tm.expect("detached")
		tm.code()
		l.bothy("checkpoint", "restore", "-f", "shell-proj", "there")
		for _, name := range []string{"shell-proj", "shell-proj-fork-1"} {
			back := openTerminal(t)
			back.resize(40, 100)
			back.start(l.command("run", name))
			back.expect("back in the running session")
			if got := back.ask("echo $X $$; stty size </dev/tty"); strings.ReplaceAll(got, "\r", "") != "kept-42 "+pid+"\n40 100" {
				t.Errorf("%s: the shell with pid %s says %q", name, pid, got)
			}
			back.press("sh -c 'echo on-$((1+1)); exec sleep 1000'\r")
			back.expect("on-2")
			back.press(ctrlC)
			if got := back.ask("echo $?"); got != "130" {
				t.Errorf("%s: interrupted, it says %q", name, got)
			}
			back.press("exit 3\r")
			if code := back.code(); code != 3 {
				t.Errorf("%s: exit code %d", name, code)
			}
		}
	})
}

func TestTerminalRestore(t *testing.T) {
	harness.AsUser(t)
	terminalTest(t, func(t *testing.T, l *lodging) {
		l.bothy("create", "shell", ".")
		for _, end := range []struct {
			name string
			code int
			do   func(tm *terminal)
		}{
			{"detach", 0, func(tm *terminal) { tm.press(detachKeys) }},
			{"SIGTERM", 128 + 15, func(tm *terminal) { _ = tm.cmd.Process.Signal(unix.SIGTERM) }},
			{"SIGHUP", 128 + 1, func(tm *terminal) { _ = tm.cmd.Process.Signal(unix.SIGHUP) }},
			{"exit", 4, func(tm *terminal) { tm.press("\rexit 4\r") }},
			{"program killed", 128 + 9, func(tm *terminal) { tm.press("\rkill -9 $$\r") }},
			{"stop", -1, func(*terminal) { l.bothy("stop", "shell-proj") }},
			{"sentry killed", 125, func(*terminal) { l.kill("runsc-sandbox") }},
			{"keeper killed", 125, func(*terminal) { l.kill("bothy-keeper") }},
			{"rm -f", 125, func(*terminal) { l.bothy("rm", "-f", "shell-proj") }},
		} {
			tm := openTerminal(t)
			before := tm.settings()
			tm.start(l.command("run", "shell-proj"))
			tm.ask("true")
			tm.press(modes + "\r")
			tm.expect("drawn-55")
			end.do(tm)
			code := tm.code()
			if end.code >= 0 && code != end.code {
				t.Errorf("%s: exit code %d, want %d, after %q", end.name, code, end.code, tm.shown())
			}
			tm.undone()
			tm.restored(before)
			if t.Failed() {
				t.Fatalf("after %s", end.name)
			}
		}
	})
}

// kill kills processes of this lodging by the name they run under.
func (l *lodging) kill(name string) {
	l.t.Helper()
	killed := 0
	for _, pid := range l.home.pids() {
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if bytes.HasPrefix(line, []byte(name)) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			killed++
		}
	}
	if killed == 0 {
		l.t.Errorf("there is no %s to kill", name)
	}
}

func TestTerminalExec(t *testing.T) {
	harness.AsUser(t)
	terminalTest(t, func(t *testing.T, l *lodging) {
		tm := openTerminal(t)
		before := tm.settings()
		l.bothy("create", "shell", ".")
		tm.start(l.command("exec", "-it", "shell-proj", "sh", "-c", "tty; stty size; read x; echo got-$x; echo err >&2; exit 9"))
		tm.expect("/dev/pts/")
		tm.expect("24 80")
		tm.press("some text\r")
		tm.expect("got-some text")
		tm.expect("err")
		if code := tm.code(); code != 9 {
			t.Errorf("exit code %d", code)
		}
		tm.restored(before)

		// Without -t the program inside has no terminal, though bothy has one.
		tm.start(l.command("exec", "-i", "shell-proj", "sh", "-c", "tty; cat"))
		tm.expect("not a tty")
		tm.press("line\r" + ctrlD)
		tm.expect("line\r\nline")
		tm.code()
		tm.restored(before)
		tm.start(l.command("exec", "shell-proj", "sh", "-c", "cat; echo no input"))
		tm.expect("no input")
		tm.code()

		// Ctrl-C on a command without a terminal of its own ends it.
		tm.start(l.command("exec", "shell-proj", "sh", "-c", "echo up-$((1+1)); exec sleep 1000"))
		tm.expect("up-2")
		tm.press(ctrlC)
		if code := tm.code(); code != 130 {
			t.Errorf("exit code %d after Ctrl-C", code)
		}

		// A command that cannot be run, or does not exist.
		tm.start(l.command("exec", "-it", "shell-proj", "no-such-program"))
		tm.expect("bothy: error: .*no-such-program")
		if code := tm.code(); code != 127 {
			t.Errorf("exit code %d", code)
		}
		tm.start(l.command("exec", "-it", "shell-proj", "/etc/passwd"))
		if code := tm.code(); code != 126 {
			t.Errorf("exit code %d", code)
		}
		tm.restored(before)

		// An archive contains names and bytes that the inside chose.
		tm.start(l.command("cp", "shell-proj:/etc/passwd", "-"))
		tm.expect("an archive is nothing for a terminal")
		if code := tm.code(); code != 2 || strings.Contains(tm.shown(), "ustar") {
			t.Errorf("cp to a terminal: exit code %d", code)
		}

		// A pipe on one side means no terminal inside.
		pipe := l.command("run", "shell", ".", "--", "tty")
		pipe.Stdin = tm.Line
		if out, _ := pipe.Output(); string(out) != "not a tty\n" {
			t.Errorf("with a pipe for output, tty says %q", out)
		}
		if out := l.bothy("run", "--tty", "shell", ".", "--", "tty"); !strings.HasPrefix(out, "/dev/pts/") {
			t.Errorf("with --tty, tty says %q", out)
		}
	})
}

func TestTerminalTwo(t *testing.T) {
	harness.AsUser(t)
	terminalTest(t, func(t *testing.T, l *lodging) {
		one := openTerminal(t)
		one.resize(40, 120)
		one.start(l.command("run", "shell", "."))
		pid := one.ask("echo $$")
		two := openTerminal(t)
		two.resize(30, 140)
		two.start(l.command("run", "shell", "."))
		if got := two.ask("echo $$"); got != pid {
			t.Errorf("another shell, %s, not %s", got, pid)
		}
		one.expect(`\{1001:` + pid + `\}`) // both see it
		if got := one.ask("stty size </dev/tty"); got != "30 120" {
			t.Errorf("with 40×120 and 30×140 the size is %q", got)
		}
		two.press(detachKeys)
		two.expect("detached")
		two.code()
		waitFor(t, "the size", func() bool { return one.ask("stty size </dev/tty") == "40 120" })
		one.press("exit\r")
		one.code()
	})
}

func TestTerminalQuestions(t *testing.T) {
	harness.AsUser(t)
	terminalTest(t, func(t *testing.T, l *lodging) {
		l.bothy("create", "--name", "first", "shell")
		l.bothy("create", "--name", "second", "shell")
		for _, answer := range []string{"n\r", "\r", "nonsense\r", ctrlD} {
			tm := l.terminal("rm", "first")
			tm.expect(`remove sandbox first.*\[y/N\] `)
			tm.press(answer)
			if code := tm.code(); code != 3 {
				t.Errorf("%q: exit code %d", answer, code)
			}
		}
		if got := l.bothy("ls", "-q"); got != "first\nsecond\n" {
			t.Errorf("ls says %q", got)
		}
		tm := l.terminal("rm", "first")
		tm.expect(`\[y/N\] `)
		tm.press("y\r")
		tm.expect("first")
		if code := tm.code(); code != 0 {
			t.Errorf("exit code %d", code)
		}

		tm = l.terminal("reset")
		tm.expect(`remove 1 sandbox, .*\[y/N\] `)
		tm.press("no\r")
		if code := tm.code(); code != 3 {
			t.Errorf("exit code %d", code)
		}
		tm = l.terminal("rm", "-f", "second")
		if code := tm.code(); code != 0 || strings.Contains(tm.shown(), "[y/N]") {
			t.Errorf("rm -f: exit code %d, %q", code, tm.shown())
		}
		l.bothy("create", "--name", "third", "shell")
		tm = l.terminal("reset")
		tm.expect(`\[y/N\] `)
		tm.press("yes\r")
		if code := tm.code(); code != 0 {
			t.Errorf("exit code %d", code)
		}

		// Ctrl-C at a question answers it.
		l.bothy("create", "--name", "fourth", "shell")
		tm = l.terminal("rm", "fourth")
		tm.expect(`\[y/N\] `)
		tm.press(ctrlC)
		if code := tm.code(); code == 0 {
			t.Error("Ctrl-C at a question counts as success")
		}
		if got := l.bothy("ls", "-q"); got != "fourth\n" {
			t.Errorf("ls says %q", got)
		}
	})
}

// TestTerminalApply checks that a person decides hunk by hunk.
func TestTerminalApply(t *testing.T) {
	harness.AsUser(t)
	terminalTest(t, func(t *testing.T, l *lodging) {
		var was strings.Builder
		for n := range 40 {
			fmt.Fprintf(&was, "line %d\n", n)
		}
		file := filepath.Join(l.proj, "text")
		write := func(name, text string) {
			if err := os.WriteFile(filepath.Join(l.proj, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		write("text", was.String())
		write("gone", "soon\n")
		write("stays", "here\n")
		l.bothy("run", "--name", "box", "--workspace", "review", "shell", l.proj, "--", "sh", "-ec",
			`sed -i 's/^line 3$/three\x1b[31m/; s/^line 20$/twenty/; s/^line 36$/thirty-six/' text; rm gone stays; mkdir -p new/er; echo 1 > new/er/one; printf 'all:\n' > Makefile`)
		tm := l.terminal("apply", "-i", "box")
		tm.expect(`It may run on this host later(?s:.*)apply Makefile, added\? \[y,n,q,\?\] `)
		tm.press("n\r")
		tm.expect(`-soon(?s:.*)apply gone, deleted\?`)
		tm.press("y\r")
		tm.expect(`\+1(?s:.*)apply new/er/one, added\?`)
		tm.press("maybe\r")
		tm.expect(`nothing more(?s:.*)apply new/er/one, added\?`)
		tm.press("Y\r")
		tm.expect(`apply stays, deleted\?`)
		tm.press("n\r")
		tm.expect(`\+three\\x1b\[31m(?s:.*)apply this hunk of text, 1 of 3\? \[y,n,a,d,q,\?\] `)
		tm.press("n\r")
		tm.expect(`\+twenty(?s:.*)2 of 3`)
		tm.press("y\r")
		tm.expect(`\+thirty-six(?s:.*)3 of 3`)
		tm.press("d\r")
		tm.expect(`partly text`)
		if code := tm.code(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		got, err := os.ReadFile(file)
		if want := strings.Replace(was.String(), "line 20", "twenty", 1); err != nil || string(got) != want {
			t.Errorf("%v, %s", err, got)
		}
		for name, want := range map[string]bool{"gone": false, "stays": true, "new/er/one": true, "Makefile": false} {
			if _, err := os.Stat(filepath.Join(l.proj, name)); (err == nil) != want {
				t.Errorf("%s: %v", name, err)
			}
		}

		// Hanging up or quitting does not mean yes. The remaining changes can be applied later.
		for _, answer := range []string{ctrlD, "q\r"} {
			tm = l.terminal("apply", "-i", "box", "text", "stays")
			tm.expect(`apply stays`)
			tm.press(answer)
			tm.expect("declined text")
			tm.code()
		}
		tm = l.terminal("apply", "-i", "box", "text", "stays")
		tm.expect(`apply stays`)
		tm.press("y\r")
		tm.expect(`1 of 2`)
		tm.press(ctrlC)
		tm.expect("nothing was applied; waiting as before: 2 changes")
		if code := tm.code(); code != 130 {
			t.Errorf("exit code %d", code)
		}
		tm = l.terminal("apply", "-i", "box", "text")
		tm.expect(`1 of 2`)
		tm.press("a\r")
		tm.expect(`applied text`)
		tm.code()
		if got, _ := os.ReadFile(file); !strings.Contains(string(got), "three\x1b") || !strings.Contains(string(got), "thirty-six") {
			t.Errorf("%s", got)
		}
		cmd := l.command("apply", "-i", "box")
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "needs a terminal") {
			t.Errorf("without a terminal: %d, %s", cmd.ProcessState.ExitCode(), out)
		}
	})
}

func TestTerminalTop(t *testing.T) {
	harness.AsUser(t)
	terminalTest(t, func(t *testing.T, l *lodging) {
		l.bothy("run", "-d", "shell", ".", "--", "sleep", "1000")
		tm := l.terminal("version")
		before := tm.settings() // top would change them at its start
		tm.code()
		tm = l.terminal("top")
		tm.expect("SANDBOX.*shell-proj")
		tm.expect("SANDBOX.*shell-proj") // again, a moment later
		tm.press(ctrlC)
		if code := tm.code(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		tm.restored(before)

		tm = l.terminal("top")
		tm.expect("SANDBOX.*shell-proj")
		tm.press("xq")
		if code := tm.code(); code != 0 {
			t.Errorf("exit code %d after q", code)
		}
		tm.restored(before)
	})
}

// waitFor waits until a condition holds.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// hostShell runs an interactive shell of the host on a terminal.
func (l *lodging) hostShell() *terminal {
	l.t.Helper()
	tm := openTerminal(l.t)
	cmd := exec.CommandContext(l.t.Context(), "bash", "--norc", "--noprofile", "-i")
	cmd.Dir, cmd.Env = l.proj, append(l.env, "PS1=host> ")
	tm.start(cmd)
	tm.expect("host> ")
	return tm
}

func TestTerminalHostJobs(t *testing.T) {
	harness.AsUser(t)
	terminalTest(t, func(t *testing.T, l *lodging) {
		l.bothy("run", "shell", ".", "--", "true")
		tm := l.hostShell()

		// A command in the background writes, and stops when it would read.
		tm.press("bothy exec shell-proj sh -c 'sleep 0.3; echo back-$((1+1))' &\r")
		tm.expect("back-2")
		tm.press("wait; echo waited-$((3+3))\r")
		tm.expect("waited-6")
		tm.press("bothy exec -i shell-proj cat &\r")
		tm.again("\r", "Stopped")
		tm.press("fg\r")
		tm.expect("exec -i shell-proj cat")
		time.Sleep(300 * time.Millisecond)
		tm.press("a line\r" + ctrlD)
		tm.expect("a line\r\na line")

		// Ctrl-Z stops a command that has no terminal inside; fg continues it.
		tm.press("bothy exec shell-proj sh -c 'echo up-$((3+4)); until test -e go; do sleep 0.1; done; echo later-$((2+2))'; echo ended-$?\r")
		tm.expect("up-7")
		tm.press(ctrlZ)
		tm.expect("Stopped")
		if err := os.WriteFile(filepath.Join(l.proj, "go"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		tm.press("fg\r")
		tm.expect("later-4")

		// A shell that is started in the background waits to be brought to the foreground.
		tm.press("bothy run shell . &\r")
		tm.again("\r", "Stopped")
		tm.press("fg\r")
		tm.expect("run shell")
		time.Sleep(300 * time.Millisecond)
		tm.press("\r")
		if got := tm.ask("uname -r"); !strings.HasSuffix(got, "gvisor") {
			t.Errorf("uname -r says %q", got)
		}
		tm.press("exit 5\r")
		tm.expect("host> ")
		if got := tm.ask("echo $?; stty -a"); !regexp.MustCompile(`^5\r\n`).MatchString(got) ||
			!regexp.MustCompile(`[^-]icanon.*[^-]echo `).MatchString(got) {
			t.Errorf("afterwards the host's shell says %q", got)
		}
		tm.press("exit\r")
		tm.code()
	})
}
