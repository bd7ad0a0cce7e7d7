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

// record is what is known of the host's files below a layer.
type record struct {
	Version int `json:"version"`
	// Since is the time from which on the layer holds changes, in nanoseconds:
	// the first start since it was empty.
	Since int64 `json:"since"`
	// Paths are those that were applied or discarded since then.
	Paths []known `json:"paths,omitempty"`

	// Touched are directories of the host's, as Quote writes them, in which an apply was the
	// last to add or remove names, and nobody else did since that time: when, in nanoseconds.
	Touched map[string]int64 `json:"touched,omitempty"`

	index map[string]int
}

// known is what is known of one path.
type known struct {
	Path string `json:"path"` // as Quote writes it
	// Host is the host's file that the next change of the inside is based on;
	// none if there was no file.
	Host Mark `json:"host"`
	// Layer is the layer's file that the host has now, too: nothing is to be
	// done for it until the inside changes it again. None if there is none.
	Layer Mark `json:"layer"`
	// Cut says that it is one of several names of a file of the host's, and none of what
	// is known of others; see [Workspace.CutLinks].
	Cut bool `json:"cut,omitempty"`
	// Copying says that the layer may have a copy of it that nobody inside has seen: whoever
	// made copies has not come to the end.
	Copying bool `json:"copying,omitempty"`
	// Gone says that the layer's mark of a deletion was applied.
	Gone bool `json:"gone,omitempty"`
	// Moved says that the layer's file was the host's at another path, and nothing else
	// is known.
	Moved bool `json:"moved,omitempty"`
	// Inside is the mode of a directory of the layer that was made with a narrower one on
	// the host. Until it has another one there is nothing to be done for it.
	Inside uint32 `json:"inside,omitempty"`
}

// read reads the record; a layer without one has none of its changes since any
// time that is known.
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

// isIn tells whether a file of the layer is one that the host has, too.
func (k known) isIn(layer Mark) bool { return k.Copying || k.Layer != Mark{} && k.Layer == layer }

// last is when the host's file was the one that is known, for a person.
func (k known) last() string {
	if k.Cut {
		return "the sandbox was started"
	}
	return "it was last applied or discarded"
}

// of gives what is known of a path.
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

// Prepare makes a layer ready to be mounted. The caller sees to it that it is not
// mounted yet. One that holds nothing begins to count anew.
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

// changesFrom gives a time that is later than each change before, and not later than one from now
// on. Files are dated by a clock that ticks every few milliseconds, but Linux 6.13 and later date
// some changes exactly, and so ahead of that clock: it waits for the next tick.
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

// likeSource gives the top of the layer the mode of the directory that it lies
// over: inside it is seen as that. Nobody else reaches it.
func (w Workspace) likeSource() error {
	host, err := openTop(w.Source)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // whoever mounts it says so
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

// empty reports whether a layer holds nothing at all, but places for what lies over
// the workspace.
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

// since is the record's time for a person.
func (r *record) since() string {
	return time.Unix(0, r.Since).Local().Format(time.DateTime)
}

// drop forgets a path. Its place stays until the record is read again, so that those
// of the others do.
func (r *record) drop(path string) {
	if i, ok := r.index[path]; ok {
		r.Paths[i] = known{}
		delete(r.index, path)
	}
}

// taken says that the layer has nothing at a path any more.
func (r *record) taken(path string) {
	k, ok := r.of(path)
	switch {
	case k.Cut:
		r.drop(path) // nothing was done inside that the host's file is newer than
	case ok:
		r.set(path, known{Host: k.Host, Inside: k.Inside}) // of what is gone, that the host has none
	}
}

// has tells whether a directory of the host's is one that an apply made or changed.
func (r *record) has(path string, now Mark) bool {
	k, ok := r.of(path)
	return ok && k.Host.Inode == now.Inode
}

// left forgets what mode a directory had inside that has left the layer.
func (r *record) left(path string) {
	if i, ok := r.index[path]; ok {
		r.Paths[i].Inside = 0
	}
}
