package reviews

import (
	"bufio"
	"io"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/apply"
	"github.com/bothy-dev/bothy/internal/review/patch"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// writePatchTo writes the changes as a patch instead of applying them. Its user is
// not warned again about changes that may run something, or about files that the host has changed
// meanwhile. So the patch holds both only on request.
func (a *app) writePatchTo(f *applyFlags, sb *spec.Sandbox, list []*reviewed, over map[*reviewed]map[string]bool) error {
	to, err := a.OutputTo(f.patch)
	if err != nil {
		return err
	}
	defer to.Close()
	if to.Std != nil && term.IsTerminal(to.Std) {
		return spec.Errorf(spec.ErrUsage, "a patch with every byte as it is, is nothing for a terminal").
			WithHint("redirect standard output, name a file, or look at it with: bothy diff")
	}
	left := unpatched{tied: map[*reviewed]map[string]bool{}}
	for _, r := range list {
		if left.tied[r], err = a.tiedChanges(f, r, over[r]); err != nil {
			return err
		}
	}
	err = to.Write(func(out io.Writer) error {
		w := bufio.NewWriter(out)
		if err := left.write(w, f, list, over); err != nil {
			return err
		}
		return w.Flush()
	})
	if err != nil {
		return err
	}
	a.noteKept(list)
	return left.verdict(a, sb)
}

// tiedChanges returns the changes that must not go into the patch because they depend on a change left out
// of it. For example, the source of a rename stays until its target is applied.
func (a *app) tiedChanges(f *applyFlags, r *reviewed, over map[string]bool) (map[string]bool, error) {
	orders := a.orders(f, r, over)
	for i := range orders {
		if o := &orders[i]; o.Declined == "" && patch.Unpatched(o.Change) {
			o.Declined = resultUnpatched
		}
	}
	outcomes, err := apply.Foresee(r.Workspace, orders)
	tied := map[string]bool{}
	for _, o := range outcomes {
		if o.Result == apply.Left {
			tied[o.Path] = true
		}
	}
	return tied, err
}

// unpatched counts selected changes that are not in a patch.
type unpatched struct {
	conflicts, flagged, unwritten, left int
	tied                                map[*reviewed]map[string]bool
}

func (n *unpatched) write(w io.Writer, f *applyFlags, list []*reviewed, over map[*reviewed]map[string]bool) error {
	p := &patch.Patch{W: w}
	return eachText(list, func(r *reviewed, c review.Change, t patch.Text) error {
		p.Prefix = r.prefix
		if f.pick != nil {
			var some bool
			if c, t, some = patch.PickedOf(c, t, f.pick); !some {
				return nil
			}
		}
		switch {
		case c.Implied:
			return nil
		case c.Refused == "" && c.Conflict != "" && !over[r][c.Path]:
			n.conflicts++
			return nil
		case c.Refused == "" && len(c.Flags) > 0 && !f.flagged:
			n.flagged++
			return nil
		case n.tied[r][c.Path]:
			n.left++
			return nil
		case c.InGit():
			t.Left = "git takes no patch of what it keeps"
			n.unwritten++
		case t.Left != "":
			b, ok, err := t.Blobs()
			if ok {
				return p.WriteBinary(c, b)
			}
			if err != nil {
				t.Left = "it was changed just now, or cannot be read"
			}
			n.unwritten++
		}
		return p.Write(c, t)
	})
}

// verdict returns the gravest reason why changes are not in the patch, and prints the others.
func (n *unpatched) verdict(a *app, sb *spec.Sandbox) error {
	var left []error
	if n.conflicts > 0 {
		left = append(left, spec.Errorf(spec.ErrConflict, "%s not in the patch: in conflict with what you have now", cmdline.Counted(n.conflicts, "change")).
			WithHint("look at them: bothy diff %s PATH; take the sandbox's: --overwrite PATH; keep yours: bothy discard %s PATH", sb.Name, sb.Name))
	}
	if n.flagged > 0 {
		left = append(left, spec.Errorf(spec.ErrDenied, "%s not in the patch: it may make something run on this host later", cmdline.Counted(n.flagged, "change")).
			WithHint("look at them: bothy diff %s PATH; then add --flagged", sb.Name))
	}
	if n.unwritten > 0 {
		left = append(left, spec.Errorf(nil, "%s that cannot be written into a patch, such as of more than 32 MiB, or of what git keeps: a comment stands for each", cmdline.Counted(n.unwritten, "change")).
			WithHint("bothy apply %s brings what can be applied of them", sb.Name))
	}
	if n.left > 0 {
		left = append(left, spec.Errorf(spec.ErrConflict, "%s not in the patch: each goes with one that is not, as a move with its new content", cmdline.Counted(n.left, "change")).
			WithHint("what an apply would bring of them, tells --dry-run in the place of --patch"))
	}
	if len(left) == 0 {
		return nil
	}
	for _, err := range left[1:] {
		a.Note("%v", err)
	}
	return left[0]
}
