package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/agent/transcript"
	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// printedFlags are the flags of loop log for the agent's output.
type printedFlags struct {
	iteration int
	raw       bool
}

func (f printedFlags) check(cmd *cobra.Command) error {
	switch given := cmd.Flags().Changed("iteration"); {
	case given && f.iteration < 1:
		return spec.Errorf(spec.ErrUsage, "%d is no number of an iteration", f.iteration)
	case f.raw && !given:
		return spec.Errorf(spec.ErrUsage, "--raw is for --iteration")
	}
	return nil
}

// loopPrinted prints the agent's output of an iteration.
func (a *app) loopPrinted(ctx context.Context, l *loopRun, f printedFlags) error {
	stdout, stderr, err := l.run.Printed(f.iteration)
	if errors.Is(err, fs.ErrNotExist) {
		return spec.Errorf(spec.ErrNotFound, "nothing is kept of what was printed in iteration %d of %s", f.iteration, l.run.ID).
			WithHint("bothy loop log %s shows which iterations there were; of many only the newest are kept", l.run.ID)
	}
	if err != nil {
		return err
	}
	if f.raw {
		return errors.Join(a.copyPrinted(stdout, true), a.copyPrinted(stderr, true))
	}
	of, err := runner.Worker(l.engine.Agents, l.workedIn(f.iteration))
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

// workedIn returns the agent that worked in an iteration, by the recorded events.
func (l *loopRun) workedIn(iteration int) string {
	name := l.plan.Agent
	for _, ev := range l.events {
		var b loop.Begun
		if ev.Type == loop.Iteration && json.Unmarshal(ev.Data, &b) == nil && b.Iteration == iteration && b.Agent != "" {
			name = b.Agent
		}
	}
	return name
}

// tellErrors prints the agent's standard error, if any.
func (a *app) tellErrors(path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	fmt.Fprintln(a.Out, "\non standard error:")
	return a.copyPrinted(path, false)
}

// copyPrinted prints a file without terminal control sequences. With raw, and if the output is not a
// terminal, it prints the file unchanged.
func (a *app) copyPrinted(path string, raw bool) error {
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
