package hostpath

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// record is the document of the directories that were shared with sandboxes for writing. It outlives the
// sandboxes, because the links that they made stay.
type record struct {
	Version     int      `json:"version"`
	Directories []Record `json:"directories"`
}

// Record is one directory of the record.
type Record struct {
	Path string `json:"path"`
	Identity
}

// Bounds of the record. Beyond the first, directories that no longer exist are dropped when one is
// added. Beyond the second, the oldest entries are dropped.
const (
	manyDirectories = 256
	mostDirectories = 4096
)

// ReadRecord returns the directories that sandboxes have written to, including removed sandboxes.
func ReadRecord(s *store.Store) ([]Directory, error) {
	r, err := readRecord(s)
	if err != nil {
		return nil, err
	}
	list := make([]Directory, len(r.Directories))
	for i, d := range r.Directories {
		list[i] = Directory{Path: d.Path, Former: true, Identity: d.Identity}
	}
	return list, nil
}

func readRecord(s *store.Store) (record, error) {
	r := record{Version: spec.Version}
	err := store.ReadJSON(s.Written(), &r)
	if errors.Is(err, spec.ErrNewer) {
		return r, err
	}
	if err == nil && r.Version < 1 {
		err = errors.New("it has no version")
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return r, spec.Errorf(nil, "read %s, which names the directories that sandboxes have written to: %w", s.Written(), err).
			WithHint("use the bothy that wrote it, or remove it: then links that removed sandboxes have made are followed")
	}
	return r, nil
}

// Remember adds directories to the record, before a sandbox is started on them. It writes nothing if
// they are in it already.
func Remember(ctx context.Context, s *store.Store, dirs []Record) error {
	known := func(r record) bool {
		return !slices.ContainsFunc(dirs, func(d Record) bool { return !slices.Contains(r.Directories, d) })
	}
	if r, err := readRecord(s); err != nil || known(r) {
		return err
	}
	lock, err := store.AwaitLock(ctx, s.WrittenLock())
	if err != nil {
		return err
	}
	defer lock.Unlock()
	r, err := readRecord(s)
	if err != nil {
		return err
	}
	for _, d := range dirs {
		r.addDirectory(d)
	}
	r.boundSize()
	return store.WriteJSON(s.Written(), r)
}

// addDirectory adds a directory as its newest entry.
func (r *record) addDirectory(d Record) {
	r.Directories = slices.DeleteFunc(r.Directories, func(old Record) bool {
		return old.Path == d.Path && old.Same(d.Identity) // a reboot may have renumbered its device
	})
	r.Directories = append(r.Directories, d)
}

// boundSize drops entries if there are too many.
func (r *record) boundSize() {
	if len(r.Directories) > manyDirectories {
		r.Directories = slices.DeleteFunc(r.Directories, isGone)
	}
	if n := len(r.Directories) - mostDirectories; n > 0 {
		r.Directories = r.Directories[n:]
	}
}

// isGone reports whether nothing is at the path of a directory.
func isGone(d Record) bool {
	_, err := os.Lstat(d.Path)
	return errors.Is(err, fs.ErrNotExist)
}
