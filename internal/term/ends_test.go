package term

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain also plays the processes that these tests need: a shell that owns a terminal, and a program
// that ends in it. Both are this test binary.
func TestMain(m *testing.M) {
	switch role := os.Getenv("BOTHY_TERM_TEST"); {
	case role == "":
		os.Exit(m.Run())
	case strings.HasPrefix(role, "shell:"):
		playShell(strings.TrimPrefix(role, "shell:"))
	default:
		playProgram(role)
	}
}

func TestEveryEndRestores(t *testing.T) {
	for _, end := range []string{"return", "panic", "SIGTERM", "SIGHUP"} {
		t.Run(end, func(t *testing.T) {
			before, after, screen := runShell(t, end)
			if before != after {
				t.Errorf("settings changed:\nbefore %s\nafter  %s", before, after)
			}
			if !strings.HasSuffix(screen, "\x1b[?1049l"+resets) {
				t.Errorf("the screen got %q", screen)
			}
		})
	}
}

// TestEndInBackground checks that a job that ends in the background leaves the terminal to the
// shell, and is not stopped on its way out.
func TestEndInBackground(t *testing.T) {
	before, after, screen := runShell(t, "background")
	if before != after {
		t.Errorf("the shell's settings changed:\nbefore %s\nafter  %s", before, after)
	}
	if strings.Contains(screen, "\x1b") {
		t.Errorf("the screen got %q", screen)
	}
}

// runShell starts a shell on a terminal of its own, which runs a program that ends in the given way. It
// returns the terminal's settings before and after that.
func runShell(t *testing.T, end string) (before, after, screen string) {
	t.Helper()
	emulator, terminal := openPTY(t)
	makeUnusual(t, terminal)
	shell := exec.CommandContext(t.Context(), os.Args[0])
	shell.Env = append(os.Environ(), "BOTHY_TERM_TEST=shell:"+end, "TERM=xterm")
	shell.Stdin, shell.Stderr = terminal, os.Stderr
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for _, line := range []*string{&before, &after} {
		if !lines.Scan() {
			t.Fatalf("shell ended early: %v", shell.Wait())
		}
		*line = lines.Text()
	}
	screen = shown(t, emulator)
	shell.Process.Kill()
	shell.Wait()
	return before, after, screen
}

// playShell runs the program as a shell runs a job.
func playShell(end string) {
	signal.Ignore(syscall.SIGTTOU) // as shells do, to take the terminal back
	if end != "background" {
		report()
	}
	job := exec.Command(os.Args[0])
	job.Env = append(os.Environ(), "BOTHY_TERM_TEST="+end)
	job.Stdin = os.Stdin
	job.SysProcAttr = &syscall.SysProcAttr{Foreground: true, Ctty: 0}
	ready, err := job.StdoutPipe()
	check(err)
	check(job.Start())
	_, err = bufio.NewReader(ready).ReadString('\n')
	check(err)
	switch end {
	case "SIGTERM":
		job.Process.Signal(syscall.SIGTERM)
	case "SIGHUP":
		job.Process.Signal(syscall.SIGHUP)
	case "background":
		suspend(job)
	}
	job.Wait() // it fails in all cases but one, which does not matter
	check(unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, unix.Getpgrp()))
	report()
	time.Sleep(time.Minute) // ending the session would reset the terminal
}

// suspend stops the job, takes the terminal, and ends the job in the background.
func suspend(job *exec.Cmd) {
	job.Process.Signal(syscall.SIGSTOP)
	var status unix.WaitStatus
	_, err := unix.Wait4(job.Process.Pid, &status, unix.WUNTRACED, nil)
	check(err)
	check(unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, unix.Getpgrp()))
	mine, err := unix.IoctlGetTermios(0, unix.TCGETS)
	check(err)
	mine.Cc[unix.VMIN] = 9
	check(unix.IoctlSetTermios(0, unix.TCSETS, mine))
	report()
	job.Process.Signal(syscall.SIGTERM)
	job.Process.Signal(syscall.SIGCONT)
}

// playProgram uses Raw as the CLI does.
func playProgram(end string) {
	raw, err := MakeRaw(os.Stdin)
	check(err)
	defer raw.Restore()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-ended
		raw.Restore()
		os.Exit(1)
	}()
	raw.Modes.Write([]byte("\x1b[?1049h"))
	fmt.Println("ready")
	switch end {
	case "return":
	case "panic":
		os.Stderr.Close() // the trace does not matter
		panic("end")
	default:
		time.Sleep(time.Minute)
	}
}

// report prints the settings of the terminal for the test.
func report() {
	s, err := unix.IoctlGetTermios(0, unix.TCGETS)
	check(err)
	fmt.Printf("%+v\n", *s)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
