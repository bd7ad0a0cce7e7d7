package credential

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
)

// readerVar makes this binary, started again, read the value of a command with
// this text, as bothy would.
const readerVar = "BOTHY_TEST_SOURCE"

// foreignVar makes it read the value as another program would, which handles SIGTERM itself.
const foreignVar = "BOTHY_TEST_FOREIGN"

// readSourceOf prints the value of a command, as this binary does when it is started again.
func readSourceOf(script string) int {
	s := vault.Secret{Name: "mine", Source: vault.Source{Kind: vault.SourceCommand, Command: []string{"/bin/sh", "-c", script}}}
	dir, err := os.MkdirTemp("", "source")
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	st, err := store.Open(dir)
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	desk := deskAt(st)
	if _, foreign := os.LookupEnv(foreignVar); foreign {
		sigs := make(chan os.Signal, 1)
		signal.Notify(sigs, unix.SIGTERM)
		go func() {
			for s := range sigs {
				fmt.Println("handled:", s)
			}
		}()
	} else {
		desk.OwnProcess = true
	}
	v, err := desk.readValue(&vault.Document{Secrets: []vault.Secret{s}}, s.Name)
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	if tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0); err == nil {
		if group, _ := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP); group != unix.Getpgrp() {
			fmt.Println("failed: we are in the background now")
			return 1
		}
	}
	fmt.Printf("value: %s\n", v)
	return 0
}

func reader(script string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), readerVar+"="+script)
	return cmd
}

// family is a command whose child's child holds the far end of a pipe open as
// long as it lives, and that does not mind signals.
type family struct {
	script string
	end    *os.File
}

func newFamily(t *testing.T) *family {
	t.Helper()
	fifo := filepath.Join(t.TempDir(), "fifo")
	must(t, unix.Mkfifo(fifo, 0o600))
	end, err := os.OpenFile(fifo, os.O_RDONLY|unix.O_NONBLOCK, 0)
	must(t, err)
	t.Cleanup(func() { end.Close() })
	inner := "exec 9>" + fifo + "; echo up >&9; while :; do sleep 1000; done"
	return &family{script: fmt.Sprintf(`trap "" INT TERM HUP; (trap "" INT TERM HUP; sh -c '%s' & wait); wait`, inner), end: end}
}

// up waits until the grandchild is there.
func (f *family) up(t *testing.T) {
	t.Helper()
	b := make([]byte, 3)
	for deadline := time.Now().Add(time.Minute); ; {
		_ = f.end.SetReadDeadline(deadline)
		n, err := f.end.Read(b)
		if n > 0 {
			return
		}
		if !errors.Is(err, io.EOF) || time.Now().After(deadline) { // the other end is not open yet
			t.Fatalf("it does not come up: %v", err)
		}
		time.Sleep(time.Millisecond)
	}
}

// gone waits until all processes of the family have ended.
func (f *family) gone(t *testing.T) {
	t.Helper()
	_ = f.end.SetReadDeadline(time.Now().Add(time.Minute))
	if rest, err := io.ReadAll(f.end); err != nil {
		t.Errorf("a process of it is left: %q, %v", rest, err)
	}
}

// TestCommandCancelled checks that a cancelled command ends with all that it started.
func TestCommandCancelled(t *testing.T) {
	f := newFamily(t)
	ctx, cancel := context.WithCancel(here)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := new(Values).runSource(ctx, new(hostpath.Guard), []string{"/bin/sh", "-c", f.script})
		done <- err
	}()
	f.up(t)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	f.gone(t)
}

// TestCommandLeavesSomething checks that a failed command ends with all that it started.
func TestCommandLeavesSomething(t *testing.T) {
	f := newFamily(t)
	ready := filepath.Join(t.TempDir(), "ready")
	must(t, unix.Mkfifo(ready, 0o600))
	done := make(chan error, 1)
	go func() {
		_, err := new(Values).runSource(here, new(hostpath.Guard), []string{"/bin/sh", "-c", "(" + f.script + ") & read x <" + ready + "; exit 3"})
		done <- err
	}()
	f.up(t)
	must(t, os.WriteFile(ready, []byte("\n"), 0))
	if err := <-done; err == nil {
		t.Error("it did not fail")
	}
	f.gone(t)
}

// heed makes sure that processes started by the test do not ignore a signal, as they would under nohup.
func heed(t *testing.T, s os.Signal) {
	heeded := make(chan os.Signal, 1)
	signal.Notify(heeded, s)
	t.Cleanup(func() { signal.Stop(heeded) })
}

