package runs

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/modelmock"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/spec"
)

// loopReviewers finds the agents that review a loop, by their names.
func loopReviewers(e *engine.Engine, p *loopplan.Plan) (map[string]*spec.Agent, error) {
	found := map[string]*spec.Agent{}
	for _, c := range p.Reviewers() {
		of, err := runner.Worker(e.Agents, c.Reviewer.Agent)
		if err == nil && c.Reviewer.Model != "" && len(of.Headless.Model) == 0 {
			err = spec.Errorf(spec.ErrUsage, "the description of %s does not say how it is given a model", of.Title).
				WithHint("add model below headless, see docs/guide/own-agent.md")
		}
		if err != nil {
			return nil, &spec.Error{Op: "gate " + c.ID, Err: err, Hint: spec.Hint(err)}
		}
		found[of.Name] = of
	}
	return found, nil
}

// houseReviewers checks that the reviewers can work beside a new sandbox: better now than after hours.
func (f *loopFlags) houseReviewers(ctx context.Context, a *app, e *engine.Engine, sb *spec.Sandbox) error {
	found, err := loopReviewers(e, &f.plan)
	if err == nil && len(found) > 0 {
		err = reviewPlaceFree(sb)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if err == nil {
			err = a.houseReviewer(ctx, e, sb, found[name])
		}
	}
	return err
}

// reviewPlaceFree refuses a sandbox that mounts a host directory where reviewers have their files: the
// agent could have written a verdict there.
func reviewPlaceFree(sb *spec.Sandbox) error {
	for _, m := range slices.Concat(sb.Workspaces, sb.Volumes) {
		if strings.HasPrefix(path.Clean(m.Target)+"/", loopplan.ReviewPlace+"/") {
			return spec.Errorf(spec.ErrUsage, "%s would be in the sandbox where reviewers have their files, %s", m.Target, loopplan.ReviewPlace).
				WithHint("move it, or show it at another path: -v")
		}
	}
	return nil
}

func (a *app) houseReviewer(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, of *spec.Agent) error {
	if _, err := a.Provisioner(e).Install(ctx, of, sb, ""); err != nil {
		return err
	}
	if sb.Mock != nil {
		return modelmock.CheckPlayable(of)
	}
	if sb.ModelServer != nil {
		return agent.ForServer(of, sb.ModelServer)
	}
	c, err := e.Credentials().Values.Find(of)
	if err == nil && c.Secret == "" && len(of.Credentials) > 0 {
		a.Note("%s, who reviews, has no credential: %s", of.Title, strings.Join(provision.WaysToLogIn(of), ", or "))
	}
	if err == nil {
		a.Note("%s reviews in sandboxes of its own, with its login and what its preset lets it reach", of.Title)
	}
	return err
}
