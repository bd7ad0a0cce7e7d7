package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
	"github.com/bothy-dev/bothy/internal/checkpoint/merge"
	"github.com/bothy-dev/bothy/internal/checkpoint/packfile"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Making is a checkpoint in the making. The caller calls Warm any number of times, then Take,
// again if it did not succeed, then End.
type Making struct {
	shelf Shelf
	point Point
	dir   string
	pack  *packfile.Writer
	known []manifest.Tree
	trees []manifest.Tree
	taken chan error // nil, or reports once the taken trees are on the disk
	later bool       // End brings them to the disk

	aside bool   // the sandbox does not move to it
	who   string // the other sandbox whose work it is, if any
}

// Begin starts a checkpoint. The caller must call End.
func (s Shelf) Begin(name, cause string) (*Making, error) {
	if err := s.Whole(); err != nil {
		return nil, err
	}
	return s.beginMaking(name, cause)
}

// BeginBefore starts a checkpoint of the present state before a restore of another one, even if
// the present state is half of an interrupted restore.
func (s Shelf) BeginBefore(p Point) (*Making, error) {
	return s.beginMaking("", "before going back to "+p.Name)
}

func (s Shelf) beginMaking(name, cause string) (*Making, error) {
	there, err := s.sweepStock()
	if err != nil {
		return nil, err
	}
	m := &Making{shelf: s}
	number, err := s.nextNumber(name, there)
	if err != nil {
		return nil, err
	}
	m.point = Point{Version: version, Number: number, Name: name, Parent: s.Head(), Cause: cause}
	if name == "" {
		m.point.Name = strconv.FormatInt(number, 10)
	}
	m.known = s.knownFiles()
	if m.dir, err = s.newDir(strconv.FormatInt(number, 10)); err != nil {
		return nil, err
	}
	m.pack, err = packfile.Create(s.packPath(number), number)
	if err != nil {
		return nil, err
	}
	return m, nil
}

func errInterrupted() error {
	return spec.Errorf(spec.ErrConflict, "going back to a checkpoint was interrupted").WithHint("start the sandbox, which finishes it, or restore again")
}

// nextNumber returns the number of a new checkpoint, greater than any before.
func (s Shelf) nextNumber(name string, there stock) (int64, error) {
	h := s.readHead()
	number := max(h.Number, h.Last)
	for _, d := range there.damaged {
		number = max(number, d.Number)
	}
	for _, p := range there.list {
		number = max(number, p.Number)
		if name != "" && p.Name == name {
			return 0, spec.Errorf(spec.ErrConflict, "there is a checkpoint %q already", name).WithHint("choose another name, or remove that one first")
		}
	}
	for _, pack := range there.packs {
		if n, err := strconv.ParseInt(pack, 10, 64); err == nil {
			number = max(number, n)
		}
	}
	return number + 1, nil
}

// knownFiles returns the files that are known to be kept already. Others are kept again.
func (s Shelf) knownFiles() []manifest.Tree {
	if trees := s.stillKept(filepath.Join(s.Dir, knownName)); trees != nil {
		return trees
	}
	return s.stillKept(filepath.Join(s.Path(s.Head()), manifestName))
}

// stillKept returns the files of a list whose contents are still in a pack; nil if the list
// cannot be read.
func (s Shelf) stillKept(path string) []manifest.Tree {
	trees, err := manifest.Read(path)
	if err != nil {
		return nil
	}
	there := map[int64]bool{}
	for i := range trees {
		trees[i].Entries = slices.DeleteFunc(trees[i].Entries, func(e manifest.Entry) bool { return !s.hasContent(e.Content, there) })
	}
	return trees
}

// hasContent reports whether contents are still kept. The checkpoints that had them may have been
// removed.
func (s Shelf) hasContent(c manifest.Content, there map[int64]bool) bool {
	if len(c.Pieces) == 0 {
		return true
	}
	has, looked := there[c.Pack]
	if !looked {
		_, err := os.Lstat(s.packPath(c.Pack))
		has = err == nil
		there[c.Pack] = has
	}
	return has
}

