package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// limit is how long one command may take before the run is aborted.
const limit = 5 * time.Minute

// command returns a program in a clean environment, so that the user's settings do not affect only some
// subjects.
func command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = env
	cmd.WaitDelay = time.Second
	return cmd
}

// timed runs a command to its end and returns the time of the whole process in milliseconds.
func timed(cmd *exec.Cmd) (float64, error) {
	begin := time.Now()
	_, err := output(cmd)
	return float64(time.Since(begin).Microseconds()) / 1000, err
}

// output runs a command to its end and returns its standard output. An error contains the last line of
// standard error.
func output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	stop := time.AfterFunc(limit, func() {
		if cmd.Process != nil {
			_ = cmd.Process.Kill()
		}
	})
	defer stop.Stop()
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // something in the background keeps the pipe open
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", brief(cmd.Args), err, lastLines(stderr.String()))
	}
	return stdout.String(), nil
}

// brief returns a command line short enough for a message.
func brief(args []string) string {
	s := strings.Join(strings.Fields(strings.Join(args, " ")), " ")
	if len(s) > 200 {
		s = s[:200] + "…"
	}
	return s
}

// lastLines returns the end of a program's error output.
func lastLines(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], " / ")
}
