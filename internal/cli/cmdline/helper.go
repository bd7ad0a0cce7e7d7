package cmdline

import (
	"context"
	"os"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Helper starts a program of ours inside, to talk with it over pipes.
func (a *App) Helper(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, user string, stdin, stdout *os.File, args ...string) (func() error, error) {
	s := headless.Session{Engine: e, Sandbox: sb, Note: func(text string) { a.Note("%s", text) }}
	return s.Start(ctx, wire.Command{Args: args, User: user, Dir: "/"}, stdin, stdout)
}
