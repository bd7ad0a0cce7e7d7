package reconfigure

import (
	"context"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/modelmock"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Mock gives a sandbox whose models are played another script from its next start on. A running
// sandbox keeps its script: the error is of class [spec.ErrConflict], unless it has the wished one
// already.
func Mock(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, m *modelmock.Mock) error {
	lock, err := e.Store.PolicyLock() // so that the ports do not change meanwhile
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return e.Keepers().Tell(ctx, sb, func(_ context.Context, c *unixconn.Conn) error {
		c.Close()
		return CheckMock(e, sb, m)
	}, func() error { return writeMock(e, sb, m) })
}

// CheckMock returns an error unless a running sandbox has the wished script; nil means any script.
func CheckMock(e *engine.Engine, sb *spec.Sandbox, m *modelmock.Mock) error {
	if m == nil || m.IsScriptOf(e.Store.Sandbox(sb.ID)) {
		return nil
	}
	return spec.Errorf(spec.ErrConflict, "sandbox %s runs with another script of its mock", sb.Name).
		WithHint("when nothing in it is at work: bothy stop %s, then run this again", sb.Name)
}

// writeMock changes the script of a sandbox that cannot start meanwhile. It writes the script before
// the spec, because the script counts.
func writeMock(e *engine.Engine, sb *spec.Sandbox, m *modelmock.Mock) error {
	if m.IsScriptOf(e.Store.Sandbox(sb.ID)) && sb.Mock.Script == m.Script {
		return nil
	}
	now, err := e.Store.Load(sb.ID)
	if err != nil {
		return err
	}
	if now.Mock == nil { // it was removed, and made again
		return spec.Errorf(spec.ErrConflict, "sandbox %s was made anew just now", sb.Name).WithHint("run it again")
	}
	d := e.Store.Sandbox(sb.ID)
	now.Mock.Script = m.Script
	err = m.Write(d)
	if err == nil {
		err = store.WriteJSON(d.Spec(), now)
	}
	if err != nil {
		return &spec.Error{Op: "change the script of " + sb.Name, Err: err}
	}
	sb.Mock = now.Mock
	return nil
}
