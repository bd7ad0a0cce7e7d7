package reconfigure

import (
	"context"
	"reflect"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/agentprogram"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Program gives a sandbox another installation from its next start on; nil means the host's
// program. A running sandbox keeps its installation: the error is of class [spec.ErrConflict],
// unless it has the wished one already.
func Program(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, p *spec.Program) error {
	return change(ctx, e, sb, func(now *spec.Sandbox) error {
		if reflect.DeepEqual(now.Program, p) {
			return nil
		}
		return staysWith(now, versionOf(p))
	}, func(of *spec.Sandbox) { of.Program = p })
}

// Adapter gives a sandbox the program that speaks with editors for its agent, from its next start on. A
// running sandbox keeps the one that it has; if it has none, the error is of class [spec.ErrConflict].
func Adapter(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, p *spec.Program) error {
	if reflect.DeepEqual(sb.Adapter, p) {
		return nil
	}
	return change(ctx, e, sb, func(now *spec.Sandbox) error {
		if now.Adapter != nil {
			sb.Adapter = now.Adapter
			return nil
		}
		return spec.Errorf(spec.ErrConflict, "sandbox %s runs without %s %s, and would have to start again with it", sb.Name, p.From, p.Installation).
			WithHint("when nothing in it is at work: bothy stop %s, then start the editor's agent again", sb.Name)
	}, func(of *spec.Sandbox) { of.Adapter = p })
}

// change changes the installations of a sandbox that does not run. For a running one it returns the error
// of runs.
func change(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, runs func(now *spec.Sandbox) error, set func(*spec.Sandbox)) error {
	names, err := e.LockNames(ctx) // so that the installation is not removed meanwhile
	if err != nil {
		return err
	}
	defer names.Unlock()
	rules, err := e.Store.PolicyLock() // so that the ports do not change meanwhile
	if err != nil {
		return err
	}
	defer rules.Unlock()
	return e.Keepers().Tell(ctx, sb, func(_ context.Context, c *unixconn.Conn) error {
		c.Close()
		now, err := e.Store.Load(sb.ID)
		if err != nil {
			return err
		}
		return runs(now)
	}, func() error { return writeChange(e, sb, set) })
}

// writeChange changes the installations of a sandbox that cannot start meanwhile.
func writeChange(e *engine.Engine, sb *spec.Sandbox, set func(*spec.Sandbox)) error {
	now, err := e.Store.Load(sb.ID)
	if err != nil {
		return err
	}
	set(now)
	if _, err := e.Programs().Dirs(now); err != nil {
		return err
	}
	if err := store.WriteJSON(e.Store.Sandbox(sb.ID).Spec(), now); err != nil {
		return &spec.Error{Op: "change the programs of " + sb.Name, Err: err}
	}
	set(sb)
	return nil
}

// CheckVersion refuses another version of its agent for a running sandbox, as Program does, but
// before that version is installed. It accepts a tag: its version is not known yet.
func CheckVersion(e *engine.Engine, sb *spec.Sandbox, version string) error {
	if !agent.Exact(version) || e.Status(sb).State != spec.Running {
		return nil
	}
	now, err := e.Store.Load(sb.ID)
	if err != nil || e.Programs().HasVersion(now, version) {
		return err
	}
	return staysWith(now, version)
}

// staysWith is the error for a running sandbox that cannot have another version.
func staysWith(sb *spec.Sandbox, wish string) error {
	return spec.Errorf(spec.ErrConflict, "sandbox %s runs with version %s of %s, and would have to start again with %s", sb.Name, versionOf(sb.Program), sb.Agent, wish).
		WithHint("when nothing in it is at work: bothy stop %s, then run this again", sb.Name)
}

func versionOf(p *spec.Program) string {
	if p == nil {
		return agentprogram.TemplateVersion
	}
	return p.Installation
}
