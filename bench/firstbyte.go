package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Cases of the wait at a terminal: the time to the agent's first byte, from a first and from a later
// start. On the host it is the same program on the same terminal.
const (
	caseByteFirst   = "claude at a terminal, first byte, first in a home"
	caseByteAgain   = "claude at a terminal, first byte, again"
	caseByteNew     = "first byte in a new sandbox, added"
	caseByteStopped = "first byte in a stopped sandbox, added"
	caseByteRunning = "first byte in a running sandbox, added"

	// byteTarget is the allowed addition from the second time on, in milliseconds.
	byteTarget = 500
)

// firstBytes measures one round of these cases. A sandbox that was stopped has its agent started once
// before.
func (a *agentRun) firstBytes(ctx context.Context, n int) (err error) {
	name := fmt.Sprintf("terminal-%d", n)
	home := filepath.Join(a.work, "home-"+name)
	if err := os.Mkdir(home, 0o755); err != nil {
		return err
	}
	onHost := func() (float64, error) { return firstByte(a.in(a.onHost(ctx, home)), "") }
	// With arguments it is a separate program, which ends with its terminal: the next run does not
	// attach to it.
	inside := func() (float64, error) {
		return firstByte(a.in(a.inside(ctx, name, "--dangerously-skip-permissions")), "\x1b[22;2t\x1b]2;"+name+"\a")
	}
	defer func() { err = errors.Join(err, a.bothy.do(ctx, "rm", "--force", name)) }()
	var took [5]float64
	for i, step := range []func() (float64, error){onHost, onHost, inside, inside, inside} {
		if i == 3 {
			if err := a.bothy.do(ctx, "stop", name); err != nil {
				return err
			}
		}
		if took[i], err = step(); err != nil {
			return err
		}
	}
	a.report.series(groupAgent, caseByteFirst, placeOnHost, unitMS).add(took[0])
	a.report.series(groupAgent, caseByteAgain, placeOnHost, unitMS).add(took[1])
	a.report.series(groupAgent, caseByteNew, placeOnBothy, unitMS).add(took[2] - took[0])
	for i, name := range []string{caseByteStopped, caseByteRunning} {
		series := a.report.series(groupAgent, name, placeOnBothy, unitMS)
		series.Target = byteTarget
		series.add(took[3+i] - took[1])
	}
	return nil
}

// firstByte starts a program at a terminal of its own, and returns the milliseconds to its first byte.
// The title that bothy gives the terminal before the agent starts does not count. Error output does not
// go to the terminal, and does not count either. At the end the terminal is hung up.
func firstByte(cmd *exec.Cmd, title string) (ms float64, err error) {
	emulator, line, err := openTerminal()
	if err != nil {
		return 0, err
	}
	defer emulator.Close()
	complaints, err := os.CreateTemp("", "bench-")
	if err != nil {
		return 0, err
	}
	defer complaints.Close()
	defer os.Remove(complaints.Name())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = line, line, complaints
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	begin := time.Now()
	err = cmd.Start()
	_ = line.Close()
	if err != nil {
		return 0, err
	}
	stop := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	for screen, b := "", make([]byte, 1); err == nil; {
		if _, err = emulator.Read(b); err != nil { // it ended without output
			break
		}
		if screen += string(b); !strings.HasPrefix(title, screen) {
			break
		}
	}
	ms = float64(time.Since(begin).Microseconds()) / 1000
	_ = emulator.Close()
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGHUP) // in case the program does not notice
	end := time.AfterFunc(endTime, func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) })
	defer end.Stop()
	_ = cmd.Wait() // it was hung up
	if err != nil {
		said, _ := os.ReadFile(complaints.Name())
		return 0, fmt.Errorf("%s: nothing came at its terminal: %w: %s", brief(cmd.Args), err, lastLines(string(said)))
	}
	return ms, nil
}

// endTime is how long a program may take to end when its terminal is hung up.
const endTime = 10 * time.Second

// openTerminal opens a pseudo terminal of 80 columns: the person's side, and the programs' side.
func openTerminal() (emulator, line *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	emulator = os.NewFile(uintptr(fd), "terminal")
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	err = errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0),
		unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}))
	if err == nil {
		line, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		_ = emulator.Close()
		return nil, nil, err
	}
	return emulator, line, nil
}
