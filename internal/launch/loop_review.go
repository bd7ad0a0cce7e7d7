package launch

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/modelmock"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/spec"
)

// houseReviewers checks that the reviewers can work beside a new sandbox: better now than after hours.
func (l *Launcher) houseReviewers(ctx context.Context, reviewers []*spec.Agent, sb *spec.Sandbox) error {
	if len(reviewers) == 0 {
		return nil
	}
	err := reviewPlaceFree(sb)
	for _, of := range reviewers {
		if err == nil {
			err = l.houseReviewer(ctx, sb, of)
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

func (l *Launcher) houseReviewer(ctx context.Context, sb *spec.Sandbox, of *spec.Agent) error {
	if _, err := l.Install(ctx, of, sb, ""); err != nil {
		return err
	}
	if sb.Mock != nil {
		return modelmock.CheckPlayable(of)
	}
	if sb.ModelServer != nil {
		return agent.ForServer(of, sb.ModelServer)
	}
	c, err := l.Engine.Credentials().Values.Find(of)
	if err == nil && c.Secret == "" && len(of.Credentials) > 0 {
		l.Note("%s, who reviews, has no credential: %s", of.Title, strings.Join(provision.WaysToLogIn(of), ", or "))
	}
	if err == nil {
		l.Note("%s reviews in sandboxes of its own, with its login and what its preset lets it reach", of.Title)
	}
	return err
}
