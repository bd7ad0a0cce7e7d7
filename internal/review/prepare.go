package review

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/record"
	"github.com/bothy-dev/bothy/spec"
)

// Prepare makes a layer ready to be mounted. The caller makes sure that it is not mounted yet. An
// empty layer starts a new record.
func (w Workspace) Prepare() error {
	l := w.Layer
	for _, d := range []string{l.Upper(), l.Work()} {
		if err := unix.Mkdir(d, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("make %s: %w", d, err)
		}
	}
	if err := w.likeSource(); err != nil {
		return err
	}
	empty, err := w.isEmpty()
	if err != nil || !empty {
		return err
	}
	now, err := changesFrom()
	if err != nil {
		return fmt.Errorf("read the clock: %w", err)
	}
	return l.Write(&record.Record{Version: spec.Version, Since: now})
}

// changesFrom returns a time that is later than each change before, and not later than one from
// now on. Files are dated by a clock that ticks every few milliseconds. But Linux 6.13 and later
// date some changes exactly, and so ahead of that clock: changesFrom waits for the next tick.
func changesFrom() (int64, error) {
	var exact, ticks unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &exact); err != nil {
		return 0, err
	}
	const tries = 20 // of a millisecond; more if the clock is set back meanwhile
	for range tries {
		if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &ticks); err != nil {
			return 0, err
		}
		if ticks.Nano() >= exact.Nano() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return ticks.Nano(), nil
}

// likeSource gives the top of the layer the mode of the directory below it, because the sandbox
// sees it as that directory. No other user can reach it.
func (w Workspace) likeSource() error {
	host, err := beneath.OpenTop(w.Source)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // mounting it reports the error
	}
	if err != nil {
		return err
	}
	defer host.Close()
	top, err := beneath.OpenTop(w.Layer.Upper())
	if err != nil {
		return err
	}
	defer top.Close()
	var st unix.Stat_t
	if err := unix.Fstat(host.FD(), &st); err != nil {
		return err
	}
	return unix.Fchmod(top.FD(), st.Mode&0o777|0o700)
}

// isEmpty reports whether a layer holds nothing at all, except mount points of mounts over the
// workspace.
func (w Workspace) isEmpty() (bool, error) {
	d, err := beneath.OpenTop(w.Layer.Upper())
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer d.Close()
	names, err := d.Names()
	if err != nil {
		return false, err
	}
	made := func(name string) bool { return !slices.Contains(w.Over, name) }
	return !slices.ContainsFunc(names, made) && !d.IsOpaque(), nil
}

// Remember writes down which names the host has, once for each layer. It may take its time: the
// mounted overlay shows the same names.
func (w Workspace) Remember() error {
	rec, err := w.Layer.Read()
	if err != nil || w.Layer.Remembers(rec) {
		return err
	}
	host, err := beneath.OpenTop(w.Source)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // mounting it reports the error
	}
	if err != nil {
		return err
	}
	defer host.Close()
	return w.Layer.Remember(rec, host, record.MaxDirs, record.MaxNames)
}
