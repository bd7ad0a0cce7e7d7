package runs

import (
	"context"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/spec"
)

// hosting makes the command line the host of a runner for loops and flows.
type hosting struct {
	app    *app
	engine *engine.Engine
}

var _ runner.Host = hosting{}

func (h hosting) Note(format string, args ...any) { h.app.Note(format, args...) }

func (h hosting) SetUp(ctx context.Context, sb *spec.Sandbox) error {
	return h.app.Provisioner(h.engine).SetUp(ctx, sb)
}

func (h hosting) InstallAgent(ctx context.Context, of *spec.Agent, sb *spec.Sandbox) (*spec.Program, error) {
	return h.app.Provisioner(h.engine).Install(ctx, of, sb, "")
}
