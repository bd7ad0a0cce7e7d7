package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/reconfigure"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// Raises the limits of a run that is resumed.

// raiseFlags are resume's flags that raise limits.
type raiseFlags struct {
	iterations int
	time       time.Duration
	budget     cmdline.BudgetFlags
}

// addTo adds the flags, with --max-iterations only for a loop.
func (f *raiseFlags) addTo(c *cobra.Command, iterations bool) {
	fs := c.Flags()
	if iterations {
		fs.IntVar(&f.iterations, "max-iterations", 0, "from here on, how often it may try in all (default: as before)")
	}
	fs.DurationVar(&f.time, "max-time", 0, "likewise, for all of it; 0: any")
	fs.Int64Var(&f.budget.Tokens, "max-tokens", 0, "likewise, what models may take, with what they took; 0: any")
	fs.Float64Var(&f.budget.USD, "max-cost", 0, "the same in USD; 0: any")
}

// limits returns the given limits, or nil if none is given.
func (f *raiseFlags) limits(cmd *cobra.Command) *run.Limits {
	l := &run.Limits{}
	if cmd.Flags().Changed("max-iterations") {
		l.Iterations = &f.iterations
	}
	if cmd.Flags().Changed("max-time") {
		d := spec.Duration(f.time)
		l.Time = &d
	}
	if cmd.Flags().Changed("max-tokens") {
		l.Tokens = &f.budget.Tokens
	}
	if cmd.Flags().Changed("max-cost") {
		l.USD = &f.budget.USD
	}
	if *l == (run.Limits{}) {
		return nil
	}
	return l
}

// raising returns the command that resumes a run stopped at a limit.
func raising(kind, id, reason string) string {
	flag := map[string]string{"iterations": "--max-iterations N", "time": "--max-time TIME", "tokens": "--max-tokens N", "cost": "--max-cost USD"}[reason]
	return fmt.Sprintf("bothy %s resume %s %s", kind, id, flag)
}

// tooLow refuses limits that a run has already reached: it would end at once.
func tooLow(kind, id, reason, detail string) error {
	return spec.Errorf(spec.ErrUsage, "the run %s would end at once: %s", id, detail).
		WithHint("%s goes on, with more than what is used", raising(kind, id, reason))
}

// raise records new limits, and sets them as the budgets of the run's sandboxes. They replace a
// sandbox's own budget, too, because the latest setting counts. The run may still hold an agent to
// less if less is left.
func (a *app) raise(ctx context.Context, e *engine.Engine, h *run.Host, l *run.Limits, sandboxes []string) (run.Event, error) {
	for _, id := range sandboxes {
		sb, err := e.Find(id)
		if errors.Is(err, spec.ErrNotFound) { // it will be recreated, or reported as missing
			continue
		}
		if err != nil {
			return run.Event{}, err
		}
		b := sb.Budget
		l.Set(new(spec.Duration), &b.Tokens, &b.USD)
		if b == sb.Budget {
			continue
		}
		if err := reconfigure.Budget(ctx, e, sb, b); err != nil {
			return run.Event{}, err
		}
	}
	ev, err := h.Append(run.Raised, actor(), l)
	if err == nil {
		a.Note("%s", raisedText(ev))
	}
	return ev, err
}

// raisedText describes raised limits.
func raisedText(ev run.Event) string {
	var l run.Limits
	if json.Unmarshal(ev.Data, &l) != nil {
		return ""
	}
	return "limits from here on, as " + ev.Actor + " has it: " + limitsText(&l)
}

// limitsText lists limits.
func limitsText(l *run.Limits) string {
	var list []string
	if l.Iterations != nil {
		list = append(list, cmdline.Counted(*l.Iterations, "iteration"))
	}
	if l.Time != nil {
		list = append(list, limitWord(*l.Time, "any time", time.Duration(*l.Time).String()))
	}
	if l.Tokens != nil {
		list = append(list, limitWord(*l.Tokens, "any number of tokens", cmdline.Counted(int(*l.Tokens), "token")))
	}
	if l.USD != nil {
		list = append(list, limitWord(*l.USD, "any cost", fmt.Sprintf("%.2f USD", *l.USD)))
	}
	return strings.Join(list, ", ")
}

func limitWord[N spec.Duration | int64 | float64](n N, any, otherwise string) string {
	if n == 0 {
		return any
	}
	return otherwise
}

// limitRow shows the limits of a run, if any, and whether they were raised.
func limitRow(t spec.Duration, tokens int64, usd float64, raised *run.Limits) [][2]string {
	l := &run.Limits{}
	if t != 0 {
		l.Time = &t
	}
	if tokens != 0 {
		l.Tokens = &tokens
	}
	if usd != 0 {
		l.USD = &usd
	}
	text := limitsText(l)
	if raised != nil {
		text = strings.TrimPrefix(text+"; set anew: "+limitsText(raised), "; ")
	}
	if text == "" {
		return nil
	}
	return [][2]string{{"limits", text}}
}
