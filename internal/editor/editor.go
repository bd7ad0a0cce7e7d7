// Package editor runs an agent in a sandbox for an editor on the host. It knows which program speaks for
// the agent, where the agent sees the editor's directories, and which MCP servers the agent can use.
// Package acp carries the messages.
package editor

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/acp"
	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/agentprogram"
	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/internal/hostroot"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// Place is a sandbox that is ready, with the agent that works there.
type Place struct {
	headless.Session
	Agent *spec.Agent
	// Command has the caller's settings: variables, a directory, a user.
	Command wire.Command
}

// Door lets an editor use an agent. It implements [acp.Host].
type Door struct {
	// Enter returns the sandbox for a directory of the host, and makes it if necessary. The directory is
	// empty if the caller knows it.
	Enter func(ctx context.Context, dir string) (Place, error)
	// Err receives the agent's standard error.
	Err io.Writer
	// PassSecrets lets variables, headers and arguments of MCP servers into the sandbox that may be secrets.
	PassSecrets bool

	place Place // once Start has succeeded
}

// Start implements [acp.Host].
func (d *Door) Start(ctx context.Context, dir string) (*acp.Agent, error) {
	at, err := d.Enter(ctx, dir)
	if err != nil {
		return nil, err
	}
	command, err := commandOf(ctx, &at)
	if err == nil {
		var a *acp.Agent
		if a, err = startAdapter(ctx, &at, command, d.Err); err == nil {
			d.place = at
			d.place.Conn = nil // the agent has it
			return a, nil
		}
	}
	at.Close()
	return nil, err
}

// commandOf returns the command by which the agent of a sandbox speaks with an editor.
func commandOf(ctx context.Context, at *Place) (wire.Command, error) {
	c, sb := at.Command, at.Sandbox
	program := at.Agent.Program
	switch {
	case sb.Program != nil:
		program = path.Join(hostroot.Agent, sb.Program.Binary)
	case agent.NeedsProgramPath(at.Agent):
		var err error
		if program, err = findInside(ctx, at, program); err != nil {
			return c, err
		}
	}
	argv := []string{program}
	if a := sb.Adapter; a != nil {
		argv = slices.Concat(runtimeOf(at), []string{path.Join(hostroot.Adapter, a.Binary)})
	}
	var env []string
	c.Whole = true
	c.Args, env = agent.ACPCommand(at.Agent, argv, program)
	c.Env = slices.Concat(env, c.Env)
	return c, nil
}

// runtimeOf returns the command of the runtime that an adapter needs, if it needs one.
func runtimeOf(at *Place) []string {
	need := agent.Adapter(at.Agent).Install.Needs
	switch r := agentprogram.RuntimeOf(at.Sandbox); {
	case need == nil:
		return nil
	case r != nil && r.From == need.Name:
		return []string{path.Join(hostroot.Runtime, r.Binary)}
	}
	return []string{need.Name} // the host's, or the image's
}

// findInside returns the path of a program that a sandbox finds by its name.
func findInside(ctx context.Context, at *Place, name string) (string, error) {
	found, err := whereInside(ctx, at, name)
	if err == nil && found == "" {
		err = spec.Errorf(spec.ErrNoSuchBinary, "%s: command not found in the sandbox", name).
			WithHint("to have Bothy's own: bothy stop %s; bothy run --agent-version %s %s", at.Sandbox.Name, agent.Latest, at.Sandbox.Name)
	}
	return found, err
}

// maxPath bounds the answer of the inside, in bytes.
const maxPath = 4096

// whereInside returns the path of a program inside, or "" if it cannot be run there.
func whereInside(ctx context.Context, at *Place, name string) (string, error) {
	var out, errs strings.Builder
	in := at.Session
	in.Conn, in.Prepares = nil, true
	status, err := in.Run(ctx, wire.Command{
		Args: []string{"/bin/sh", "-c", `command -v -- "$1"`, "sh", name}, User: at.Command.User, Env: at.Command.Env,
	}, "", limited(&out), limited(&errs))
	if err != nil || status != 0 {
		return "", err
	}
	found := strings.TrimSuffix(out.String(), "\n")
	if !path.IsAbs(found) || strings.ContainsAny(found, "\n\x00") {
		return "", nil
	}
	return found, nil
}

// limited takes the first bytes of an output, and drops the rest.
func limited(to *strings.Builder) io.Writer {
	return writerFunc(func(b []byte) (int, error) {
		to.Write(b[:min(len(b), max(0, maxPath-to.Len()))])
		return len(b), nil
	})
}

type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// startAdapter starts a command whose standard streams are pipes.
func startAdapter(ctx context.Context, at *Place, c wire.Command, errs io.Writer) (a *acp.Agent, err error) {
	var files []*os.File
	defer func() {
		for i, f := range files {
			if err != nil || isTheirs(i) {
				f.Close()
			}
		}
	}()
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, &spec.Error{Op: "make a pipe", Err: err}
		}
		files = append(files, r, w)
	}
	conn, _, err := at.Ask(ctx, wire.Ask{Op: wire.OpExec, Command: c}, files[0], files[3], files[5])
	if err != nil {
		return nil, err
	}
	in, out, complaints := files[1], files[2], files[4]
	said := make(chan struct{})
	go func() {
		defer close(said)
		_, _ = io.Copy(errs, complaints)
		complaints.Close()
	}()
	return &acp.Agent{
		In: in, Out: out,
		Terminate: func() { _ = conn.Send(wire.SignalFrame(0, int(unix.SIGTERM))) },
		Kill:      func() { conn.Close() }, // the keeper ends a program without a caller, with all that it started
		Wait:      func() error { return awaitEnd(conn, at.Note, said) },
	}, nil
}

// isTheirs reports whether the n-th end of the pipes belongs to the program.
func isTheirs(n int) bool { return n == 0 || n == 3 || n == 5 }

// complaintTime is how long to wait for the rest of standard error after a program's end.
const complaintTime = 500 * time.Millisecond

// awaitEnd waits for the end of a program. The error says how it ended.
func awaitEnd(conn *unixconn.Conn, note func(string), said <-chan struct{}) error {
	f, err := conn.Receive()
	for err == nil && f.Kind == wire.Note {
		if note != nil {
			note(string(f.Payload))
		}
		f, err = conn.Receive()
	}
	if err != nil {
		return headless.Lost(err)
	}
	if f.Kind == wire.Failure {
		return f.Failure()
	}
	ended, err := f.Ended()
	if err != nil {
		return err
	}
	select {
	case <-said:
	case <-time.After(complaintTime): // a child holds the stream open
	}
	return spec.Errorf(spec.ErrSandbox, "the agent has ended with exit code %d", ended.Status()).
		WithHint("its standard error may tell more")
}

// Inside implements [acp.Host]. It follows the links of the host, but none that a sandbox may have made.
func (d *Door) Inside(dir string) (string, error) {
	sb := d.place.Sandbox
	paths, err := d.place.Engine.Paths()
	if err != nil {
		return "", err
	}
	real, err := paths.Real(dir)
	if err != nil {
		return "", err
	}
	for _, m := range slices.Concat(sb.Workspaces, sb.Volumes) {
		if rel, err := filepath.Rel(m.Source, real); err == nil && filepath.IsLocal(rel) {
			return filepath.Join(m.Target, rel), nil
		}
	}
	return "", spec.Errorf(spec.ErrUsage, "the sandbox %s does not see %s", sb.Name, real).
		WithHint("%s", fmt.Sprintf("for an agent there, the editor starts: bothy acp %s %s", d.place.Agent.Name, workspace.ShellWord(real)))
}
