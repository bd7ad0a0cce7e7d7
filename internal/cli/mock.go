package cli

import (
	"context"

	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/spec"
)

// mocked reads the script that --mock names; nil if there is none.
func (f *createFlags) mocked(e *engine.Engine, l *lodger) (*engine.Mock, error) {
	if f.mock == "" {
		return nil, nil
	}
	return e.NewMock(f.mock, l.spec)
}

// sameMock has a sandbox that exists play by the script that is asked for. One
// that was made with a mock keeps it, and one that was made without gets none:
// what it has of keys, real or made up, is in its home.
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
