package review

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Order is a change that shall be brought to the host, as it was seen. Whoever
// gives it has decided about its flags.
type Order struct {
	Change
	// Pick leaves of a text only the hunks that it chooses; nil: all.
	Pick Pick
	// Shown is the digest of the file of the layer as somebody saw it who decided; what
	// is another then is not applied. Nil: only its inode and its times must be as they
	// were, which what a program writes through memory leaves as they are.
	Shown *Digest
	// Overwrite applies it although the host's file was changed meanwhile.
	Overwrite bool
	// Not is what becomes of it if somebody has decided against it, and Why; what must not be
	// carried out without it is left, too.
	Not Result
	Why string
}

// mode is what a file or a directory gets on the host. Group and others may do no more with
// it than now, and cannot write to what is new: an editor inside that writes a new file in
// the place of another, and gives it the usual mode, does not mean that. It is otherwise if
// that is all the change is, which is shown as such then, and has a flag if they may write.
func (c Change) mode() uint32 {
	shut := uint32(0o022)
	if c.Old.Form == File {
		shut = 0o066 &^ c.Old.Mode
		shut |= (shut & 0o044) >> 2 &^ c.Old.Mode // who cannot read it does not run it either
	}
	if c.Kind == Mode {
		shut = 0
	}
	return c.New.Mode &^ shut
}

// Chmod tells which mode a file of the host's gets with another text, if that is another one.
func (c Change) Chmod() (mode uint32, other bool) {
	mode = c.mode()
	return mode, c.Kind == Modified && c.New.Form == File && mode != c.Old.Mode
}

// inside is what the record keeps of the mode of a directory which has another one on
// the host.
func (o Order) inside() uint32 {
	if o.mode()|0o700 == o.New.Mode {
		return 0
	}
	return o.New.Mode
}

// Result is what became of an order.
type Result string

// Results.
const (
	Applied   Result = "applied"
	Partly    Result = "partly"    // some hunks of it
	Unmatched Result = "unmatched" // no hunk of it was meant
	Conflicts Result = "conflict"  // the host has something newer
	Failed    Result = "failed"
	Left      Result = "left" // it must not go without another one that was not applied
	Discarded Result = "discarded"
)

// Outcome is what became of one change. A directory that stays with what was left in it
// has no result of its own.
type Outcome struct {
	Change
	Result Result
	Why    string
}

// How much is written before it is made durable and put in place.
const (
	batchFiles = 256
	batchBytes = 64 << 20
)

// recordEvery is how often the record is written meanwhile, which has a line for all
// that was ever applied. What it lacks after a crash is in conflict once the host
// changes it.
const recordEvery = time.Second

// Apply brings changes to the host. Each file is there old or new at any moment,
// whoever looks and whenever it ends; what the host changed since the order was
// made is not overwritten. settled says that the layer is not mounted: what was
// applied then leaves it. The caller sees to it that nobody else applies.
func (w Workspace) Apply(orders []Order, settled bool) ([]Outcome, error) {
	var done []Outcome
	err := w.change(func(l *look) (err error) {
		done, err = l.apply(orders, settled)
		return err
	})
	return done, err
}

func (l *look) apply(orders []Order, settled bool) ([]Outcome, error) {
	a := l.begin(orders)
	err := a.all()
	a.links.note(l.record)
	if werr := l.Layer.write(l.record); err == nil {
		err = werr
	}
	if settled && err == nil {
		err = l.settle()
	}
	return a.outcome, err
}

// applying is one run of Apply.
type applying struct {
	*look
	nonce   string
	orders  []Order
	outcome []Outcome
	batch   []step
	bytes   int64
	steps   int
	written time.Time      // the record
	gone    map[string]int // by directory, how many names in it were taken away
	ties    *ties
	links   *links
}

func (l *look) begin(orders []Order) *applying {
	return &applying{look: l, nonce: newNonce(), orders: orders, outcome: make([]Outcome, len(orders)), gone: map[string]int{}, ties: tie(orders), links: linksOf(orders)}
}

// step is a file that shall come or go.
type step struct {
	order  int
	dir    *dir // it lies in
	name   string
	temp   string // beside it: the file that comes, or then the one that went
	old    Entry
	fresh  bool     // a file comes
	partly bool     // not all of it
	mine   own      // the file that comes, as it was before it went there
	gone   contents // what was in the directory that goes for it
}

// all brings first what is new or other, and then takes away what goes. What becomes
// something else, which is both, is between them.
func (a *applying) all() error {
	defer a.drop()
	a.hold()
	for _, whole := range []bool{false, true} {
		for i, o := range a.orders {
			if a.outcome[i].Result != "" || o.Kind == Deleted || whole != (a.ties.whole[i] != none) {
				continue
			}
			if err := a.come(i); err != nil {
				return err
			}
		}
		if err := a.commit(); err != nil {
			return err
		}
	}
	for i := range slices.Backward(a.orders) {
		if a.outcome[i].Result == "" {
			if err := a.leave(i); err != nil {
				return err
			}
		}
	}
	return a.commit()
}

// refused ends an order that cannot be carried out.
func (a *applying) refused(i int) bool {
	o := a.orders[i]
	switch {
	case o.Not != "":
		a.end(i, o.Not, o.Why)
	case o.Refused != "":
		a.end(i, Failed, o.Refused)
	case o.Conflict != "" && !o.Overwrite:
		a.end(i, Conflicts, o.Conflict)
	default:
		return false
	}
	return true
}

func (a *applying) end(i int, r Result, why string) {
	o := a.orders[i]
	a.outcome[i] = Outcome{Change: o.Change, Result: r, Why: why}
	switch {
	case r == Applied && o.Kind == Deleted:
		a.gone[path.Dir(o.Path)]++
	case r != Applied && r != Unmatched && r != "":
		a.leaveWithout(i)
	}
}

