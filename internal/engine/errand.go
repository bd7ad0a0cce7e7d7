package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"

	"github.com/bothy-dev/bothy/internal/helper"
)

// run has a process of this binary, under the given name, carry out an order. The process gets the
// caller's whole environment, because the configuration of npm and of Docker refers to it. It runs
// in a process group of its own, so that Ctrl-C ends it by way of ctx. It also ends if this process
// does, because its standard input is then closed.
func run[E, R any](ctx context.Context, name string, order any, progress func(E)) (R, error) {
	return have[E, R](ctx, exec.CommandContext(ctx, "/proc/self/exe"), name, order, progress)
}

// have has the process of cmd carry out an order.
func have[E, R any](ctx context.Context, cmd *exec.Cmd, name string, order any, progress func(E)) (R, error) {
	var none R
	text, err := json.Marshal(order)
	if err != nil {
		return none, err
	}
	cmd.Args, cmd.Dir = []string{name}, "/"
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	said := &beginning{}
	cmd.Stderr = said
	in, err := cmd.StdinPipe()
	if err != nil {
		return none, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return none, err
	}
	if err := cmd.Start(); err != nil {
		return none, fmt.Errorf("start %s: %w", name, err)
	}
	_, _ = in.Write(text) // if the process is gone already, it gives no answer
	result, err := helper.Listen[E, R](out, progress)
	_, _ = io.Copy(io.Discard, out)
	ended := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return none, context.Cause(ctx)
	case errors.Is(err, helper.ErrSilent) && ended != nil:
		return result, fmt.Errorf("%s: %w: %w%s", name, err, ended, said)
	}
	return result, err
}

// beginning keeps the first bytes that are written to it, for people to read.
type beginning struct{ text []byte }

func (b *beginning) Write(p []byte) (int, error) {
	b.text = append(b.text, p[:min(len(p), 1024-len(b.text))]...)
	return len(p), nil
}

func (b *beginning) String() string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b.text)), "\n")
	return strings.TrimSuffix(": "+line, ": ")
}
