package review

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// record is the known state of the host's files below a layer.
type record struct {
	Version int `json:"version"`
	// Since is the time from which on the layer holds changes, in nanoseconds:
	// the first start since it was empty.
	Since int64 `json:"since"`
	// Paths are the paths that were applied or discarded since then.
	Paths []known `json:"paths,omitempty"`

	// Touched are directories of the host, as Quote writes them, in which an apply was the last
	// to add or remove names. The value is the time of that, in nanoseconds.
	Touched map[string]int64 `json:"touched,omitempty"`

	index map[string]int
}

// known is the recorded state of one path.
type known struct {
	Path string `json:"path"` // as Quote writes it
	// Host is the host's file on which the sandbox's next change is based; none if there was no
	// file.
	Host Mark `json:"host"`
	// Layer is the layer's file that the host has now, too. It needs nothing until the sandbox
	// changes it again. None if there is none.
	Layer Mark `json:"layer"`
	// Cut says that it is one of several names of a host's file, and was not applied or
	// discarded; see [Workspace.CutLinks].
	Cut bool `json:"cut,omitempty"`
	// Copying says that the layer may have a copy of it that the sandbox has not seen, because a
	// start did not finish making its copies.
	Copying bool `json:"copying,omitempty"`
	// Gone says that the layer's mark of a deletion was applied.
	Gone bool `json:"gone,omitempty"`
	// Moved says that the layer's file was the host's at another path, and that nothing else is
	// known.
	Moved bool `json:"moved,omitempty"`
	// Inside is the mode of a directory of the layer that an apply made with a narrower one on
	// the host. As long as the layer's directory keeps that mode, it needs no change.
	Inside uint32 `json:"inside,omitempty"`
}

// read reads the record. Without one, the time since when a layer holds its changes is unknown.
func (l Layer) read() (*record, error) {
	r := &record{Version: spec.Version}
	err := store.ReadJSON(l.record(), r)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	r.index = make(map[string]int, len(r.Paths))
	for i, k := range r.Paths {
		path, uerr := Unquote(k.Path)
		if uerr != nil {
			return nil, fmt.Errorf("read %s: %w", l.record(), uerr)
		}
		r.index[path] = i
	}
	return r, err
}

func (l Layer) write(r *record) error {
	w := *r
	w.Paths = slices.DeleteFunc(slices.Clone(r.Paths), known.dropped)
	return store.WriteJSON(l.record(), w)
}

func (k known) dropped() bool { return k.Path == "" }

// isIn reports whether the host has the layer's file, too.
func (k known) isIn(layer Mark) bool { return k.Copying || k.Layer != Mark{} && k.Layer == layer }

// last describes for a user when the host's file was the known one.
func (k known) last() string {
	if k.Cut {
		return "the sandbox was started"
	}
	return "it was last applied or discarded"
}

// of returns the recorded state of a path.
func (r *record) of(path string) (known, bool) {
	i, ok := r.index[path]
	if !ok {
		return known{}, false
	}
	return r.Paths[i], true
}

func (r *record) set(path string, k known) {
	k.Path = Quote(path)
	if i, ok := r.index[path]; ok {
		r.Paths[i] = k
		return
	}
	r.index[path] = len(r.Paths)
	r.Paths = append(r.Paths, k)
}

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
	empty, err := w.empty()
	if err != nil || !empty {
		return err
	}
	now, err := changesFrom()
	if err != nil {
		return fmt.Errorf("read the clock: %w", err)
	}
	return l.write(&record{Version: spec.Version, Since: now})
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
	host, err := openTop(w.Source)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // mounting it reports the error
	}
	if err != nil {
		return err
	}
	defer host.close()
	top, err := openTop(w.Layer.Upper())
	if err != nil {
		return err
	}
	defer top.close()
	var st unix.Stat_t
	if err := unix.Fstat(host.fd(), &st); err != nil {
		return err
	}
	return unix.Fchmod(top.fd(), st.Mode&0o777|0o700)
}

// empty reports whether a layer holds nothing at all, except mount points of mounts over the
// workspace.
func (w Workspace) empty() (bool, error) {
	d, err := openTop(w.Layer.Upper())
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer d.close()
	names, err := d.names()
	if err != nil {
		return false, err
	}
	made := func(name string) bool { return !slices.Contains(w.Over, name) }
	return !slices.ContainsFunc(names, made) && !d.isOpaque(), nil
}

// since formats the record's time for a user.
func (r *record) since() string {
	return time.Unix(0, r.Since).Local().Format(time.DateTime)
}

// drop forgets a path. Its place stays until the record is read again, so that the index of the others
// stays valid.
func (r *record) drop(path string) {
	if i, ok := r.index[path]; ok {
		r.Paths[i] = known{}
		delete(r.index, path)
	}
}

// taken records that the layer has nothing at a path any more.
func (r *record) taken(path string) {
	k, ok := r.of(path)
	switch {
	case k.Cut:
		r.drop(path) // the sandbox did nothing that conflicts with the host's file
	case ok:
		r.set(path, known{Host: k.Host, Inside: k.Inside}) // for a deleted path, that the host does not have it
	}
}

// has reports whether an apply made or changed a directory of the host.
func (r *record) has(path string, now Mark) bool {
	k, ok := r.of(path)
	return ok && k.Host.Inode == now.Inode
}

// left forgets the mode in the sandbox of a directory that has left the layer.
func (r *record) left(path string) {
	if i, ok := r.index[path]; ok {
		r.Paths[i].Inside = 0
	}
}
