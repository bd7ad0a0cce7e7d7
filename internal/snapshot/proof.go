package snapshot

import (
	"context"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/clone"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Proof makes a sandbox in which the work of another sandbox is judged. It begins with the other's
// workspaces and private directories as they were at a checkpoint, and with nothing else of it.
// Home and programs are those of a new sandbox, because root inside the other may have changed the
// programs that judge. The proof has no leases, and its writes reach nothing outside of it. It
// serves one command and goes with it.
func (s *Snapshots) Proof(ctx context.Context, of *spec.Sandbox, p checkpoint.Point) (*spec.Sandbox, error) {
	sb, err := s.ProofAs(ctx, of, p, func(*spec.Sandbox) {})
	if err != nil {
		return nil, &spec.Error{Op: "make a copy of " + of.Name + " to judge it", Err: err}
	}
	return sb, nil
}

// ProofAs is [Snapshots.Proof] for a caller that changes the description of the sandbox, and that
// fills more of its directory. The error does not tell the operation.
func (s *Snapshots) ProofAs(ctx context.Context, of *spec.Sandbox, p checkpoint.Point, describe func(*spec.Sandbox), fill ...func(store.Sandbox) error) (*spec.Sandbox, error) {
	s.engine.Sweep()
	sb := engine.ForCommand(of, "proof")
	if sb.Mode() == spec.WorkspaceLive {
		sb.WorkspaceMode = spec.WorkspaceReview
	}
	describe(sb)
	_, lock, err := s.openCheckpoints(of)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	work := func(d store.Sandbox) error { return s.fillProof(of, sb, p, d) }
	return sb, s.engine.AddForCommand(ctx, sb, append([]func(store.Sandbox) error{work}, fill...)...)
}

// fillProof fills the directory of a proof with the work to judge.
func (s *Snapshots) fillProof(of, sb *spec.Sandbox, p checkpoint.Point, d store.Sandbox) error {
	theirs := s.clones(of)
	for i, c := range clone.Of(sb, d.Clone) {
		if err := theirs[i].Fork(c.Dir); err != nil {
			return err
		}
	}
	if err := s.Checkpoints(of).Fill(p, workIn(s.sourcesIn(sb, d))); err != nil {
		return err
	}
	return s.engine.Store.Sandbox(of.ID).CopyRules(d)
}

// isWork reports whether a tree of a checkpoint holds the work of a sandbox, unlike its home.
func isWork(tree string) bool {
	kind, _, _ := strings.Cut(tree, "/")
	return slices.Contains([]string{"review", "clone", "workspace", "private"}, kind)
}

// workIn returns those directories that hold the work of a sandbox, except those of the host.
func workIn(list []checkpoint.Source) []checkpoint.Source {
	return slices.DeleteFunc(list, func(src checkpoint.Source) bool { return isWorkspace(src) || !isWork(src.Name) })
}
