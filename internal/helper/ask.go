package helper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"

	"github.com/bothy-dev/bothy/internal/program"
)

// Ask has a process of bothy, under the given name, carry out an order. The process gets the
// caller's whole environment, because the configuration of npm and of Docker refers to it. It runs in a
// process group of its own, so that Ctrl-C ends it through ctx. It also ends if this process does,
// because its standard input is then closed.
func Ask[E, R any](ctx context.Context, name string, order any, progress func(E)) (R, error) {
	self, err := program.Self()
	if err != nil {
		return *new(R), err
	}
	return AskCommand[E, R](ctx, exec.CommandContext(ctx, self), name, order, progress)
}

// AskCommand has the process of cmd, under the given name, carry out an order.
func AskCommand[E, R any](ctx context.Context, cmd *exec.Cmd, name string, order any, progress func(E)) (R, error) {
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
	said := &Beginning{}
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
	result, err := Listen[E, R](out, progress)
	_, _ = io.Copy(io.Discard, out)
	ended := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return none, context.Cause(ctx)
	case errors.Is(err, ErrSilent) && ended != nil:
		return result, fmt.Errorf("%s: %w: %w%s", name, err, ended, said)
	}
	return result, err
}

// Beginning keeps the first bytes that are written to it, for people to read.
type Beginning struct{ text []byte }

func (b *Beginning) Write(p []byte) (int, error) {
	b.text = append(b.text, p[:min(len(p), 1024-len(b.text))]...)
	return len(p), nil
}

// String returns ": " and the first line, or "" if there is none.
func (b *Beginning) String() string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b.text)), "\n")
	return strings.TrimSuffix(": "+line, ": ")
}
