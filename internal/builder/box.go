package builder

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/build"
	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/netrules"
	"github.com/bothy-dev/bothy/internal/rootfs"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// box is a sandbox with the root of a vertex.
type box struct {
	engine  *engine.Engine
	sandbox *spec.Sandbox
	busy    bool // a step runs in it
}

// takeBox returns a box that a step may change. The step owns it from then on.
func (b *builder) takeBox(ctx context.Context, base int) (*box, error) {
	if x := b.boxes[base]; x != nil {
		delete(b.boxes, base)
		return x, nil
	}
	return b.openBox(ctx, base)
}

func (b *builder) readerBox(ctx context.Context, at int) (*box, error) {
	if x := b.boxes[at]; x != nil {
		return x, nil
	}
	x, err := b.openBox(ctx, at)
	if err == nil {
		b.boxes[at] = x
	}
	return x, err
}

// openBox makes a sandbox with the root of a vertex.
func (b *builder) openBox(ctx context.Context, at int) (*box, error) {
	for _, old := range slices.Sorted(maps.Keys(b.boxes)) {
		if len(b.boxes) < maxBoxes || b.boxes[old].busy {
			continue
		}
		if err := b.dropBox(ctx, old); err != nil {
			return nil, err
		}
	}
	r, err := b.startRoot(ctx, build.Vertex{Base: at})
	if err != nil {
		return nil, err
	}
	id := store.NewID()
	sb := &spec.Sandbox{
		Version: spec.Version, ID: id, Name: "build-" + id, Agent: agent.Shell, Driver: driver.GVisor, Template: r.base,
		CreatedAt: time.Now().UTC(), Image: &spec.Image{Digest: r.base}, Workspaces: []spec.Mount{},
		Build:  &spec.Build{Lock: b.work.Lock(), Program: b.tool},
		Limits: b.Limits, IdleTimeout: spec.Duration(idle),
	}
	if b.plan.Context {
		sb.Build.Context = b.work.Context()
	}
	more := []func(store.Sandbox) error{netrules.First(b.Rules)}
	if r.key != "" {
		more = append(more, rootfs.BeginWithLayer(b.shelf.Layer(r.key)))
	}
	if err := b.engine.Create(ctx, sb, more...); err != nil {
		return nil, err
	}
	return &box{engine: b.engine, sandbox: sb}, nil
}

func (b *builder) dropBox(ctx context.Context, at int) error {
	x := b.boxes[at]
	delete(b.boxes, at)
	return b.engine.Remove(ctx, x.sandbox, true)
}

// streams are a program's streams; an unused one is nil.
type streams struct{ in, out, err *os.File }

// runRole runs bothy-build in a role, as root, and waits for it. It closes the streams here. A program that
// fails is an error.
func (x *box) runRole(ctx context.Context, role string, s streams) error {
	conn, err := x.startRole(ctx, role, s)
	for _, f := range []*os.File{s.in, s.out, s.err} {
		_ = f.Close()
	}
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	for {
		f, err := conn.Receive()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return spec.Errorf(spec.ErrSandbox, "the sandbox ended: %w", err)
		}
		switch f.Kind {
		case wire.Failure:
			return f.Failure()
		case wire.Exit:
			ended, err := f.Ended()
			if err == nil && ended.Status() != 0 {
				err = fmt.Errorf("exit status %d", ended.Status())
			}
			return err
		}
	}
}

func (x *box) startRole(ctx context.Context, role string, s streams) (*unixconn.Conn, error) {
	conn, err := x.engine.Connect(ctx, x.sandbox)
	if err != nil {
		return nil, err
	}
	q := wire.Ask{Op: wire.OpExec, Command: wire.Command{Args: []string{build.ProgramPath, role}, User: "0:0", Dir: "/"}}
	var started wire.Started
	if err = conn.SendJSON(wire.Request, q, s.in, s.out, s.err); err == nil {
		err = conn.Expect(wire.Reply, &started)
	}
	if err != nil {
		conn.Close()
	}
	if errors.Is(err, spec.ErrNoSuchBinary) || errors.Is(err, spec.ErrNotRunnable) {
		return nil, spec.Errorf(spec.ErrSandbox, "%s cannot be run in a sandbox: %w", build.Program, err).
			WithHint("it must be linked statically: CGO_ENABLED=0 go install ./cmd/...")
	}
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// said collects the messages that a program writes to a stream.
type said struct {
	w    *os.File
	done chan struct{}
	last string
}

// listen calls a function with every line of a new stream.
func listen(line func(string)) (*said, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s := &said{w: w, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		defer r.Close()
		in := bufio.NewReaderSize(r, maxLine)
		for {
			text, err := in.ReadSlice('\n')
			if len(text) > 0 {
				s.last = term.Sanitize(strings.ReplaceAll(strings.TrimRight(string(text), "\r\n"), "\t", "    "))
				line(s.last)
			}
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				return
			}
		}
	}()
	return s, nil
}