// Warm keeps the files while the sandbox runs, so that little is left to do while it is paused.
func (m *Making) Warm(sources []Source) error {
	trees, _, err := takeTrees(sources, m.known, m.pack)
	if err != nil {
		return err
	}
	m.known = trees
	return nil
}

// Take keeps the files as they are now, and begins to bring them to the disk; the sandbox need not stay
// paused for that. An automatic checkpoint is dropped if nothing has changed, and no user waits for it,
// so End brings it to the disk instead. Take may be called again if it did not succeed.
func (m *Making) Take(sources []Source) error {
	began := time.Now()
	if err := m.settle(); err != nil {
		return err
	}
	trees, left, err := takeTrees(sources, m.known, m.pack)
	if err != nil {
		return err
	}
	if m.later = m.point.Unasked; m.later {
		m.trees = trees
	} else {
		m.setTrees(trees)
	}
	m.point.CreatedAt, m.point.Left, m.point.LeftShared = began.UTC(), left.all, left.shared
	return nil
}

// setTrees sets the checkpoint's trees, and begins to bring them to the disk.
func (m *Making) setTrees(trees []manifest.Tree) {
	m.trees = trees
	taken := make(chan error, 1)
	m.taken = taken
	go func() { taken <- m.syncTrees() }()
}

// syncTrees brings the list of the taken files and their new contents to the disk.
func (m *Making) syncTrees() error {
	list := manifest.Encode(m.trees)
	steps := []func() error{func() error { return writeFile(m.manifestPath(), list) }}
	if !m.pack.IsEmpty() {
		steps = append(steps, m.pack.Sync, func() error { return store.SyncDir(filepath.Join(m.shelf.Dir, packsName)) })
	}
	return store.AtOnce(steps...)
}

func (m *Making) manifestPath() string { return filepath.Join(m.dir, manifestName) }

// settle waits until the taken trees are on the disk, if there are any.
func (m *Making) settle() error {
	if m.taken == nil {
		return nil
	}
	err := <-m.taken
	m.taken = nil
	return err
}

// Unchanged reports whether the taken trees, or else the warmed ones, equal those of the parent
// checkpoint. It ignores the layer of the root.
func (m *Making) Unchanged() (bool, error) {
	parent, err := m.shelf.readPoint(m.point.Parent)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, manifest.ErrDamaged) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	before, err := m.shelf.Trees(parent)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, manifest.ErrDamaged) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	packs := m.shelf.Packs()
	defer packs.Close()
	now := m.trees
	if now == nil {
		now = m.known
	}
	changes, err := merge.Compare(before, now, packs)
	return len(changes) == 0, err
}

// Layer returns the place of the saved root layer, "" if there is none.
func (m *Making) Layer() string {
	if m.point.Layer == 0 {
		return ""
	}
	return m.LayerPlace()
}

// ParentLayer returns [Shelf.Layer] of the parent checkpoint; "" also if there is none.
func (m *Making) ParentLayer() string {
	parent, err := m.shelf.readPoint(m.point.Parent)
	if err != nil {
		return ""
	}
	return m.shelf.Layer(parent)
}

// Point returns the description of the checkpoint so far.
func (m *Making) Point() *Point { return &m.point }

// Tree returns the tree of a directory.
func (m *Making) Tree(name string) *manifest.Tree {
	t := manifest.Find(m.trees, name)
	return &t
}

// LayerPlace returns where the saved root layer goes, if there is one. The caller makes the
// directory.
func (m *Making) LayerPlace() string { return filepath.Join(m.dir, layerName) }

// MemoryPlace returns where a memory image goes, if there is one. The caller makes the directory.
func (m *Making) MemoryPlace() string { return filepath.Join(m.dir, memoryName) }

// KeptMemory notes that an image of the memory is complete.
func (m *Making) KeptMemory() error {
	size, err := store.TreeSize(m.MemoryPlace())
	if err == nil && size == 0 { // a keeper of an older Bothy does not know the request
		err = spec.Errorf(spec.ErrConflict, "its memory was not written: it was started by another version of bothy").WithHint("stop it and start it again")
	}
	m.point.Memory = size
	m.point.Size += size
	m.point.Bytes += size
	return err
}