// failed ends an order with an error, which is told and keeps no other from being
// carried out; but a disk that is full is full for all.
func (a *applying) failed(i int, err error) error {
	if errors.Is(err, spec.ErrConflict) {
		a.end(i, Conflicts, err.Error())
		return nil
	}
	a.end(i, Failed, err.Error())
	if store.IsFull(err) {
		return fmt.Errorf("write %s: %w", Quote(a.orders[i].Path), err)
	}
	return nil
}

// come brings what is new or other.
func (a *applying) come(i int) error {
	o := a.orders[i]
	if err := a.stillThere(o.Change); err != nil {
		return a.failed(i, err)
	}
	if no, err := a.unmatched(i); err != nil {
		return a.failed(i, err)
	} else if no {
		return nil
	}
	parent, err := a.parentFor(o.Path)
	if err != nil {
		return a.failed(i, err)
	}
	if o.New.Form == Directory && o.Kind != Type {
		defer parent.close()
		return a.directory(i, parent)
	}
	err = a.push(step{order: i, dir: parent, name: path.Base(o.Path), temp: a.temp(), old: o.Old, fresh: true, gone: a.contents(i)})
	if err == nil && o.New.Form == Directory {
		err = a.commit() // what lies in it comes next
	}
	return err
}

// parentFor opens the directory a path lies in, and makes what is missing of it as
// the layer has it.
func (a *applying) parentFor(p string) (*dir, error) {
	want := path.Dir(p)
	d, err := a.host.sub(want)
	if !errors.Is(err, unix.ENOENT) {
		return d, err
	}
	above, err := a.parentFor(want)
	if err != nil {
		return nil, err
	}
	defer above.close()
	defer a.touching(path.Dir(want), above)()
	o := Order{Change: Change{New: Entry{Form: Directory, Mode: 0o755}}}
	if in, name, err := a.upper.parent(want); err == nil {
		if st, there, err := in.stat(name); err == nil && there {
			o.New.Mode = st.Mode & 0o777
		}
		in.close()
	}
	if err := above.mkdir(path.Base(want), o.mode()); err != nil {
		return nil, err
	}
	return a.known(want, o)
}

// known opens a directory that we have made or changed, and remembers it.
func (a *applying) known(p string, o Order) (*dir, error) {
	d, err := a.host.sub(p)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(d.fd(), &st); err != nil {
		d.close()
		return nil, err
	}
	a.record.set(p, known{Host: markOf(&st), Inside: o.inside()})
	return d, nil
}

// mkdir makes a directory with a mode that no mask narrows.
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

// give gives a directory its permissions, and leaves whose group files in it get. Its
// times agree then: should we be killed before it is in the record, it must not look
// like one that somebody moved there (see isOther).
func (d *dir) give(mode uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(d.fd(), &st); err != nil {
		return err
	}
	mode = st.Mode&unix.S_ISGID | mode | 0o700
	if st.Mode&0o7777 == mode {
		return nil
	}
	if err := unix.Fchmod(d.fd(), mode); err != nil {
		return err
	}
	return d.touch(".")
}

// touch makes the times of a directory the same.
func (d *dir) touch(name string) error {
	return unix.UtimesNanoAt(d.fd(), name, nil, unix.AT_SYMLINK_NOFOLLOW)
}

// directory makes one, or gives one its mode.
func (a *applying) directory(i int, parent *dir) error {
	o, name := a.orders[i], path.Base(a.orders[i].Path)
	defer a.touching(path.Dir(o.Path), parent)()
	now, err := parent.entry(name)
	if err != nil {
		return a.failed(i, err)
	}
	switch {
	case now.Form == Nothing:
		err = parent.mkdir(name, o.mode())
	case now.Form != Directory, o.Kind == Mode && (now.Mode != o.Old.Mode || now.Mark.Inode != o.Old.Mark.Inode):
		err = errNewer()
	default: // made for what lies in it, or it is there with another mode
		var d *dir
		if d, err = parent.sub(name); err == nil {
			err = d.give(o.mode())
			d.close()
		}
	}
	if err == nil {
		var d *dir
		d, err = a.known(o.Path, o)
		d.close()
	}
	if err != nil {
		return a.failed(i, err)
	}
	a.end(i, Applied, "")
	return nil
}

// errNewer says that the host has changed something since the order was made.
func errNewer() error { return spec.Errorf(spec.ErrConflict, "changed on the host just now") }

// leave takes away what is gone.
func (a *applying) leave(i int) error {
	o := a.orders[i]
	if o.Pick != nil {
		a.end(i, Unmatched, "")
		return nil
	}
	if err := a.stillGone(o.Path); err != nil {
		return a.failed(i, err)
	}
	parent, name, err := a.host.parent(o.Path)
	if err != nil {
		return a.failed(i, err)
	}
	if o.Old.Form != Directory {
		return a.push(step{order: i, dir: parent, name: name, temp: a.temp(), old: o.Old})
	}
	defer parent.close()
	if err := a.commit(); err != nil { // what lies in it
		return err
	}
	defer a.touching(path.Dir(o.Path), parent)()
	switch err := unix.Unlinkat(parent.fd(), name, unix.AT_REMOVEDIR); {
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST):
		if a.keeps(o) {
			a.end(i, "", "")
			return nil
		}
		a.end(i, Conflicts, "there is something new in it")
	case err != nil:
		return a.failed(i, err)
	default:
		a.noteGone(i)
	}
	return nil
}

func (a *applying) push(s step) error {
	a.batch = append(a.batch, s)
	a.bytes += a.orders[s.order].New.Size
	if len(a.batch) >= batchFiles || a.bytes >= batchBytes {
		return a.commit()
	}
	return nil
}
