//go:build !linux || !amd64

package failcall

import (
	"errors"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// Supported reports whether calls can be made to fail on this kind of processor.
const Supported = false

// Run describes how to run a program.
type Run struct {
	Programs []string
	Base     string
	Mark     string
	Fail     func(Point) unix.Errno
	Kill     func(Point) bool
	Limit    time.Duration
}

// Result is the outcome of a run.
type Result struct {
	Points   []Point
	Failed   bool
	Code     int
	TimedOut bool
}

// Of always fails here.
func (Run) Of(*exec.Cmd) (Result, error) {
	return Result{}, errors.New("system calls are made to fail on linux/amd64 only")
}

// Errnos returns none.
func (Point) Errnos() []unix.Errno { return nil }
