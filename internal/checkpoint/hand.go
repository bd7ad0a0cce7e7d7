package checkpoint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
	"github.com/bothy-dev/bothy/internal/store"
)

// Hand fills another sandbox's directories from a checkpoint. It records how it saw the new
// files, so that little must be kept again when they come back ([Shelf.BeginOf]). The caller
// makes sure that nothing runs in the directories, and also holds the lock of the other's shelf.
// If Hand is interrupted, that shelf is not [Shelf.Whole] until Hand was repeated.
func (s Shelf) Hand(p Point, who string, theirs Shelf, sources []Source) error {
	trees, packs, err := s.openReady(p, sources)
	if err != nil {
		return err
	}
	defer packs.Close()
	if err := theirs.depart(restoring{Handed: true}, sources); err != nil {
		return err
	}
	if err := s.forget(who); err != nil { // a partial record is useless
		return err
	}
	var now placed
	if _, err := now.putTrees(trees, sources, packs); err != nil {
		return err
	}
	if err := syncAll(sources); err != nil {
		return err
	}
	if err := now.awaitClock(); err != nil {
		return err
	}
	if err := store.WriteFile(s.knownOf(who), manifest.Encode(trees)); err != nil {
		return err
	}
	return theirs.endRestore()
}

// BeginOf starts a checkpoint of the work that another sandbox did on handed-out files. The
// shelf's own sandbox does not move to that checkpoint; its head stays.
func (s Shelf) BeginOf(who, cause string) (*Making, error) {
	if err := s.Whole(); err != nil {
		return nil, err
	}
	m, err := s.beginMaking("", cause)
	if err == nil {
		m.who, m.aside = who, true
		m.known = s.stillKept(s.knownOf(who))
	}
	return m, err
}

// knownOf returns the file that records how the other's files were seen.
func (s Shelf) knownOf(who string) string { return filepath.Join(s.Dir, knownName+"-"+who) }

func (s Shelf) forget(who string) error {
	if err := os.Remove(s.knownOf(who)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// setAside ends a checkpoint that the sandbox does not move to.
func (m *Making) setAside() error {
	if m.who == "" {
		return nil
	}
	return store.WriteFile(m.shelf.knownOf(m.who), manifest.Encode(m.trees))
}
