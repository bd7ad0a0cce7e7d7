package engine

import (
	"context"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// AddCopy adds a sandbox that is described like another one, which may be removed meanwhile. fill
// fills its directory before the sandbox appears. AddCopy calls last, which may be nil, when no
// other caller can take a name: last may still choose the sandbox's name.
func (e *Engine) AddCopy(ctx context.Context, sb *spec.Sandbox, last func() error, fill ...func(store.Sandbox) error) error {
	if sb.Image != nil {
		if err := e.Images().Hold(); err != nil {
			return err
		}
		defer e.Images().Release() // after the names: it may sweep
	}
	names, err := e.LockNames(ctx)
	if err != nil {
		return err
	}
	defer names.Unlock()
	if last != nil {
		if err := last(); err != nil {
			return err
		}
	}
	return e.addSandbox(ctx, sb, fill...)
}

// AddForCommand adds a sandbox that [ForCommand] has described. It begins with the contents of its
// template, and then fill fills its directory.
func (e *Engine) AddForCommand(ctx context.Context, sb *spec.Sandbox, fill ...func(store.Sandbox) error) error {
	return e.AddCopy(ctx, sb, nil, append([]func(store.Sandbox) error{e.Templates().Begin(ctx, sb)}, fill...)...)
}

// ForCommand describes a sandbox like another one that serves one command, and is removed with it.
// kind is the first part of its name.
func ForCommand(like *spec.Sandbox, kind string) *spec.Sandbox {
	sb := *like
	sb.ID, sb.CreatedAt = store.NewID(), time.Now().UTC()
	sb.Name = kind + "-" + sb.ID
	sb.Ports, sb.HostPorts, sb.Checkpoint, sb.Tasks, sb.Loop, sb.Remove = nil, nil, "", "", "", true
	return &sb
}

// Fresh makes a sandbox like another one was when that was new. Both work on the same live workspaces,
// under the same rules. Fresh copies nothing else, because root inside may have changed it. The sandbox
// has no leases. It serves one command and is removed with it.
func (e *Engine) Fresh(ctx context.Context, like *spec.Sandbox) (*spec.Sandbox, error) {
	if len(like.Workspaces) > 0 && like.Mode() != spec.WorkspaceLive {
		return nil, spec.Errorf(spec.ErrUsage, "the workspaces of %s are not live: a new sandbox would not see what waits there", like.Name)
	}
	e.Sweep()
	sb := ForCommand(like, "fresh")
	if err := e.AddForCommand(ctx, sb, e.Store.Sandbox(like.ID).CopyRules); err != nil {
		return nil, &spec.Error{Op: "make a sandbox like " + like.Name, Err: err}
	}
	return sb, nil
}
