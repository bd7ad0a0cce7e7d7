package runs

import (
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/spec"
)

// budgetable checks that a budget would limit an agent of a run, and prints how.
func (a *app) budgetable(of *spec.Agent, b spec.Budget, m provision.Metering) error {
	note, err := provision.Budgetable(of, b, m, true)
	if note != "" {
		a.Note("%s", note)
	}
	return err
}

// loopBudgetable checks that the limits of a loop would limit its agents and reviewers. Reviewers are
// not lent the secrets of --secret.
func (a *app) loopBudgetable(p *loopplan.Plan, w provision.Metering, agents, reviewers []*spec.Agent) (err error) {
	for _, of := range agents {
		if err == nil {
			err = a.budgetable(of, p.Budget(), w)
		}
	}
	for _, of := range reviewers {
		if err == nil {
			err = a.budgetable(of, p.Budget(), provision.Metering{Own: w.Own})
		}
	}
	return err
}
