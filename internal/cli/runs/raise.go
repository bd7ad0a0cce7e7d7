package runs

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// raiseFlags are resume's flags that raise limits.
type raiseFlags struct {
	iterations int
	time       time.Duration
	budget     cmdline.BudgetFlags
}

// addFlags adds the flags, with --max-iterations only for a loop.
func (f *raiseFlags) addFlags(c *cobra.Command, iterations bool) {
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
