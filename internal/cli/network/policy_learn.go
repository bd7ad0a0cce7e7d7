package network

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/learn"
	"github.com/bothy-dev/bothy/internal/policy/policyfile"
	"github.com/bothy-dev/bothy/internal/records"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) policyLearnCommand() *cobra.Command {
	var since string
	c := &cobra.Command{
		Use:   "learn SANDBOX",
		Short: "Propose rules for what a sandbox was refused",
		Long: "Looks at what a sandbox was refused, and proposes the narrowest rules that would\n" +
			"allow it, for this sandbox. On a terminal each is asked about; elsewhere they are\n" +
			"printed, and nothing is changed. Think of each as a stranger's wish: programs\n" +
			"inside can ask for anything, by any name.",
		Args: cmdline.Exactly(1, "a sandbox"), ValidArgsFunction: a.OneSandbox,
		RunE: a.OnSandbox(func(cmd *cobra.Command, args []string, e *engine.Engine, sb *spec.Sandbox) error {
			var from time.Time
			var err error
			if since != "" {
				if from, err = PointInTime(since, time.Now()); err != nil {
					return err
				}
			}
			l, err := learner(e, sb, from)
			if err != nil {
				return err
			}
			list := l.Proposals()
			if len(list) == 0 && !a.JSON {
				a.Note("%s", nothingToLearn(l))
			}
			if a.JSON || !a.CanAsk() {
				return a.printProposals(sb, list)
			}
			rules := a.accepted(list)
			if len(rules) == 0 {
				return nil
			}
			err = e.Rules().Edit(cmd.Context(), sb, func(f *policyfile.File) error {
				var errs []error
				for _, r := range rules {
					errs = append(errs, f.Add(r))
				}
				return errors.Join(errs...)
			})
			if err != nil {
				return err
			}
			a.Note("%s may reach from now on: %s", sb.Name, console.Printable(joined(rules)))
			a.WarnRules(e, sb, rules)
			return nil
		}),
	}
	c.Flags().StringVar(&since, "since", "", "only refusals since a time, or for so long, e.g. 1h")
	return a.JSONFlag(c)
}

// learner returns a learner that has read the network log of a sandbox.
func learner(e *engine.Engine, sb *spec.Sandbox, from time.Time) (*learn.Learner, error) {
	p, err := e.Rules().Policy(sb)
	if err != nil {
		return nil, err
	}
	l := learn.New(p, time.Now())
	err = records.Network(e.Store, sb, func(r *spec.NetworkRecord) {
		if !r.Time.Before(from) {
			l.See(r)
		}
	})
	return l, err
}

// nothingToLearn says why the list of proposals is empty.
func nothingToLearn(l *learn.Learner) string {
	s := "nothing was refused that a rule could allow"
	if l.Inner() {
		s += ": something inside tried the sandbox's own gateway, or an address that stands for no name, and no rule is about these"
	}
	return s
}

// accepted asks about each proposal. A proposal without an answer is not accepted.
func (a *app) accepted(list []learn.Proposal) (rules []policy.Rule) {
	for _, p := range list {
		if p.Note != "" {
			a.Note("%s", console.Printable(p.Note))
		}
		if a.Ask("allow %s? It was refused %s, last %s.", console.Printable(p.Rule.String()), countTimes(p.Count), p.Last.Local().Format(time.DateTime)) {
			rules = append(rules, p.Rule)
		}
	}
	return rules
}

// joined writes rules on one line.
func joined(rules []policy.Rule) string {
	var list []string
	for _, r := range rules {
		list = append(list, r.String())
	}
	return strings.Join(list, "; ")
}

func countTimes(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// proposed is a proposal in JSON.
type proposed struct {
	Rule    string    `json:"rule"`
	Count   int64     `json:"count"`
	Last    time.Time `json:"last"`
	Command string    `json:"command"`
	Note    string    `json:"note,omitempty"`
}

func (a *app) printProposals(sb *spec.Sandbox, list []learn.Proposal) error {
	rows := []proposed{}
	for _, p := range list {
		rows = append(rows, proposed{p.Rule.String(), p.Count, p.Last, p.Command(sb.Name), p.Note})
	}
	if a.JSON {
		return a.PrintJSON(map[string]any{"proposals": rows})
	}
	for _, r := range rows {
		if r.Note != "" {
			fmt.Fprintf(a.Out, "# %s:\n", console.Printable(r.Note))
		}
		fmt.Fprintf(a.Out, "%s\n", console.Printable(r.Command))
	}
	return nil
}