// feedStep returns a stream from which a program reads a step, and the data that follows it.
func feedStep(s build.Step, rest io.Reader) (*os.File, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	widenPipe(w)
	go func() {
		defer w.Close()
		if _, err := w.Write(append(text, '\n')); err == nil && rest != nil {
			_, _ = io.Copy(w, rest) // a program that does not read its input says why
		}
	}()
	return r, nil
}

// runTool runs a program with in as its input. If the program fails, its messages become the text of the
// error.
func (x *box) runTool(ctx context.Context, role string, in, out *os.File, line func(string)) error {
	errs, err := listen(line)
	if err != nil {
		_ = in.Close()
		_ = out.Close()
		return err
	}
	err = x.runRole(ctx, role, streams{in, out, errs.w})
	select {
	case <-errs.done: // no process inside holds the stream open any more
	case <-ctx.Done():
		return errors.Join(err, context.Cause(ctx))
	}
	if err != nil && errs.last != "" {
		err = fmt.Errorf("%s (%w)", errs.last, err)
	}
	return err
}

func silent(string) {}

// copyOutput copies the output of a role, and calls line with each of its messages.
func (x *box) copyOutput(ctx context.Context, role string, s build.Step, to io.Writer, line func(string)) error {
	in, err := feedStep(s, nil)
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		_ = in.Close()
		return err
	}
	widenPipe(w)
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(to, r)
		copied <- err // before the program notices the closed stream, and fails
		_ = r.Close()
	}()
	if err := x.runTool(ctx, role, in, w, line); err != nil {
		select {
		case why := <-copied:
			return cmp.Or(why, err)
		default:
			return err
		}
	}
	return <-copied
}

// passFiles streams from one sandbox to another without reading the data: the sender writes to the pipe that
// the receiver reads from.
func passFiles(ctx context.Context, from *box, what build.Step, to *box, where build.Step) error {
	text, err := json.Marshal(where)
	if err != nil {
		return err
	}
	order, err := feedStep(what, nil)
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		_ = order.Close()
		return err
	}
	widenPipe(w)
	if _, err := w.Write(append(text, '\n')); err != nil { // far less than a pipe holds
		return errors.Join(err, order.Close(), r.Close(), w.Close())
	}
	sent := make(chan error, 1)
	go func() { sent <- from.runTool(ctx, build.RoleSend, order, w, silent) }()
	received := to.receiveFrom(ctx, r)
	if err := <-sent; err != nil { // the receiver got only a part
		return err
	}
	return received
}

// receiveFrom unpacks an archive from a pipe into a directory.
func (x *box) receiveFrom(ctx context.Context, in *os.File) error {
	r, w, err := os.Pipe()
	if err != nil {
		_ = in.Close()
		return err
	}
	defer r.Close()
	return x.runTool(ctx, build.RoleReceive, in, w, silent)
}

// widenPipe makes a pipe larger, if allowed.
func widenPipe(f *os.File) { _, _ = unix.FcntlInt(f.Fd(), unix.F_SETPIPE_SZ, pipeSize) }

var errLongAnswer = errors.New("the answer of the step is too long")

func (x *box) runStep(ctx context.Context, s build.Step, line func(string)) (o build.Outcome, err error) {
	var answer bytes.Buffer
	if err := x.copyOutput(ctx, build.RoleDo, s, &bounded{&answer, maxOutcome, errLongAnswer}, line); err != nil {
		return o, err
	}
	if err := json.NewDecoder(&answer).Decode(&o); err != nil {
		return build.Outcome{}, fmt.Errorf("the step ended without an answer: %w", err)
	}
	o.Error = term.Sanitize(o.Error)
	return o, nil
}