// TestCommandInterrupted checks that a signal that ends this process ends the command first, and
// this process after it.
func TestCommandInterrupted(t *testing.T) {
	for _, s := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		f := newFamily(t)
		cmd := reader(f.script)
		heed(t, s)
		must(t, cmd.Start())
		f.up(t)
		must(t, cmd.Process.Signal(s))
		f.gone(t)
		_ = cmd.Wait()
		if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); !ws.Signaled() || ws.Signal() != s {
			t.Errorf("after %s: %s", s, cmd.ProcessState)
		}
	}
}

// TestCommandInForeignProcess checks that a signal to a process that is not Bothy's own is left to that
// process, and does not end the command.
func TestCommandInForeignProcess(t *testing.T) {
	dir := t.TempDir()
	up, goOn := filepath.Join(dir, "up"), filepath.Join(dir, "on")
	must(t, errors.Join(unix.Mkfifo(up, 0o600), unix.Mkfifo(goOn, 0o600)))
	cmd := reader("echo up >" + up + "; read x <" + goOn + "; echo $x")
	cmd.Env = append(cmd.Env, foreignVar+"=")
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	_, err = os.ReadFile(up)
	must(t, err)
	must(t, cmd.Process.Signal(unix.SIGTERM))
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "handled: terminated\n" {
		t.Fatalf("%q, %v", line, err)
	}
	must(t, os.WriteFile(goOn, []byte(canary+"\n"), 0))
	if line, err := lines.ReadString('\n'); line != "value: "+canary+"\n" {
		t.Errorf("%q, %v", line, err)
	}
}

// TestCommandHasNoForeignTerminal checks that a command cannot use the terminal of a process that is not
// Bothy's own, and is not stopped when it tries to.
func TestCommandHasNoForeignTerminal(t *testing.T) {
	cmd := reader(`if (: </dev/tty) 2>/dev/null; then echo a terminal; else echo no terminal; fi`)
	cmd.Env = append(cmd.Env, foreignVar+"=")
	_, screen := onTerminal(t, cmd)
	screen.waitFor(t, "value: no terminal")
}

// TestCommandAsks checks that a command may ask a question at the terminal, and that this process
// is in the foreground again afterwards.
func TestCommandAsks(t *testing.T) {
	line, screen := onTerminal(t, reader(`printf 'who? ' >/dev/tty; read x </dev/tty; echo "$x"`))
	screen.waitFor(t, "who? ")
	_, err := line.WriteString(canary + "\n")
	must(t, err)
	screen.waitFor(t, "value: "+canary)
}

// TestCommandInterruptedAtTerminal checks that an interrupt from the keyboard, which only the
// command receives, ends this process too.
func TestCommandInterruptedAtTerminal(t *testing.T) {
	heed(t, unix.SIGINT)
	cmd := reader(`stty -echo </dev/tty; printf 'who? ' >/dev/tty; read x </dev/tty`)
	line, screen := onTerminal(t, cmd)
	screen.waitFor(t, "who? ")
	_, err := line.WriteString("\x03")
	must(t, err)
	_ = cmd.Wait()
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); !ws.Signaled() || ws.Signal() != unix.SIGINT {
		t.Errorf("%s; on the terminal: %q", cmd.ProcessState, screen.text)
	}
	settings, err := unix.IoctlGetTermios(int(line.Fd()), unix.TCGETS)
	must(t, err)
	if settings.Lflag&unix.ECHO == 0 {
		t.Error("the terminal does not show what is typed any more")
	}
}

// screen is the text that a terminal shows.
type screen struct {
	emulator *os.File
	text     []byte
}

// onTerminal starts a command as the first process of a session with a terminal.
func onTerminal(t *testing.T, cmd *exec.Cmd) (*os.File, *screen) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	emulator := os.NewFile(uintptr(fd), "emulator")
	t.Cleanup(func() { emulator.Close() })
	must(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	must(t, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	t.Cleanup(func() { tty.Close() })
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return emulator, &screen{emulator: emulator}
}

func (s *screen) waitFor(t *testing.T, text string) {
	t.Helper()
	_ = s.emulator.SetReadDeadline(time.Now().Add(time.Minute))
	for b := make([]byte, 1024); !bytes.Contains(s.text, []byte(text)); {
		n, err := s.emulator.Read(b)
		if s.text = append(s.text, b[:n]...); err != nil {
			t.Fatalf("the terminal does not show %q but %q: %v", text, s.text, err)
		}
	}
}
