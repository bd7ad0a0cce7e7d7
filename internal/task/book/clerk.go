package book

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/bothy-dev/bothy/internal/nsproc"
	"github.com/bothy-dev/bothy/internal/program"
	"github.com/bothy-dev/bothy/spec"
)

// clerk starts the process that keeps tasks when it is needed. It serves one caller at a time.
type clerk struct {
	program string
	root    string
	turn    chan struct{} // holds one while a call is served
	at      *desk         // nil: no process runs
}

// desk is a running process.
type desk struct {
	*Talk
	cmd *exec.Cmd
	in  io.Closer
}

// self stands for the program that keeps tasks for this process: [program.Self].
const self = ""

func newClerk(program, root string) *clerk {
	return &clerk{program: program, root: root, turn: make(chan struct{}, 1)}
}

// errGone says that the process ended before it began its order.
var errGone = errors.New("the process that keeps the tasks has ended")

// serveCaller calls f, one caller at a time. If f leaves an order half done, or panics, serve ends the
// process. A process from an earlier call may have ended since: then serveCaller calls f again.
func (c *clerk) serveCaller(ctx context.Context, f func(*desk) error) error {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.turn }()
	reused := c.at != nil
	err := c.tryCall(f)
	if reused && errors.Is(err, errGone) && ctx.Err() == nil {
		err = c.tryCall(f)
	}
	return err
}

func (c *clerk) tryCall(f func(*desk) error) (err error) {
	if c.at == nil {
		if c.at, err = startProcess(c.program, c.root); err != nil {
			return &spec.Error{Op: "start " + Argv0, Err: err}
		}
	}
	served := false
	defer func() {
		if !served {
			c.endProcess()
		}
	}()
	err = f(c.at)
	served = !errors.As(err, new(*broken))
	return err
}

// broken is an error after which a conversation cannot continue.
type broken struct{ err error }

func (b *broken) Error() string { return b.err.Error() }
func (b *broken) Unwrap() error { return b.err }

// endProcess ends the process at once.
func (c *clerk) endProcess() {
	if d := c.at; d != nil {
		c.at = nil
		_ = d.cmd.Process.Kill()
		_ = d.in.Close()
		_ = d.cmd.Wait()
	}
}

// close ends the process in order, and waits for it.
func (c *clerk) close() {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	if d := c.at; d != nil {
		c.at = nil
		_ = d.in.Close()
		_ = d.cmd.Wait()
	}
}

// startProcess starts the process in its own process group. So a terminal's signal to the caller's group
// does not reach it: the caller may have a change to make because of that signal.
func startProcess(path, root string) (*desk, error) {
	if os.Args[0] == Argv0 { // otherwise a program without that role would start itself for ever
		return nil, errors.New("this process is to keep tasks itself")
	}
	if err := noJournals(root); err != nil {
		return nil, err
	}
	if path == self {
		var err error
		if path, err = program.Self(); err != nil {
			return nil, err
		}
	}
	cmd := &exec.Cmd{
		Path: path, Args: []string{Argv0, root}, Env: []string{}, Dir: "/", Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := nsproc.Humbly(cmd.Start); err != nil {
		return nil, err
	}
	return &desk{NewTalk(out, in), cmd, in}, nil
}

// noJournals refuses a directory that contains the journals of an earlier Bothy.
func noJournals(root string) error {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		dir := filepath.Join(root, e.Name())
		if _, err := os.Lstat(filepath.Join(dir, "journal")); e.IsDir() && err == nil {
			return spec.Errorf(spec.ErrConflict, "%s has tasks that an earlier Bothy has written", filepath.Join(dir, "journal")).
				WithHint("export them with that one, move %s away, and import them", dir)
		}
	}
	return err
}

// askOrder sends an order and waits for the answer, until ctx is done.
func (d *desk) askOrder(ctx context.Context, k Kind, text string, each func([]byte) error) (Answer, error) {
	stop := context.AfterFunc(ctx, func() { _ = d.cmd.Process.Kill() })
	err := d.Say(k, []byte(text))
	if err == nil {
		err = d.Flush()
	}
	heard := false
	var a Answer
	if err == nil {
		a, err = d.HearAll(func(doc []byte) error {
			heard = true
			if each == nil {
				return errors.New("a document, where none was asked for")
			}
			return each(doc)
		})
	}
	if !stop() {
		return a, &broken{context.Cause(ctx)}
	}
	switch {
	case err == nil, a.Error != nil:
		return a, err
	case !heard && (errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE)):
		return a, &broken{fmt.Errorf("%w: %w", errGone, err)}
	}
	return a, &broken{err}
}
