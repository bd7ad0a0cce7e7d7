package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/clone"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Proof makes a sandbox in which the work of another sandbox is judged. It begins with the other's
// workspaces and private directories as they were at a checkpoint, and with nothing else of it.
// Home and programs are those of a new sandbox, because root inside the other may have changed the
// programs that judge. The proof has no leases, and its writes reach nothing outside of it. It
// serves one command and goes with it.
func (e *Engine) Proof(ctx context.Context, of *spec.Sandbox, p checkpoint.Point) (*spec.Sandbox, error) {
	e.sweep()
	sb, err := e.proof(ctx, of, p, func(*spec.Sandbox) {})
	if err != nil {
		return nil, &spec.Error{Op: "make a copy of " + of.Name + " to judge it", Err: err}
	}
	return sb, nil
}

// proof makes a proof. settle changes its description; more fills its directory.
func (e *Engine) proof(ctx context.Context, of *spec.Sandbox, p checkpoint.Point, settle func(*spec.Sandbox), more ...func(store.Sandbox) error) (*spec.Sandbox, error) {
	sb := forOneCommand(of, "proof")
	if sb.Mode() == spec.WorkspaceLive {
		sb.WorkspaceMode = spec.WorkspaceReview
	}
	settle(&sb)
	_, lock, err := e.openCheckpoints(of)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	fill := []func(store.Sandbox) error{e.begin(ctx, &sb), func(d store.Sandbox) error { return e.fillProof(of, &sb, p, d) }}
	return &sb, e.addCopy(ctx, &sb, nil, append(fill, more...)...)
}

// forOneCommand describes a sandbox like another one, which goes with the command that it is made
// for.
func forOneCommand(like *spec.Sandbox, what string) spec.Sandbox {
	sb := *like
	sb.ID, sb.CreatedAt = store.NewID(), time.Now().UTC()
	sb.Name = what + "-" + sb.ID
	sb.Ports, sb.HostPorts, sb.Checkpoint, sb.Tasks, sb.Loop, sb.Remove = nil, nil, "", "", "", true
	return sb
}

// Fresh makes a sandbox like another one was when that was new. It works on the same live
// workspaces, under the same rules. It has nothing else of the other, because root inside may have
// changed that. It has no leases. It serves one command and goes with it.
func (e *Engine) Fresh(ctx context.Context, like *spec.Sandbox) (*spec.Sandbox, error) {
	if len(like.Workspaces) > 0 && like.Mode() != spec.WorkspaceLive {
		return nil, spec.Errorf(spec.ErrUsage, "the workspaces of %s are not live: a new sandbox would not see what waits there", like.Name)
	}
	e.sweep()
	sb := forOneCommand(like, "fresh")
	rules := func(d store.Sandbox) error { return e.copyRules(like, d) }
	if err := e.addCopy(ctx, &sb, nil, e.begin(ctx, &sb), rules); err != nil {
		return nil, &spec.Error{Op: "make a sandbox like " + like.Name, Err: err}
	}
	return &sb, nil
}

// copyRules copies a sandbox's rules to another, with the uploads under rules that limit them, and
// the script of its mock.
func (e *Engine) copyRules(of *spec.Sandbox, d store.Sandbox) error {
	from := e.Store.Sandbox(of.ID)
	return errors.Join(copyDocument(from.Policy(), d.Policy()), copyDocument(from.Mock(), d.Mock()), copyDocument(from.Uploads(), d.Uploads()))
}

// fillProof fills the directory of a proof with the work to judge.
func (e *Engine) fillProof(of, sb *spec.Sandbox, p checkpoint.Point, d store.Sandbox) error {
	theirs := e.clones(of)
	for i, c := range clone.Of(sb, d.Clone) {
		if err := theirs[i].Fork(c.Dir); err != nil {
			return err
		}
	}
	work := slices.DeleteFunc(e.kept(sb, d), func(s checkpoint.Source) bool { return isWorkspace(s) || !isWork(s.Name) })
	if err := e.Checkpoints(of).Fill(p, work); err != nil {
		return err
	}
	return e.copyRules(of, d)
}

// isWork reports whether a tree of a checkpoint holds the work of a sandbox, unlike its home.
func isWork(tree string) bool {
	kind, _, _ := strings.Cut(tree, "/")
	return slices.Contains([]string{"review", "clone", "workspace", "private"}, kind)
}
