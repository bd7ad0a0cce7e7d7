package apply

import (
	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/beneath"
)

// Between the look and the apply, another command may have discarded a change, or put back the
// layer's earlier contents. Apply leaves out a change that the layer does not want any more.

// stillThere fails if the layer's path is not as it was seen.
func (l *job) stillThere(c review.Change) error {
	in, name, err := l.Upper.OpenParent(c.Path)
	if beneath.IsMissing(err) {
		return beneath.ErrChanged()
	}
	if err != nil {
		return err
	}
	defer in.Close()
	now, err := in.Entry(name)
	if err != nil {
		return err
	}
	if now.Form == beneath.Directory { // its times depend on its contents
		now.Mark = c.New.Mark
	}
	if now != c.New {
		return beneath.ErrChanged()
	}
	return nil
}

// already reports whether another apply has brought the change since the look, according to the
// record, and the host still has it.
func (l *job) already(o Order) bool {
	k, noted := l.Record.Find(o.Path)
	if !noted {
		return false
	}
	in, name, err := l.Host.OpenParent(o.Path)
	if err != nil && !beneath.IsMissing(err) {
		return false
	}
	defer in.Close()
	now, err := in.Entry(name)
	switch {
	case err != nil:
		return false
	case o.Kind == review.Deleted:
		return now.Form == beneath.Nothing && k.Host == beneath.Mark{}
	case o.New.Form == beneath.Directory:
		return now.Form == beneath.Directory && l.Record.HasDir(o.Path, now.Mark) && (o.Kind != review.Mode || now.Mode != o.Old.Mode && now.Mode == o.HostMode()|0o700)
	case now.Mark != k.Host || k.Host == o.Old.Mark || now.Form != o.New.Form:
		return false
	}
	return k.Layer == o.New.Mark || k.Layer == beneath.Mark{} && now.Size == o.New.Size && !l.LayerHas(o.Path)
}

// stillGone fails if the layer does not hide the host's path, or has something there.
func (l *job) stillGone(p string) error {
	hides, err := l.Hides(p)
	if err == nil && !hides {
		err = beneath.ErrChanged()
	}
	return err
}
