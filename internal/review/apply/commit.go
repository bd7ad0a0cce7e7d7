package apply

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/record"
)

// Limits of a batch, after which it is made durable and put in place.
const (
	batchFiles = 256
	batchBytes = 64 << 20
)

// recordEvery is how often an apply writes the record, which has a line for every path ever
// applied. Until then the intent file has the missing steps.
const recordEvery = time.Second

// applying carries out a plan.
type applying struct {
	*plan
	nonce   string
	named   int // temporary names that were given
	batch   []step
	bytes   int64
	made    map[string]bool // directories that the batch makes
	pending []record.Step   // of batches that were carried out, and are not in the record yet
	quiet   map[string]uint64
	written time.Time // the record
	links   *links
}

// startApplying begins to carry out a plan.
func (p *plan) startApplying() *applying {
	return &applying{
		plan: p, nonce: newNonce(), written: time.Now(), links: linksOf(p.orders), made: map[string]bool{}, quiet: map[string]uint64{},
	}
}

// step is one action of an apply on the host.
type step struct {
	do     record.Deed
	order  int
	dir    *beneath.Dir // of the path
	name   string
	temp   string // next to the name: the new file, or later the replaced one
	old    beneath.Entry
	form   beneath.Form     // of the new file
	partly bool             // not all of it
	mine   beneath.Identity // the file that comes, as it was before it went there
	gone   record.Contents  // the contents of the directory that it replaces
}

// carryOutAll carries out the steps, except those whose order has ended because another order, on which
// it depends, failed.
func (a *applying) carryOutAll() error {
	defer a.dropBatch()
	for _, s := range a.steps {
		if a.made[path.Dir(a.orders[s.order].Path)] {
			if err := a.commitBatch(); err != nil {
				return err
			}
		}
		if !a.isOpen(s.order) {
			continue
		}
		if err := a.addToBatch(s); err != nil {
			return err
		}
	}
	return a.commitBatch()
}

// addToBatch puts a step into the batch.
func (a *applying) addToBatch(s step) error {
	o := a.orders[s.order]
	if err := a.checkWanted(s.order); err != nil {
		return a.failOrder(s.order, err)
	}
	dir, name, err := a.Host.OpenParent(o.Path)
	if err != nil {
		return a.failOrder(s.order, err)
	}
	s.dir, s.name, s.old, s.form = dir, name, o.Old, o.New.Form
	if s.do == record.Bring || s.do == record.Remove {
		s.temp = a.nextTemp()
	}
	if s.do == record.Bring {
		s.gone = a.contents(s.order)
		if s.form == beneath.Directory {
			a.made[o.Path] = true
		}
	}
	a.batch = append(a.batch, s)
	a.bytes += o.New.Size
	if len(a.batch) >= batchFiles || a.bytes >= batchBytes {
		return a.commitBatch()
	}
	return nil
}

// commitBatch carries a batch out. It notes each temporary file before creating it, so that recovery
// finds the file after a crash. It notes it again before the rename: until then our file is
// beside the name, and afterwards the host's. It makes files durable before renaming them. All
// notes stay until the record has the steps.
func (a *applying) commitBatch() error {
	if len(a.batch) == 0 {
		return nil
	}
	defer a.dropBatch()
	if err := a.writeIntent(); err != nil {
		return err
	}
	if err := a.stageAll(); err != nil {
		return err
	}
	if err := a.syncBatch(); err != nil {
		return err
	}
	for _, s := range a.batch {
		if !a.isOpen(s.order) {
			continue
		}
		s.old.Mark = a.orders[s.order].Old.Mark // another name of it may have gone since
		if err := a.carryOut(&s); err != nil {
			return err
		}
	}
	if err := a.syncBatch(); err != nil {
		return err
	}
	a.dropBatch()
	if time.Since(a.written) > recordEvery {
		return a.finishRecord()
	}
	return nil
}

// stageAll writes the new files next to their final names.
func (a *applying) stageAll() error {
	some := false
	for i := range a.batch {
		s := &a.batch[i]
		if s.do != record.Bring {
			continue
		}
		some = true
		if err := a.stageFile(s); err != nil {
			if ferr := a.failOrder(s.order, err); ferr != nil {
				return ferr
			}
		}
	}
	if !some {
		return nil
	}
	return a.writeIntent()
}

// carryOut does a step, and remembers the state of the host after it.
func (a *applying) carryOut(s *step) error {
	err := a.naming(s, func() error { return a.doStep(s) })
	if errors.Is(err, errLeft) {
		err = nil
	}
	var host beneath.Mark
	if err == nil && (s.do == record.Bring || s.do == record.Chmod) {
		var st unix.Stat_t
		st, _, err = s.dir.Stat(s.name)
		host = beneath.MarkOf(&st)
	}
	switch {
	case errors.Is(err, errStays):
		a.endOrder(s.order, "", "")
		return nil
	case err != nil:
		return a.failOrder(s.order, err)
	}
	a.Record.Finish(a.intended(*s), host)
	for _, i := range a.partsOf(s.order) {
		a.endOrder(i, Applied, "")
	}
	result := Applied
	if s.partly {
		result = Partly
	}
	a.endOrder(s.order, result, "")
	return nil
}

func (a *applying) doStep(s *step) error {
	switch s.do {
	case record.RemoveDir:
		return a.removeDirectory(s)
	case record.Chmod:
		return s.setMode(a.orders[s.order].HostMode())
	}
	return s.putInPlace(a.links)
}

// errStays says that a file stays in a directory, and has its own outcome.
var errStays = errors.New("something in it stays")

func (a *applying) removeDirectory(s *step) error {
	err := unix.Unlinkat(s.dir.FD(), s.name, unix.AT_REMOVEDIR)
	if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
		return err
	}
	at := a.orders[s.order].Path
	for i, o := range a.orders {
		if o.Kind == review.Deleted && path.Dir(o.Path) == at && a.outcome[i].Result != Applied {
			return errStays
		}
	}
	return errNewer()
}

// setMode gives a directory its mode.
func (s *step) setMode(mode uint32) error {
	now, err := s.dir.Entry(s.name)
	if err != nil {
		return err
	}
	if now.Form != beneath.Directory || !isAsSeen(s.old, now.Mark, false) {
		return errNewer()
	}
	d, err := s.dir.OpenDir(s.name)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.SetMode(mode); err != nil {
		return err
	}
	return d.Sync()
}

// isSmall reports whether the batch is small enough to sync each file by itself. A larger batch is
// synced with the whole file system.
func (a *applying) isSmall() bool { return len(a.batch) <= 16 }

// syncBatch makes the batch's changes to directories durable and, if the batch is large, the files.
func (a *applying) syncBatch() error {
	if !a.isSmall() {
		if err := unix.Syncfs(a.Host.FD()); err != nil {
			return fmt.Errorf("write to the disk: %w", err)
		}
		return nil
	}
	for _, s := range a.batch {
		if err := s.dir.Sync(); err != nil {
			return fmt.Errorf("write to the disk: %w", err)
		}
	}
	return nil
}

// dropBatch ends the batch: it removes the files that were not renamed into place.
func (a *applying) dropBatch() {
	for _, s := range a.batch {
		if s.do == record.Bring && !slices.Contains([]Result{Applied, Partly}, a.outcome[s.order].Result) {
			_ = a.naming(&s, s.unstage)
		}
		a.pending = append(a.pending, a.intended(s))
		s.dir.Close()
	}
	a.batch, a.bytes, a.made = nil, 0, map[string]bool{}
}
