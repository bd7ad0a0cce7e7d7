// Command loop gives the same work to a tool again and again, each time with a fresh context, until a
// check passes. Each loop has a sandbox of its own.
//
//	go build -o loop ./examples/loop
//	./loop -tool shell -check 'test -s result.txt' -- sh -c 'date >> result.txt'
//	./loop -tool claude -check 'make test' -- claude -p 'make the tests pass'
//
// The check runs in the sandbox too, and its exit code decides, not the tool's own report. Set
// AGENT_LOOP_HOST=1 to run the tool on the host itself, without any wall. A missing sandbox never
// causes that. Bothy must be installed from the same commit: go install ./cmd/...
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/bothy-dev/bothy/client"
)

func main() {
	var l loop
	flag.StringVar(&l.tool, "tool", "shell", "the agent whose sandbox it is")
	flag.StringVar(&l.dir, "dir", ".", "the project")
	flag.StringVar(&l.check, "check", "", "a shell command that succeeds when the work is done")
	flag.IntVar(&l.most, "max", 5, "iterations, at most")
	flag.DurationVar(&l.timeout, "timeout", 30*time.Minute, "for each of them")
	flag.Parse()
	l.command = flag.Args()
	if len(l.command) == 0 || l.check == "" {
		fmt.Fprintln(os.Stderr, "usage: loop [flags] -check COMMAND -- TOOL [ARG...]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := l.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "loop:", err)
		stop()
		os.Exit(1)
	}
}

// loop has the flags' values.
type loop struct {
	tool, dir, check string
	command          []string
	most             int
	timeout          time.Duration
}

// where runs a command in the sandbox or on the host.
type where func(ctx context.Context, command []string) (exitCode int, output string, err error)

// run repeats the work until the check passes.
func (l *loop) run(ctx context.Context) (err error) {
	at, end, err := l.place(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	for i := range l.most {
		code, output, err := at(ctx, l.command)
		if err != nil {
			return err
		}
		fmt.Printf("%s", output)
		passed, said, err := at(ctx, []string{"sh", "-c", l.check})
		if err != nil {
			return err
		}
		fmt.Printf("loop: iteration %d: %s ended with %d, the check with %d\n", i+1, l.command[0], code, passed)
		if passed == 0 {
			return nil
		}
		fmt.Printf("%s", said)
	}
	return fmt.Errorf("not done after %d iterations", l.most)
}

// place prepares the place of work: a sandbox, or the host if the user asks for it.
func (l *loop) place(ctx context.Context) (where, func() error, error) {
	if os.Getenv("AGENT_LOOP_HOST") == "1" {
		fmt.Fprintln(os.Stderr, "loop: AGENT_LOOP_HOST=1: on the host itself, without any wall")
		return l.onHost, func() error { return nil }, nil
	}
	var c client.Client
	id := strings.ToLower(rand.Text()[:8])
	name, err := c.CreateLoopSandbox(ctx, id, l.tool, l.dir)
	if err != nil {
		return nil, nil, err
	}
	at := func(ctx context.Context, command []string) (int, string, error) {
		return c.ExecInSandbox(ctx, name, command, client.ExecOptions{Timeout: l.timeout})
	}
	return at, func() error { return c.DestroyLoopSandbox(context.WithoutCancel(ctx), id) }, nil
}

// leftTime is how long a command's leftover processes may delay its end.
const leftTime = time.Second

// onHost runs a command in a process group of its own. The whole group ends with the timeout. Processes
// that left the group continue, since the host has no wall, but onHost does not wait for them.
func (l *loop) onHost(ctx context.Context, command []string) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = l.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = leftTime
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // the command succeeded, and a process that it started holds its output open
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && context.Cause(ctx) == nil {
		return exit.ExitCode(), string(out), nil
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return 124, string(out), nil
	}
	return 0, string(out), err
}
