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

// Proof makes a sandbox in which is judged what was done in another. It begins with
// the other's workspaces and private directories as they were at a checkpoint, and
// with nothing else of it: home and programs are those of a new sandbox, because root
// inside the other may have changed what judges, and nothing is lent to it. What it
// writes reaches nobody. It serves one command and goes with it.
func (e *Engine) Proof(ctx context.Context, of *spec.Sandbox, p checkpoint.Point) (*spec.Sandbox, error) {
	e.sweep()
	sb, err := e.proof(ctx, of, p, func(*spec.Sandbox) {})
	if err != nil {
		return nil, &spec.Error{Op: "make a copy of " + of.Name + " to judge it", Err: err}
	}
	return sb, nil
}

// proof makes one. settle changes what it is to be, more what is in its directory.
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

// forOneCommand describes a sandbox like another one that goes with the command it is
// made for.
func forOneCommand(like *spec.Sandbox, what string) spec.Sandbox {
	sb := *like
	sb.ID, sb.CreatedAt = store.NewID(), time.Now().UTC()
	sb.Name = what + "-" + sb.ID
	sb.Ports, sb.HostPorts, sb.Checkpoint, sb.Tasks, sb.Loop, sb.Remove = nil, nil, "", "", "", true
	return sb
}

// Fresh makes a sandbox as another one was when that was new: it works on the same live
// workspaces, under the same rules, and has nothing else of it, for root inside the
// other may have changed that. Nothing is lent to it. It serves one command and goes
// with it.
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

// copyRules gives a sandbox what another one may reach, what was sent by rules that bound
// it, and who plays the model there.
func (e *Engine) copyRules(of *spec.Sandbox, d store.Sandbox) error {
	from := e.Store.Sandbox(of.ID)
	return errors.Join(copyDocument(from.Policy(), d.Policy()), copyDocument(from.Mock(), d.Mock()), copyDocument(from.Uploads(), d.Uploads()))
}

// fillProof has the directory of a proof hold what is to be judged.
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

// isWork tells the trees of a checkpoint that hold what a sandbox works on, from its
// home.
func isWork(tree string) bool {
	kind, _, _ := strings.Cut(tree, "/")
	return slices.Contains([]string{"review", "clone", "workspace", "private"}, kind)
}
