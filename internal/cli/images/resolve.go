package images

import (
	"cmp"
	"context"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/spec"
)

// Templates returns what finds the template of a new sandbox, and shows its progress on the command line.
func Templates(a *cmdline.App, e *engine.Engine) provision.Templates { return templates{&app{a}, e} }

type templates struct {
	app    *app
	engine *engine.Engine
}

// Resolve implements [provision.Templates].
func (t templates) Resolve(ctx context.Context, req *spec.Request, sb *spec.Sandbox) (err error) {
	net := cmdline.NetworkFlags{Presets: req.Presets, Allow: req.Allow, Deny: req.Deny}
	word, pull := cmp.Or(req.Template, spec.TemplateHost), cmp.Or(req.Pull, spec.PullMissing)
	if isPath(word) {
		if project, file := devcontainerAt(word); file != "" {
			return t.app.fromDevcontainer(ctx, t.engine, sb, project, file, buildFlags{pull: pull, network: net})
		}
	}
	sb.Template, sb.Image, err = t.app.templateOf(ctx, t.engine, word, pull, &net)
	return err
}
