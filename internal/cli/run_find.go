package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// berth is the sandbox to run in. It is still being made if this command created it, or adopted it
// from a creator that left it unfinished.
type berth struct {
	sandbox          *spec.Sandbox
	created, adopted bool
}

// errGone says that the sandbox was removed after it was found.
var errGone = errors.New("it was removed meanwhile")

// findThere repeats find until it returns a sandbox that still exists.
func (a *app) findThere(ctx context.Context, cmd *cobra.Command, e *engine.Engine, f *runFlags) (at berth, err error) {
	err = errGone
	for errors.Is(err, errGone) {
		at, err = a.find(ctx, cmd, e, f)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return at, err
}

// find returns the sandbox to run in, and creates it if it does not exist. With --rm it always
// creates a new one. If another command is creating it, find waits.
func (a *app) find(ctx context.Context, cmd *cobra.Command, e *engine.Engine, f *runFlags) (berth, error) {
	rules, err := f.network.block()
	if err != nil {
		return berth{}, err
	}
	version, err := f.wantsVersion(f.lodger)
	if err != nil {
		return berth{}, err
	}
	config, err := a.wantsConfig(cmd, &f.createFlags, f.lodger)
	if err != nil {
		return berth{}, err
	}
	mock, err := f.mocked(e, f.lodger)
	if err != nil {
		return berth{}, err
	}
	f.script = mock
	if f.existing != nil {
		return a.join(ctx, e, f.existing, true, func() error {
			if err := sameRules(e, f.existing, rules); err != nil {
				return err
			}
			if err := a.sameSettings(cmd, f.existing, nil); err != nil {
				return err
			}
			return a.refit(ctx, e, f.lodger, f.existing, version, mock)
		})
	}
	wish, err := a.sandbox(ctx, e, &f.createFlags, f.lodger.name, f.paths)
	if errors.Is(err, spec.ErrNotFound) {
		return berth{}, commandMeant(cmd, f.lodger.name, f.paths, err)
	}
	if err == nil {
		err = f.lodger.visible(wish)
	}
	if err == nil {
		err = a.gitDirs(cmd, e, &f.createFlags, wish, !f.remove)
	}
	if err != nil {
		return berth{}, err
	}
	var there *spec.Sandbox
	if f.lodger.spec != nil { // an existing sandbox has its program and its server
		if there, err = e.Existing(wish); err != nil {
			return berth{}, err
		}
	}
	fresh := there == nil || f.remove
	var server *spec.ModelServer
	if fresh || f.server != (serverFlags{}) {
		server, err = a.modelServer(e, &f.createFlags, f.lodger.spec)
	}
	if err == nil && fresh && f.lodger.spec != nil {
		if err = a.bounds(e, &f.createFlags, f.lodger); err == nil {
			wish.Program, err = a.house(ctx, e, f.lodger, wish, version)
		}
	}
	if err != nil {
		return berth{}, err
	}
	asked := rules
	f.named = wish.Named
	f.lodger.settle(wish, &rules, config, server)
	mock.Apply(wish)
	if err := engine.Serve(wish, f.lodger.spec, server, &rules); err != nil {
		return berth{}, err
	}
	wish.Remove = f.remove
	sb, created := wish, true
	begin := []func(store.Sandbox) error{engine.Rules(rules), engine.Script(mock), e.Making(wish)}
	if f.remove {
		err = e.Create(ctx, wish, begin...)
	} else {
		sb, created, err = e.Obtain(ctx, wish, begin...)
	}
	switch {
	case err != nil:
		return berth{}, err
	case created && there != nil && !f.remove: // it was removed since, and the new one has no program
		defer e.Unmade(sb)
		return berth{}, console.Join([]error{errGone, e.Remove(context.WithoutCancel(ctx), sb, true)})
	case created:
		a.adviseGit(cmd, &f.createFlags, sb)
		a.tellServer(ctx, f.lodger.spec, sb)
		a.warnRules(e, sb, slices.Concat(rules.Allow, rules.Deny))
		return berth{sandbox: sb, created: true}, nil
	}
	return a.join(ctx, e, sb, false, func() error {
		if err := sameRules(e, sb, asked); err != nil {
			return err
		}
		if err := a.sameSettings(cmd, sb, wish); err != nil {
			return err
		}
		return a.refit(ctx, e, f.lodger, sb, version, mock)
	})
}

// join waits for the creator of a sandbox, and takes the sandbox if it fits. If it was removed, a
// caller that needs this very sandbox gets that error, and others get errGone.
func (a *app) join(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, needed bool, fits func() error) (berth, error) {
	adopted, err := e.Adopt(ctx, sb, needed)
	if errors.Is(err, spec.ErrNotFound) && !needed {
		err = errGone
	}
	if err == nil {
		err = fits()
	}
	if err != nil {
		e.Unmade(sb)
		return berth{}, err
	}
	return berth{sandbox: sb, adopted: adopted}, nil
}

// refit gives an existing sandbox the settings that may change after its creation: the version of
// its agent, and the script of its mock.
func (a *app) refit(ctx context.Context, e *engine.Engine, l *lodger, sb *spec.Sandbox, version string, m *engine.Mock) error {
	if err := a.sameMock(ctx, e, sb, m); err != nil {
		return err
	}
	return a.rehouse(ctx, e, l, sb, version)
}

// sameRules refuses to run in a sandbox whose own rules lack a requested one. Rules added later by
// bothy policy are fine.
func sameRules(e *engine.Engine, sb *spec.Sandbox, asked policy.Block) error {
	if len(asked.Presets)+len(asked.Allow)+len(asked.Deny) == 0 || sb.Broken != "" {
		return nil
	}
	has, err := e.HasRules(sb, asked)
	if err == nil && !has {
		err = spec.Errorf(spec.ErrConflict, "sandbox %s exists with other network rules", sb.Name).
			WithHint("they can be changed: bothy policy allow|deny TARGET or --preset NAME, with --sandbox %s; bothy policy ls --sandbox %s shows them", sb.Name, sb.Name)
	}
	return err
}

// sameSettings refuses to run in a sandbox that was created with other settings than requested.
// Otherwise a limit or a :ro would be ignored silently.
func (a *app) sameSettings(cmd *cobra.Command, sb, wish *spec.Sandbox) error {
	differs := func(what string) *spec.Error {
		return spec.Errorf(spec.ErrConflict, "sandbox %s exists with other %s", sb.Name, what).
			WithHint("what a sandbox is made of is fixed at its creation; remove it first (bothy rm %s) or choose another --name", sb.Name)
	}
	changed := cmd.Flags().Changed
	if wish == nil {
		for _, name := range []string{"volume", "private", "cpus", "memory", "pids", "disk", "idle-timeout", "publish", "allow-host-port", "template", "agent-config", "force-workspace", "workspace", "git-dir", "checkpoint", "max-tokens", "max-cost", "share-tasks", "model-server", "model-key", "server-model", "docker"} {
			if changed(name) {
				return differs("settings (--" + name + ")")
			}
		}
		return nil
	}
	if !slices.Equal(sb.Workspaces, wish.Workspaces) && !(len(wish.Workspaces) == 1 && sb.Workspaces[0] == wish.Workspaces[0]) {
		return differs("directories")
	}
	switch {
	case changed("workspace") && sb.Mode() != wish.Mode():
		return differs("workspace mode (" + sb.Mode() + ")")
	case changed("template") && !sameTemplate(sb, wish):
		return differs("template")
	case changed("template") && !sb.Devcontainer.Equal(wish.Devcontainer):
		return differs("commands or variables of its devcontainer.json")
	case changed("agent-config") && sb.Config != wish.Config:
		return differs("configuration of its agent")
	case changed("volume") && !slices.Equal(sb.Volumes, wish.Volumes):
		return differs("volumes")
	case changed("private") && !slices.Equal(sb.Private, wish.Private):
		return differs("private directories")
	case changed("cpus") && sb.Limits.CPUs != wish.Limits.CPUs,
		changed("memory") && sb.Limits.Memory != wish.Limits.Memory,
		changed("pids") && sb.Limits.Pids != wish.Limits.Pids,
		changed("disk") && sb.Limits.Disk != wish.Limits.Disk:
		return differs("limits")
	case !containsAll(sb.Ports, wish.Ports):
		return differs("published ports").WithHint("bothy ports %s --publish adds one", sb.Name)
	case !containsAll(sb.HostPorts, askedPorts(wish)):
		return differs("ports of the host").WithHint("bothy ports %s --allow-host-port adds one", sb.Name)
	case (changed("model-server") || changed("model-key") || changed("server-model")) && !sameServer(sb, wish):
		return differs("models to ask (--model-server)")
	case changed("share-tasks") && sb.Tasks != wish.Tasks:
		return differs("access to tasks")
	case changed("docker") && sb.Docker != wish.Docker:
		return differs("settings (--docker)")
	case changed("checkpoint") && sb.Checkpoint != wish.Checkpoint:
		return differs("checkpoints").WithHint("bothy checkpoint auto %s changes when they are made", sb.Name)
	case changed("max-tokens") && sb.Budget.Tokens != wish.Budget.Tokens, changed("max-cost") && sb.Budget.USD != wish.Budget.USD:
		return differs("budget").WithHint("bothy cost %s --max-tokens or --max-cost changes it", sb.Name)
	case changed("idle-timeout") && sb.IdleTimeout != wish.IdleTimeout:
		return differs("idle timeout")
	}
	return nil
}

func containsAll[T comparable](have, want []T) bool {
	return !slices.ContainsFunc(want, func(w T) bool { return !slices.Contains(have, w) })
}
