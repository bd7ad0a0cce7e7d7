package launch

import (
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/spec"
)

// bounds collects notes about how the budget of a run limits its agents.
type bounds struct {
	budget spec.Budget
	notes  []string
}

// checkAgent refuses a budget that would not limit an agent.
func (b *bounds) checkAgent(of *spec.Agent, m provision.Metering) error {
	note, err := provision.Budgetable(of, b.budget, m, true)
	if note != "" {
		b.notes = append(b.notes, note)
	}
	return err
}

// checkLoopBudget refuses limits that would not limit the agents and reviewers of a loop. Reviewers are not
// lent the secrets of --secret.
func checkLoopBudget(p *loopplan.Plan, w provision.Metering, agents, reviewers []*spec.Agent) (notes []string, err error) {
	b := bounds{budget: p.Budget()}
	for _, of := range agents {
		if err == nil {
			err = b.checkAgent(of, w)
		}
	}
	for _, of := range reviewers {
		if err == nil {
			err = b.checkAgent(of, provision.Metering{Own: w.Own})
		}
	}
	return b.notes, err
}
