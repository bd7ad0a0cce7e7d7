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
		return runsWith(e, sb, p)
	}, func() error { return writeProgram(e, sb, p) })
}

// writeProgram changes the program of a sandbox that cannot start meanwhile.
func writeProgram(e *engine.Engine, sb *spec.Sandbox, p *spec.Program) error {
	now, err := e.Store.Load(sb.ID)
	if err != nil {
		return err
	}
	now.Program = p
	if _, _, err := e.Programs().Dirs(now); err != nil {
		return err
	}
	if err := store.WriteJSON(e.Store.Sandbox(sb.ID).Spec(), now); err != nil {
		return &spec.Error{Op: "change the program of " + sb.Name, Err: err}
	}
	sb.Program = p
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

// runsWith returns an error unless a running sandbox has the wished program.
func runsWith(e *engine.Engine, sb *spec.Sandbox, p *spec.Program) error {
	now, err := e.Store.Load(sb.ID)
	if err != nil {
		return err
	}
	if reflect.DeepEqual(now.Program, p) {
		return nil
	}
	return staysWith(now, versionOf(p))
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
