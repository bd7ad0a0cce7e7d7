package runstate

import (
	"context"
	"errors"

	"github.com/bothy-dev/bothy/internal/clone"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// RemoveSandbox removes a sandbox. Without force it refuses one that is in use, whose work would be lost, or
// that a run needs.
func RemoveSandbox(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, force bool) error {
	if !force {
		if _, err := LostWith(e, sb, Needing(e)(sb)); err != nil {
			return err
		}
	}
	return e.Remove(ctx, sb, force)
}

// LostWith describes the work that would be lost with a sandbox, and by is the run that needs it or nil: in
// words for a question, and as the errors against its removal.
func LostWith(e *engine.Engine, sb *spec.Sandbox, by Run) (lost string, err error) {
	var errs []error
	note := func(words string, err error) { lost, errs = lost+words, append(errs, err) }
	if e.Changes().Pending(sb) {
		note(pending(e, sb))
	}
	if by != nil {
		note(RunNeeds(by, sb))
	}
	return lost, joined(errs)
}

// pending describes the work that would be lost with a sandbox: in words for a question, and as the
// error against its removal.
func pending(e *engine.Engine, sb *spec.Sandbox) (string, error) {
	if sb.Broken != "" {
		ways := "remove it with all that is in it: bothy rm -f " + sb.Name
		if sb.Mend != "" {
			ways = sb.Mend + ", or " + ways
		}
		return ", with work that may be in it, for it is broken (" + term.Line(sb.Broken) + ")",
			spec.Errorf(spec.ErrConflict, "sandbox %s is broken, and may have work in it: %s", sb.Name, sb.Broken).WithHint("%s", ways)
	}
	if half := e.Whole(sb); half != nil {
		return ", with files that are half of a checkpoint", (&spec.Error{Err: half}).WithHint("%s; or remove it as it is: bothy rm -f %s", spec.Hint(half), sb.Name)
	}
	if sb.Mode() == spec.WorkspaceClone && e.Changes().CloneWork(sb) == clone.InFiles {
		return ", with files in its clone that are not committed", spec.Errorf(spec.ErrConflict, "sandbox %s has files in its clone that are not committed", sb.Name).
			WithHint("look: bothy exec %s git status; have them: commit them there, then bothy fetch %s; remove it with them: bothy rm -f %s", sb.Name, sb.Name, sb.Name)
	}
	if sb.Mode() == spec.WorkspaceClone {
		return ", with work in its clone that you have not fetched", spec.Errorf(spec.ErrConflict, "sandbox %s has work in its clone that was not fetched", sb.Name).
			WithHint("have the commits: bothy fetch %s; look: bothy exec %s git status; remove it with them: bothy rm -f %s", sb.Name, sb.Name, sb.Name)
	}
	return ", with changes that you have not applied", spec.Errorf(spec.ErrConflict, "sandbox %s has changes that are neither applied nor discarded", sb.Name).
		WithHint("look at them: bothy diff --stat %s; at what git keeps, such as commits: bothy diff --stat %s .git, bothy fetch %s; remove it with them: bothy rm -f %s", sb.Name, sb.Name, sb.Name, sb.Name)
}

// joined returns one error for several, and a single one unchanged.
func joined(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}
