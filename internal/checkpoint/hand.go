package checkpoint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bothy-dev/bothy/internal/store"
)

// Hand has directories of somebody else hold what a checkpoint holds, and notes as what
// their files are seen, so that little is kept anew when they come back ([Shelf.BeginOf]).
// Nobody may be at work in them. If it is interrupted, the other's own shelf, of which the
// caller has the lock, too, is not [Shelf.Whole] until it was done again.
func (s Shelf) Hand(p Point, who string, theirs Shelf, sources []Source) error {
	trees, packs, err := s.ready(p, sources)
	if err != nil {
		return err
	}
	defer packs.Close()
	if err := theirs.depart(restoring{Handed: true}, sources); err != nil {
		return err
	}
	if err := s.forget(who); err != nil { // what is half of it is not known
		return err
	}
	var now placed
	if _, err := now.fill(trees, sources, packs); err != nil {
		return err
	}
	if err := syncAll(sources); err != nil {
		return err
	}
	if err := now.pass(); err != nil {
		return err
	}
	if err := store.WriteFile(s.knownOf(who), encode(trees)); err != nil {
		return err
	}
	return theirs.back()
}

// BeginOf starts on a checkpoint of what somebody else has made of what was handed out.
// The sandbox whose shelf this is does not come to it: where that is stays as it is.
func (s Shelf) BeginOf(who, cause string) (*Making, error) {
	if err := s.Whole(); err != nil {
		return nil, err
	}
	m, err := s.begin("", cause)
	if err == nil {
		m.who, m.aside = who, true
		m.known = s.stillKept(s.knownOf(who))
	}
	return m, err
}

// knownOf is where it stands as what the files of somebody else are seen.
func (s Shelf) knownOf(who string) string { return filepath.Join(s.Dir, knownName+"-"+who) }

func (s Shelf) forget(who string) error {
	if err := os.Remove(s.knownOf(who)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// setAside is the end of a checkpoint that the sandbox does not come to.
func (m *Making) setAside() error {
	if m.who == "" {
		return nil
	}
	return store.WriteFile(m.shelf.knownOf(m.who), encode(m.trees))
}
