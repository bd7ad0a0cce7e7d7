package cli

import (
	"context"

	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/spec"
)

// mocked reads the script that --mock names, or returns nil.
func (f *createFlags) mocked(e *engine.Engine, l *lodger) (*engine.Mock, error) {
	if f.mock == "" {
		return nil, nil
	}
	return e.NewMock(f.mock, l.spec)
}

// sameMock makes an existing sandbox use the requested script. A sandbox made with a mock keeps it,
// and one made without cannot get one: its keys, real or made up, are in its home.
func (a *app) sameMock(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, m *engine.Mock) error {
	switch {
	case m == nil && sb.Mock == nil, sb.Broken != "":
		return nil
	case m == nil:
		a.Note("%s", console.Printable(engine.MockNote(sb)))
		return nil
	case sb.Mock == nil:
		return spec.Errorf(spec.ErrConflict, "sandbox %s exists without a mock", sb.Name).
			WithHint("choose another --name, or remove it first: bothy rm %s", sb.Name)
	}
	return e.ChangeMock(ctx, sb, m)
}
