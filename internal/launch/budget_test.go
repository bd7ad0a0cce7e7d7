package launch

import (
	"errors"
	"testing"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/credential"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// TestReviewersBudgetable checks that a budget counts no secret for a reviewer, because reviewers are
// lent none.
func TestReviewersBudgetable(t *testing.T) {
	st, err := store.Open(t.TempDir())
	must(t, err)
	e := &engine.Engine{Store: st, Agents: agent.NewCatalog(t.TempDir())}
	must(t, e.Credentials().SetSecret(t.Context(), credential.NewSecret{Name: "models", Service: "openai", Source: vault.Source{Kind: vault.SourceEnvironment, Variable: "NOT_SET"}}))
	of, err := e.Agents.Called("cursor")
	must(t, err)
	p := &loopplan.Plan{Limits: loopplan.Limits{Tokens: 9}}
	w, err := (&provision.Provisioner{Engine: e}).MeteringOf(&spec.Request{Secrets: []string{"models"}}, of)
	must(t, err)
	_, err = checkLoopBudget(p, w, []*spec.Agent{of}, nil)
	must(t, err)
	if _, err := checkLoopBudget(p, w, []*spec.Agent{of}, []*spec.Agent{of}); !errors.Is(err, spec.ErrUsage) {
		t.Errorf("one that reviews: %v", err)
	}
}
