package cmdline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/internal/records"
	"github.com/bothy-dev/bothy/internal/setup"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// SetUp runs the due commands of a sandbox's devcontainer.json inside, and prints their output.
func (a *App) SetUp(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, attaches bool) error {
	return setup.Run(ctx, e, sb, attaches, func(ctx context.Context, c spec.SetUp) error {
		return a.setUpBy(ctx, e, sb, c)
	})
}

func (a *App) setUpBy(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, c spec.SetUp) error {
	a.Note("%s: %s", c.Title(), shownCommand(c.Args))
	began := time.Now()
	out, errs := a.Lines()
	in := headless.Session{Engine: e, Sandbox: sb, Prepares: true}
	status, err := in.Run(ctx, wire.Command{Args: c.Args}, "", out, errs)
	out.End()
	errs.End()
	if ctx.Err() != nil {
		return err
	}
	if err == nil && status != 0 {
		err = fmt.Errorf("exit code %d", status)
	}
	if err == nil {
		return nil
	}
	hint := "to look: bothy exec -it " + sb.Name + " /bin/sh; the next bothy run begins with this command again"
	if sb.Remove {
		hint = "without --rm the sandbox stays, to look at it"
	}
	if names := records.Refused(e.Store, sb, began); len(names) > 0 {
		hint = fmt.Sprintf("the network policy refused %s; if that is why: bothy policy allow --sandbox %s %s, or a --preset; %s", strings.Join(names, ", "), sb.Name, names[0], hint)
	}
	return &spec.Error{Class: spec.ErrSandbox, Op: fmt.Sprintf("%s of %s", c.Title(), term.Sanitize(sb.Devcontainer.File)), Err: errors.New(err.Error()), Hint: hint}
}

// shownCommand formats a command for people: a shell line as it was written.
func shownCommand(args []string) string {
	if len(args) == 3 && args[0] == "/bin/sh" && args[1] == "-c" {
		args = args[2:]
	}
	return term.Sanitize(term.Shorten(strings.Join(args, " "), MaxShown))
}

// LineWriter prints foreign lines, each after a bar, so that none looks like a line of ours.
type LineWriter struct {
	mu   *sync.Mutex // shared by all writers to out
	out  io.Writer
	rest []byte
}

// maxLine bounds a line, in bytes; a longer one is split.
const maxLine = 16 << 10

// Lines returns writers for the two streams of a command.
func (a *App) Lines() (out, errs *LineWriter) {
	mu := &sync.Mutex{}
	return &LineWriter{mu: mu, out: a.Err}, &LineWriter{mu: mu, out: a.Err}
}

func (w *LineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		line, more, whole := bytes.Cut(p, []byte{'\n'})
		w.rest = append(w.rest, line...)
		p = more
		if whole || len(w.rest) >= maxLine {
			w.showLine()
		}
	}
	return n, nil
}

func (w *LineWriter) showLine() {
	text := strings.ReplaceAll(strings.TrimRight(string(w.rest), "\r"), "\t", "    ")
	w.rest = w.rest[:0]
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(w.out, "  | %s\n", term.Sanitize(text))
}

// End prints the rest after the last line end.
func (w *LineWriter) End() {
	if len(w.rest) > 0 {
		w.showLine()
	}
}
