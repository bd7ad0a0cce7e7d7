package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/runview"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/price"
	"github.com/bothy-dev/bothy/internal/records"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// cost is the models' usage for a sandbox.
type cost struct {
	Name   string        `json:"name"`
	Budget spec.Budget   `json:"budget"`
	Total  spec.BillItem `json:"total"` // sum over all models; its model is empty
	spec.Bill
}

func (a *app) costCommand() *cobra.Command {
	var budget cmdline.BudgetFlags
	c := &cobra.Command{
		Use: "cost [SANDBOX...]", Short: "Show what models have taken, and bound it", ValidArgsFunction: a.SandboxNames,
		Long: `Shows how many tokens models have taken for sandboxes, and what those cost at the prices
of ` + price.AsOf + ` or of the setting prices, as the gateway read it from their answers. With --max-tokens
or --max-cost it bounds what a sandbox may have taken: from then on no question passes.`,
		RunE: a.OnEngine(func(cmd *cobra.Command, args []string, e *engine.Engine) error {
			list, err := a.chosen(e, args)
			if err != nil {
				return err
			}
			if budget.Given(cmd) {
				if err := budget.Change(a.App, cmd, e, args, list); err != nil {
					return err
				}
			}
			costs := make([]cost, 0, len(list))
			for _, sb := range list {
				b, err := records.Bill(cmd.Context(), e.Keepers(), sb)
				if err != nil {
					return err
				}
				if b.Models == nil {
					b.Models = []spec.BillItem{}
				}
				costs = append(costs, cost{sb.Name, sb.Budget, b.Total(), b})
			}
			switch {
			case a.JSON:
				return a.PrintJSON(map[string]any{"sandboxes": costs})
			case len(args) == 1:
				return a.showCost(costs[0])
			}
			return a.showCosts(costs)
		}),
	}
	budget.Add(c)
	return a.JSONFlag(c)
}

// chosen returns the sandboxes with these names, or all readable ones.
func (a *app) chosen(e *engine.Engine, names []string) (list []*spec.Sandbox, err error) {
	if len(names) == 0 {
		infos, err := e.List()
		for _, i := range infos {
			if i.Spec.Broken == "" {
				list = append(list, i.Spec)
			}
		}
		return list, err
	}
	for _, name := range names {
		sb, err := e.Find(name)
		if err != nil {
			return nil, err
		}
		list = append(list, sb)
	}
	return list, nil
}

// showCost prints one sandbox's usage by model.
func (a *app) showCost(c cost) error {
	w := a.Table()
	fmt.Fprintln(w, "MODEL\tANSWERS\tINPUT\tCACHED\tTO CACHE\tOUTPUT\tUSD")
	row := func(name string, i spec.BillItem) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%s\n", name, i.Answers, i.Input, i.Cached, i.CacheWrite, i.Output, cmdline.UsdCell(i))
	}
	for _, i := range c.Models {
		row(cmp.Or(term.Sanitize(i.Model), "-"), i)
	}
	if len(c.Models) != 1 {
		row("all", c.Total)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	a.explainCost(c.Total)
	a.explainRefusal(c.Limited, "an allowance is used up")
	a.explainRefusal(c.Overloaded, "it is overloaded")
	a.explainFailure(c.Failed)
	if c.Budget != (spec.Budget{}) {
		a.Note("budget: %s", budgetCell(c))
	}
	return nil
}

// explainRefusal prints the last request that a provider refused for a reason, if any.
func (a *app) explainRefusal(l *spec.Limited, why string) {
	if l == nil {
		return
	}
	until := "it did not say until when"
	switch {
	case l.Over:
		until = "it has answered since"
	case !l.Until.IsZero():
		until = "until " + l.Until.Local().Format(time.DateTime)
	}
	a.Note("%s refused a question at %s, because %s; %s", term.Sanitize(l.Host), l.At.Local().Format(time.DateTime), why, until)
}

// explainFailure prints the last request that failed for another reason.
func (a *app) explainFailure(l *spec.Limited) {
	if l == nil {
		return
	}
	why := l.Why
	if why == "" {
		why = "it answered " + runview.StatusWord(l.Status)
	}
	since := ""
	if l.Over {
		since = "; it has answered since"
	}
	a.Note("%s", runview.Shortened(term.Line(fmt.Sprintf("a question to %s came to nothing at %s: %s", l.Host, l.At.Local().Format(time.DateTime), why)), runview.MaxRefusalText)+since)
}

// explainCost prints which of the numbers are uncertain.
func (a *app) explainCost(sum spec.BillItem) {
	if sum.Guessed > 0 {
		a.Note("%d of the answers did not say what they took, or broke off: their tokens are guessed from their length", sum.Guessed)
	}
	if sum.Unseen > 0 {
		a.Note("%s over a WebSocket could not be read to the end: the rest is not counted", cmdline.Counted(int(sum.Unseen), "conversation"))
	}
	if sum.Unpriced > 0 {
		a.Note("%d tokens are of models without a price: the setting prices can give them one (docs/reference/settings.md)", sum.Unpriced)
	}
}

func (a *app) showCosts(costs []cost) error {
	w := a.Table()
	fmt.Fprintln(w, "SANDBOX\tANSWERS\tTOKENS\tUSD\tBUDGET")
	for _, c := range costs {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\n", c.Name, c.Total.Answers, c.Total.Counted(), cmdline.UsdCell(c.Total), cmp.Or(budgetCell(c), "-"))
	}
	return w.Flush()
}

// budgetCell formats how much of a budget is used.
func budgetCell(c cost) string {
	var parts []string
	if c.Budget.Tokens > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d tokens", c.Total.Counted(), c.Budget.Tokens))
	}
	if c.Budget.USD > 0 {
		parts = append(parts, fmt.Sprintf("%s of %.2f USD", cmdline.UsdCell(c.Total), c.Budget.USD))
	}
	return strings.Join(parts, ", ")
}
