package cmdline

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/spec"
)

// BudgetFlags limit the usage of models.
type BudgetFlags struct{ spec.Budget }

// Add adds the flags to a command.
func (f *BudgetFlags) Add(c *cobra.Command) {
	c.Flags().Int64Var(&f.Tokens, "max-tokens", 0, "stop asking models after this many tokens, those of their caches not counted (0: no limit)")
	c.Flags().Float64Var(&f.USD, "max-cost", 0, "stop asking models after this many USD; a model without a price is not asked (0: no limit)")
}

// Given reports whether a flag was used.
func (f *BudgetFlags) Given(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("max-tokens") || cmd.Flags().Changed("max-cost")
}

// Change sets the budget of one sandbox. It refuses a budget that would not limit the sandbox's
// agent.
func (f *BudgetFlags) Change(a *App, cmd *cobra.Command, e *engine.Engine, args []string, list []*spec.Sandbox) error {
	if len(args) != 1 {
		return spec.Errorf(spec.ErrUsage, "a budget is that of one sandbox").WithHint("name it")
	}
	var change provision.BudgetChange
	if cmd.Flags().Changed("max-tokens") {
		change.Tokens = &f.Tokens
	}
	if cmd.Flags().Changed("max-cost") {
		change.USD = &f.USD
	}
	note, err := provision.ChangeBudget(cmd.Context(), e, list[0], change)
	if note != "" {
		a.Note("%s", note)
	}
	return err
}

// UsdCell formats an amount; usage without a price shows as "?", not as 0.
func UsdCell(i spec.BillItem) string {
	digits := 2
	if i.USD > 0 && i.USD < 1 {
		digits = 4
	}
	switch text := strconv.FormatFloat(i.USD, 'f', digits, 64); {
	case i.Unpriced == 0:
		return text
	case i.USD == 0:
		return "?"
	default:
		return text + "+?"
	}
}
