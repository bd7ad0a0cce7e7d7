package runview

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/bothy-dev/bothy/internal/agent/transcript"
	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// OutputFlags are the flags of loop log for the agent's output.
type OutputFlags struct {
	Iteration int
	Raw       bool
}

// PrintOutput prints the agent's output of an iteration.
func (a *Viewer) PrintOutput(ctx context.Context, l *runstate.Loop, f OutputFlags) error {
	stdout, stderr, err := l.Run.Printed(f.Iteration)
	if errors.Is(err, fs.ErrNotExist) {
		return spec.Errorf(spec.ErrNotFound, "no output of iteration %d of %s is kept", f.Iteration, l.Run.ID).
			WithHint("bothy loop log %s shows which iterations there were; of many only the newest are kept", l.Run.ID)
	}
	if err != nil {
		return err
	}
	if f.Raw {
		return errors.Join(a.copyPrinted(stdout, true), a.copyPrinted(stderr, true))
	}
	of, err := runner.Worker(l.Engine.Agents, l.WorkedIn(f.Iteration))
	if err != nil {
		return err
	}
	rules, err := transcript.ForOutput(of.Headless)
	if err != nil {
		return err
	}
	tell, end := a.Teller()
	r := transcript.NewReader(rules, tell)
	if err = audit.Copy(ctx, stdout, r, false); err == nil {
		err = r.Close()
	}
	if err = errors.Join(err, end()); err != nil || a.JSON {
		return err
	}
	return a.tellErrors(stderr)
}

// tellErrors prints the agent's standard error, if any.
func (a *Viewer) tellErrors(path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	fmt.Fprintln(a.Out, "\non standard error:")
	return a.copyPrinted(path, false)
}

// copyPrinted prints a file without terminal control sequences. With raw, and if the output is not a
// terminal, it prints the file unchanged.
func (a *Viewer) copyPrinted(path string, raw bool) error {
	f, err := store.OpenRegular(path, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if raw && !term.IsTerminal(a.Out) {
		_, err = io.Copy(a.Out, f)
		return err
	}
	w := term.NewSanitizingWriter(a.Out)
	if _, err = io.Copy(w, f); err == nil {
		err = w.Flush()
	}
	return err
}
