package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/spec"
)

// InstallAgent makes sure that a program is there, and tells how far it is. An
// exact version that is installed costs no process and asks nobody. When ctx ends,
// so does the work; what was downloaded is gone on with the next time.
func (e *Engine) InstallAgent(ctx context.Context, r agent.Request, progress func(agent.Event)) (agent.Result, error) {
	if err := r.Check(); err != nil {
		return agent.Result{}, err
	}
	if there, ok := agent.Present(e.Store, r); ok {
		return agent.Result{Installation: there}, nil
	}
	order, err := json.Marshal(agent.Order{State: e.Store.Path(), Request: r})
	if err != nil {
		return agent.Result{}, err
	}
	result, err := runInstaller(ctx, order, progress)
	if agent.Silent(err) {
		err = &spec.Error{Op: "install " + r.Name + " " + r.Version, Err: err, Hint: "run it again: it goes on where it ended"}
	}
	return result, err
}

// runInstaller has the installing process carry out an order. It has the whole
// environment of the caller: npm's configuration may refer to any variable. It is
// in a process group of its own, so that Ctrl-C ends it by way of ctx, and ends if
// this process does, as its standard input then ends.
func runInstaller(ctx context.Context, order []byte, progress func(agent.Event)) (agent.Result, error) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args, cmd.Dir = []string{agent.Argv0}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said := &beginning{}
	cmd.Stderr = said
	in, err := cmd.StdinPipe()
	if err != nil {
		return agent.Result{}, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return agent.Result{}, err
	}
	if err := cmd.Start(); err != nil {
		return agent.Result{}, fmt.Errorf("start %s: %w", agent.Argv0, err)
	}
	_, _ = in.Write(order) // if it is gone already, it gives no answer
	result, err := agent.Listen(out, progress)
	_, _ = io.Copy(io.Discard, out)
	ended := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return agent.Result{}, context.Cause(ctx)
	case agent.Silent(err) && ended != nil:
		return result, fmt.Errorf("%s: %w: %w%s", agent.Argv0, err, ended, said)
	}
	return result, err
}

// beginning keeps the first that is written to it, for people to read.
type beginning struct{ text []byte }

func (b *beginning) Write(p []byte) (int, error) {
	b.text = append(b.text, p[:min(len(p), 1024-len(b.text))]...)
	return len(p), nil
}

func (b *beginning) String() string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b.text)), "\n")
	return strings.TrimSuffix(": "+line, ": ")
}
