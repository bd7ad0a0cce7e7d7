package apply

import (
	"os"
	"path"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/record"
)

// intended returns the entry that is written for a step.
func (a *applying) intended(s step) record.Step {
	o := a.orders[s.order]
	n := record.Step{
		Do: s.do, Dir: path.Dir(o.Path), Name: path.Base(o.Path), Temp: s.temp, Old: s.old.Mark, Fresh: s.do == record.Bring,
		Mine: s.mine, Tree: s.gone, Heirs: o.Heirs,
	}
	switch s.do {
	case record.Remove, record.RemoveDir:
		n.Known.Gone = true
	case record.Chmod:
		n.Mode = o.HostMode() | 0o700
		n.Known.Inside = o.inside()
	case record.Bring:
		if o.New.Form == beneath.Directory {
			n.Known.Inside = o.inside()
		}
		if !s.partly && (o.New.Form != beneath.Directory || o.Kind == review.Type) {
			n.Known.Layer = o.New.Mark
		}
	}
	for _, i := range a.partsOf(s.order) {
		if s.old.Form == beneath.Directory {
			n.Parts = append(n.Parts, a.orders[i].Path)
			n.Heirs = append(slices.Clip(n.Heirs), a.orders[i].Heirs...)
		}
	}
	return n
}

// writeIntent writes down the steps of the batch, and those that the record does not have yet.
func (a *applying) writeIntent() error {
	list := slices.Clip(a.pending)
	for _, s := range a.batch {
		list = append(list, a.intended(s))
	}
	a.sumQuiet(list)
	return a.Layer.WriteIntent(record.Intent{Files: list, Quiet: a.quiet})
}

// finishRecord writes the record. Then only the removal of replaced files that could not be
// removed is still intended.
func (a *applying) finishRecord() error {
	a.links.updateRecord(a.Record)
	if err := a.Layer.Write(a.Record); err != nil {
		return err
	}
	a.written = time.Now()
	var left []record.Step
	for _, n := range a.pending {
		if n.Temp != "" && a.hostMayHave(path.Join(n.Dir, n.Temp)) {
			left = append(left, n)
		}
	}
	began := len(a.pending) > 0
	a.pending, a.quiet = left, map[string]uint64{}
	switch {
	case len(left) > 0:
		return a.Layer.WriteIntent(record.Intent{Files: left})
	case began:
		return os.Remove(a.Layer.IntentFile())
	}
	return nil
}

// hostMayHave reports whether the host may have something at a path.
func (l *job) hostMayHave(at string) bool {
	in, name, err := l.Host.OpenParent(at)
	if err != nil {
		return !beneath.IsMissing(err)
	}
	defer in.Close()
	_, there, err := in.Stat(name)
	return there || err != nil
}
