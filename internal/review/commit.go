package review

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"
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
	pending []intended      // of batches that were carried out, and are not in the record yet
	quiet   map[string]uint64
	written time.Time // the record
	links   *links
}

// apply begins to carry out a plan.
func (p *plan) apply() *applying {
	return &applying{
		plan: p, nonce: newNonce(), written: time.Now(), links: linksOf(p.orders), made: map[string]bool{}, quiet: map[string]uint64{},
	}
}

// step is one action of an apply on the host.
type step struct {
	do     deed
	order  int
	dir    *dir // of the path
	name   string
	temp   string // next to the name: the new file, or later the replaced one
	old    Entry
	form   Form     // of the new file
	partly bool     // not all of it
	mine   own      // the file that comes, as it was before it went there
	gone   contents // the contents of the directory that it replaces
}

// all carries out the steps, except those whose order has ended because another order, on which
// it depends, failed.
func (a *applying) all() error {
	defer a.drop()
	for _, s := range a.steps {
		if a.made[path.Dir(a.orders[s.order].Path)] {
			if err := a.commit(); err != nil {
				return err
			}
		}
		if !a.open(s.order) {
			continue
		}
		if err := a.begin(s); err != nil {
			return err
		}
	}
	return a.commit()
}

// begin puts a step into the batch.
func (a *applying) begin(s step) error {
	o := a.orders[s.order]
	if err := a.stillWanted(s.order); err != nil {
		return a.failed(s.order, err)
	}
	dir, name, err := a.host.parent(o.Path)
	if err != nil {
		return a.failed(s.order, err)
	}
	s.dir, s.name, s.old, s.form = dir, name, o.Old, o.New.Form
	if s.do == bring || s.do == remove {
		s.temp = a.temp()
	}
	if s.do == bring {
		s.gone = a.contents(s.order)
		if s.form == Directory {
			a.made[o.Path] = true
		}
	}
	a.batch = append(a.batch, s)
	a.bytes += o.New.Size
	if len(a.batch) >= batchFiles || a.bytes >= batchBytes {
		return a.commit()
	}
	return nil
}

// commit carries a batch out. It notes each temporary file before creating it, so that recovery
// finds the file after a crash. It notes it again before the rename: until then our file is
// beside the name, and afterwards the host's. It makes files durable before renaming them. All
// notes stay until the record has the steps.
func (a *applying) commit() error {
	if len(a.batch) == 0 {
		return nil
	}
	defer a.drop()
	if err := a.intend(); err != nil {
		return err
	}
	if err := a.stageAll(); err != nil {
		return err
	}
	if err := a.sync(); err != nil {
		return err
	}
	for _, s := range a.batch {
		if !a.open(s.order) {
			continue
		}
		s.old.Mark = a.orders[s.order].Old.Mark // another name of it may have gone since
		if err := a.carryOut(&s); err != nil {
			return err
		}
	}
	if err := a.sync(); err != nil {
		return err
	}
	a.drop()
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
		if s.do != bring {
			continue
		}
		some = true
		if err := a.stage(s); err != nil {
			if ferr := a.failed(s.order, err); ferr != nil {
				return ferr
			}
		}
	}
	if !some {
		return nil
	}
	return a.intend()
}

// carryOut does a step, and remembers the state of the host after it.
func (a *applying) carryOut(s *step) error {
	err := a.naming(s, func() error { return a.do(s) })
	if errors.Is(err, errLeft) {
		err = nil
	}
	var host Mark
	if err == nil && (s.do == bring || s.do == chmod) {
		var st unix.Stat_t
		st, _, err = s.dir.stat(s.name)
		host = markOf(&st)
	}
	switch {
	case errors.Is(err, errStays):
		a.end(s.order, "", "")
		return nil
	case err != nil:
		return a.failed(s.order, err)
	}
	a.record.done(a.intended(*s), host)
	for _, i := range a.partsOf(s.order) {
		a.end(i, Applied, "")
	}
	result := Applied
	if s.partly {
		result = Partly
	}
	a.end(s.order, result, "")
	return nil
}

func (a *applying) do(s *step) error {
	switch s.do {
	case rmdir:
		return a.removeDirectory(s)
	case chmod:
		return s.chmod(a.orders[s.order].mode())
	}
	return s.place(a.links)
}

// errStays says that a file stays in a directory, and has its own outcome.
var errStays = errors.New("something in it stays")

func (a *applying) removeDirectory(s *step) error {
	err := unix.Unlinkat(s.dir.fd(), s.name, unix.AT_REMOVEDIR)
	if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
		return err
	}
	at := a.orders[s.order].Path
	for i, o := range a.orders {
		if o.Kind == Deleted && path.Dir(o.Path) == at && a.outcome[i].Result != Applied {
			return errStays
		}
	}
	return errNewer()
}

// chmod gives a directory its mode.
func (s *step) chmod(mode uint32) error {
	now, err := s.dir.entry(s.name)
	if err != nil {
		return err
	}
	if now.Form != Directory || !asSeen(s.old, now.Mark, false) {
		return errNewer()
	}
	d, err := s.dir.sub(s.name)
	if err != nil {
		return err
	}
	defer d.close()
	if err := d.give(mode); err != nil {
		return err
	}
	return d.f.Sync()
}

// few reports whether the batch is small enough to sync each file by itself. A larger batch is
// synced with the whole file system.
func (a *applying) few() bool { return len(a.batch) <= 16 }

// sync makes the batch's changes to directories durable and, if the batch is large, the files.
func (a *applying) sync() error {
	if !a.few() {
		if err := unix.Syncfs(a.host.fd()); err != nil {
			return fmt.Errorf("write to the disk: %w", err)
		}
		return nil
	}
	for _, s := range a.batch {
		if err := s.dir.f.Sync(); err != nil {
			return fmt.Errorf("write to the disk: %w", err)
		}
	}
	return nil
}

// drop ends the batch: it removes the files that were not renamed into place.
func (a *applying) drop() {
	for _, s := range a.batch {
		if s.do == bring && !slices.Contains([]Result{Applied, Partly}, a.outcome[s.order].Result) {
			_ = a.naming(&s, s.unstage)
		}
		a.pending = append(a.pending, a.intended(s))
		s.dir.close()
	}
	a.batch, a.bytes, a.made = nil, 0, map[string]bool{}
}

// mkdir makes a directory with a mode, regardless of the umask.
func (d *dir) mkdir(name string, mode uint32) error {
	if err := unix.Mkdirat(d.fd(), name, mode|0o700); err != nil {
		return fmt.Errorf("make directory %s: %w", Quote(name), err)
	}
	made, err := d.sub(name)
	if err != nil {
		return err
	}
	defer made.close()
	return made.give(mode)
}

// give sets a directory's permissions, and keeps its set-group-ID bit.
func (d *dir) give(mode uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(d.fd(), &st); err != nil {
		return err
	}
	mode = st.Mode&unix.S_ISGID | mode | 0o700
	if st.Mode&0o7777 == mode {
		return nil
	}
	return unix.Fchmod(d.fd(), mode)
}