// End moves the checkpoint to its final name. If something failed, it leaves nothing.
func (m *Making) End(failed error) (Point, error) {
	err := errors.Join(failed, m.settle())
	if err == nil {
		m.pack.FreeUnused(m.trees)
	}
	if err == nil && m.later {
		err = m.syncTrees()
	}
	var head *store.Draft
	if err == nil {
		head, err = m.writeRest()
	}
	err = errors.Join(err, m.pack.Close())
	if head != nil {
		defer head.Drop()
	}
	if err == nil {
		err = os.Rename(m.dir, m.shelf.Path(m.point.Number))
	}
	if err != nil {
		_ = store.RemoveTree(m.dir)
		_ = os.Remove(m.shelf.packPath(m.point.Number))
		return Point{}, err
	}
	// From here on it is there, whatever else fails.
	if m.aside {
		return m.point, errors.Join(store.SyncDir(m.shelf.Dir), m.setAside())
	}
	return m.point, errors.Join(m.shelf.arrive(head, nil), store.SyncDir(m.shelf.Dir))
}

// writeRest brings the rest of it to the disk. Unless the checkpoint is set aside, it returns a draft
// of the new head.
func (m *Making) writeRest() (head *store.Draft, err error) {
	packs, err := m.sumContents()
	if err != nil {
		return nil, err
	}
	p := &m.point
	about, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, err
	}
	if !packs[p.Number] {
		if err := os.Remove(m.shelf.packPath(p.Number)); err != nil {
			return nil, err
		}
	}
	f, err := createFile(filepath.Join(m.dir, aboutName), append(about, '\n'))
	if err != nil {
		return nil, err
	}
	steps := []func() error{
		func() error { return errors.Join(f.Sync(), f.Close()) },
		func() error { return store.SyncDir(m.dir) },
	}
	if p.Layer > 0 {
		steps = append(steps, func() error { return store.SyncDir(m.LayerPlace()) })
	}
	if p.Memory > 0 {
		steps = append(steps, func() error { _, err := store.SyncFiles(m.MemoryPlace()); return err })
	}
	if !m.aside {
		if head, err = m.shelf.draftHead(p.Number); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		steps = append(steps, head.Sync)
	}
	return head, store.AtOnce(steps...)
}

// sumContents adds up the checkpoint's contents, and returns the packs that have them.
func (m *Making) sumContents() (packs map[int64]bool, err error) {
	p := &m.point
	packs = map[int64]bool{}
	for _, t := range m.trees {
		p.Trees = append(p.Trees, t.Name)
		p.Names += len(t.Entries)
		for i := range t.Entries {
			if e := &t.Entries[i]; e.HasData() && len(e.Content.Pieces) > 0 {
				p.Size += e.Content.Stored()
				packs[e.Content.Pack] = true
			}
		}
	}
	for n := range packs {
		if _, err := os.Lstat(m.shelf.packPath(n)); err != nil {
			return nil, fmt.Errorf("contents that were kept are gone: %w", err)
		}
		p.Packs = append(p.Packs, n)
	}
	slices.Sort(p.Packs)
	info, err := os.Lstat(m.manifestPath())
	if err != nil {
		return nil, err
	}
	p.Bytes += info.Size()
	if packs[p.Number] {
		p.Bytes += m.pack.DiskSize()
	}
	return packs, nil
}

// createFile writes a new file.
func createFile(path string, data []byte) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(data); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// writeFile writes a new file, and brings it to the disk.
func writeFile(path string, data []byte) error {
	f, err := createFile(path, data)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// BeginMerged starts a checkpoint of a merged state of the shelf. Its only new contents are
// merged texts. Its root layer is that of one of the two states. Take is not needed.
func (s Shelf) BeginMerged(p Point, merged merge.Merged, cause string) (*Making, error) {
	m, err := s.beginMaking("", cause)
	if err != nil {
		return nil, err
	}
	m.aside = true
	m.point.Parent, m.point.CreatedAt, m.point.Left = p.Number, time.Now().UTC(), p.Left
	for _, c := range merged.New {
		if c.Entry.Content, err = m.pack.AddText(c.Text); err != nil {
			_, err = m.End(err)
			return nil, err
		}
	}
	m.setTrees(merged.Trees)
	return m, nil
}
