// Package hostpath opens the paths of the host that a person names, and finds the programs of the host
// that Bothy starts.
//
// A sandbox writes to directories of the host. A link in such a directory may have been made inside, and
// may be changed at any moment. So no such link leads out of its directory, and no program in such a
// directory is started. A directory is recognised by its device and inode, by its path, and by its
// position in its file system: a bind mount has another path.
package hostpath

import (
	"slices"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Directory is a directory or file of the host that a sandbox writes to, or has written to.
type Directory struct {
	Path   string // without links
	Former bool   // a sandbox has written to it; another directory may be at the path now
	Identity
}

// Guard knows the directories that sandboxes write to. Its zero value knows none.
type Guard struct {
	written []Directory
	mounts  *mounts // nil until it is needed
	spots   []spot  // of written; nil likewise
	path    *string // see Path
}

// NewGuard returns a guard that knows these directories.
func NewGuard(written []Directory) *Guard { return &Guard{written: written} }

// Load returns the guard of a state directory: it knows the directories that sandboxes write to,
// those that removed sandboxes have written to, and the state directory, in which homes are.
func Load(s *store.Store) (*Guard, error) {
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	written, err := ReadRecord(s)
	if err != nil {
		return nil, err
	}
	for _, sb := range list {
		for _, m := range Live(sb) {
			written = append(written, Directory{Path: m.Source})
		}
	}
	written = slices.DeleteFunc(written, func(d Directory) bool { return d.Path == "/" }) // nothing is outside of the whole disk
	state := Directory{Path: s.Path()}
	if now, err := lookAt(s.Path()); err == nil {
		state.Identity = now.id
	}
	return NewGuard(append(written, state)), nil
}

// Live returns the mounts of a sandbox in which it writes to files of the host at once.
func Live(sb *spec.Sandbox) (list []spec.Mount) {
	for _, m := range slices.Concat(sb.Workspaces, sb.Volumes) {
		if !m.ReadOnly && !sb.Reviews(m) && !sb.Clones(m) {
			list = append(list, m)
		}
	}
	return list
}

// Written returns the directories that the guard knows.
func (g *Guard) Written() []Directory { return g.written }

// isWritten reports whether a directory is one that a sandbox writes to. crossed is set if it is the root of
// a mount, which may be a part of such a directory.
func (g *Guard) isWritten(path string, s seen, crossed bool) (bool, error) {
	for _, d := range g.written {
		if d.Path == path && !d.Former || d.Same(s.id) {
			return true, nil
		}
	}
	if !crossed || len(g.written) == 0 {
		return false, nil
	}
	if err := g.readSpots(); err != nil {
		return false, err
	}
	here := g.mounts.spotIn(s.mount, path)
	return slices.ContainsFunc(g.spots, func(w spot) bool { return w.contains(here) }), nil
}

func (g *Guard) readSpots() error {
	if g.spots != nil {
		return nil
	}
	if err := g.readMounts(); err != nil {
		return err
	}
	for _, d := range g.written {
		g.spots = append(g.spots, g.mounts.spotOf(d.Path))
	}
	return nil
}

func (g *Guard) readMounts() (err error) {
	if g.mounts == nil {
		g.mounts, err = readMounts()
	}
	return err
}

// answers refuses to walk into a mount whose file system does not answer.
func (g *Guard) answers(next string) error {
	if err := g.readMounts(); err != nil {
		return err
	}
	if !slices.ContainsFunc(g.mounts.list, func(m mount) bool { return m.at == next }) {
		return nil
	}
	return Answers(next)
}
