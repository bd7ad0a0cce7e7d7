package provision

import (
	"cmp"
	"context"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/template"
	"github.com/bothy-dev/bothy/spec"
)

// PlanBuild decides what a request for an image builds, under which name and rules. It
// changes nothing, and asks no server. The caller may add secrets for the steps, and a Dockerfile to read.
func (p *Provisioner) PlanBuild(req spec.BuildRequest) (*template.Plan, error) {
	rules, err := ParseRules(&spec.Request{Presets: req.Presets, Allow: req.Allow, Deny: req.Deny})
	if err != nil {
		return nil, err
	}
	return p.templates().Plan(template.Build{
		Directory: req.Directory, File: req.Dockerfile, Tag: req.Tag, Target: req.Target, Args: req.Args,
		NoCache: req.NoCache, Pull: cmp.Or(req.Pull, spec.PullMissing), Rules: rules,
	})
}

// Build builds the image of a plan.
func (p *Provisioner) Build(ctx context.Context, pl *template.Plan) (image.Image, error) {
	return p.templates().Build(ctx, pl)
}

// templates returns what finds and builds templates.
func (p *Provisioner) templates() *template.Resolver {
	return &template.Resolver{Engine: p.Engine, Watcher: p.Watcher}
}
