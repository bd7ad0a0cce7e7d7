package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
	"github.com/bothy-dev/bothy/internal/checkpoint/packfile"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/sums"
	"github.com/bothy-dev/bothy/spec"
)

// Restore puts directories back to a checkpoint. It restores only trees with the names of the
// sources. Nothing may run in the directories, except host programs in those that are shared with
// the host. Restore returns the paths that it could not put back there.
//
// Restore calls between once the directories are restored, before the head moves; between brings
// its own writes to the disk. If the process ends earlier, [Shelf.Interrupted] reports it, and
// the caller must run Restore again.
func (s Shelf) Restore(p Point, sources []Source, between func() error) (skipped []string, err error) {
	trees, packs, err := s.openReady(p, sources)
	if err != nil {
		return nil, err
	}
	defer packs.Close()
	if err := s.checkLayer(p); err != nil {
		return nil, damagedPoint(p, err)
	}
	if err := s.depart(restoring{Number: p.Number}, sources); err != nil {
		return nil, err
	}
	var now placed
	if skipped, err = now.putTrees(trees, sources, packs); err != nil {
		return skipped, err
	}
	var at arrival
	defer at.dropDrafts()
	err = store.AtOnce(between, func() error { return syncAll(sources) }, func() (err error) {
		if err = now.awaitClock(); err == nil {
			at, err = s.arriving(p.Number, trees)
		}
		return err
	})
	if err != nil {
		return skipped, err
	}
	return skipped, s.settle(at)
}

// depart records that directories are about to be half restored.
func (s Shelf) depart(r restoring, sources []Source) error {
	for _, src := range sources {
		r.Trees = append(r.Trees, src.Name)
	}
	return store.WriteJSON(filepath.Join(s.Dir, intentName), r)
}

// Back is an interrupted restore.
type Back struct {
	Point Point    // number 0 if the checkpoint is gone or cannot be read
	Trees []string // that are to be put back
	// Handed says that it is a checkpoint of another shelf; only the shelf that handed it out can
	// repeat it ([Shelf.Hand]).
	Handed bool
}

// Interrupted returns the interrupted restore, or nil.
func (s Shelf) Interrupted() (*Back, error) {
	var r restoring
	err := store.ReadJSON(filepath.Join(s.Dir, intentName), &r)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if r.Handed {
		return &Back{Trees: r.Trees, Handed: true}, nil
	}
	p, err := s.readPoint(r.Number)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, manifest.ErrDamaged) { // the user can restore another one
		return &Back{Trees: r.Trees}, nil
	}
	return &Back{Point: p, Trees: r.Trees}, err
}

// Whole returns an error if directories may be half restored: their contents cannot be trusted
// then.
func (s Shelf) Whole() error {
	back, err := s.Interrupted()
	switch {
	case err == nil && back == nil:
		return nil
	case err == nil && back.Handed:
		return spec.Errorf(spec.ErrConflict, "files were being handed to it, which was cut short").
			WithHint("go on with the loop or flow that it works for, which does it again; or restore one of its own checkpoints")
	}
	if errno := unix.Errno(0); errors.As(err, &errno) { // it is unknown, which is another matter
		return &spec.Error{Op: "see whether going back to a checkpoint was interrupted", Err: err, Hint: "try again when the cause is gone: " + errno.Error()}
	}
	return errInterrupted()
}

// CheckWhole refuses the files of a sandbox, by its name, if they are half of a checkpoint: a restore
// is at work, or was interrupted. None of the files can be trusted, and a missing file least of all.
func (s Shelf) CheckWhole(sandbox string) error {
	half := s.Whole()
	if half == nil {
		return nil
	}
	lock, err := s.TryLock()
	if errors.Is(err, store.ErrLocked) {
		return spec.Errorf(spec.ErrConflict, "a checkpoint of sandbox %s is being restored", sandbox).WithHint("try again in a moment")
	}
	if err == nil {
		half = s.Whole() // no process restores it any more
		lock.Unlock()
	}
	if half == nil {
		return nil
	}
	return &spec.Error{Op: "use the files of " + sandbox, Err: half}
}

// openReady checks that all needed contents exist, before anything is touched.
func (s Shelf) openReady(p Point, sources []Source) ([]manifest.Tree, *packfile.Packs, error) {
	trees, packs, err := s.readyFor(p, func(tree string) func(*manifest.Entry) bool {
		i := slices.IndexFunc(sources, func(src Source) bool { return src.Name == tree })
		if i < 0 {
			return nil
		}
		return sources[i].differs()
	})
	for i := 0; err == nil && i < len(sources); i++ {
		if at := manifest.Find(trees, sources[i].Name); at.Entries == nil { // nothing is put there
			continue
		}
		if err = sources[i].Reach(); err != nil {
			packs.Close()
		}
	}
	return trees, packs, err
}

// differs returns a function that reports whether a file of a checkpoint must be put back. It
// need not be if the directory has it already.
func (s *Source) differs() func(*manifest.Entry) bool {
	if s.Before == nil {
		return everything
	}
	before := s.Before.ByPath()
	return func(e *manifest.Entry) bool {
		b := before[e.Path]
		return b == nil || b.Seen.Fresh || e.Seen != b.Seen || e.Size != b.Size || e.Mode != b.Mode
	}
}

func everything(*manifest.Entry) bool { return true }

// everyTree is for readyFor: all files of all trees are needed.
func everyTree(string) func(*manifest.Entry) bool { return everything }

// readyFor is openReady for other trees: wanted returns a function that selects the needed files of a
// tree; nil means none. readyFor compares their contents with their sums. The caller closes the
// packs.
func (s Shelf) readyFor(p Point, wanted func(tree string) func(*manifest.Entry) bool) (_ []manifest.Tree, _ *packfile.Packs, err error) {
	trees, err := s.Trees(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, spec.Errorf(spec.ErrNotFound, "no checkpoint %q", p.Name).WithHint("bothy checkpoint ls shows what there is")
	}
	if err != nil {
		return nil, nil, err
	}
	if size, err := store.TreeSize(filepath.Join(s.Path(p.Number), layerName)); p.Layer > 0 && (err != nil || size != p.Layer) {
		return nil, nil, fmt.Errorf("the root layer of checkpoint %s: %w", p.Name, errors.Join(err, manifest.ErrDamaged))
	}
	packs := s.Packs()
	defer func() {
		if err != nil {
			packs.Close()
		}
	}()
	for _, t := range trees {
		needed := wanted(t.Name)
		if needed == nil {
			continue
		}
		if err := t.Check(); err != nil {
			return nil, nil, fmt.Errorf("checkpoint %s: %w", p.Name, err)
		}
		for i := range t.Entries {
			err := packs.CheckSize(&t.Entries[i])
			if err == nil && needed(&t.Entries[i]) {
				err = packs.Verify(&t.Entries[i])
			}
			if err != nil {
				return nil, nil, damagedPoint(p, err)
			}
		}
	}
	return trees, packs, nil
}

// damagedPoint adds a hint to an error about a damaged checkpoint.
func damagedPoint(p Point, err error) error {
	e := &spec.Error{Op: "use checkpoint " + p.Name, Err: err}
	if !errors.Is(err, manifest.ErrDamaged) && !errors.Is(err, sums.ErrDamaged) {
		return e
	}
	return e.WithHint("nothing was changed; go back to another checkpoint (bothy checkpoint ls), or remove this one: bothy checkpoint rm; bothy system verify finds all that is damaged")
}

// syncAll brings the restored files to the disk, once for each file system.
func syncAll(sources []Source) error {
	synced := map[uint64]bool{}
	for _, src := range sources {
		if err := src.syncFileSystem(synced); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("bring %s to the disk: %w", src.Dir, err)
		}
	}
	return nil
}

// syncFileSystem brings the file system of a directory to the disk, unless that was done. A program in the
// sandbox may have removed its owner's permission to open it.
func (s *Source) syncFileSystem(done map[uint64]bool) error {
	f, err := s.openDir()
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || done[manifest.IDOf(&st).Device] {
		return err
	}
	done[manifest.IDOf(&st).Device] = true
	return unix.Syncfs(int(f.Fd()))
}

// arrival is the new head and the new record of seen files, as drafts that are not in place yet.
type arrival struct{ head, known *store.Draft }

// arriving writes the drafts, and brings them to the disk. The caller drops them.
func (s Shelf) arriving(number int64, trees []manifest.Tree) (at arrival, err error) {
	if at.known, err = store.NewDraft(filepath.Join(s.Dir, knownName), manifest.Encode(trees)); err != nil {
		return at, err
	}
	if at.head, err = s.draftHead(number); err != nil {
		return at, err
	}
	return at, store.AtOnce(at.known.Sync, at.head.Sync)
}

func (at *arrival) dropDrafts() {
	for _, d := range []*store.Draft{at.head, at.known} {
		if d != nil {
			d.Drop()
		}
	}
}

// settle moves the head, and then removes the mark of a running restore. A directory keeps the
// order of these steps. On a file system that does not, a crash may leave the sandbox restored,
// but with its old head.
func (s Shelf) settle(at arrival) error {
	if err := s.arrive(at.head, at.known); err != nil {
		return err
	}
	return s.endRestore()
}

// endRestore records that the directories are not half restored any more.
func (s Shelf) endRestore() error {
	if err := os.Remove(filepath.Join(s.Dir, intentName)); err != nil {
		return err
	}
	return store.SyncDir(s.Dir)
}

// Fill fills the directories of a new sandbox from a checkpoint.
func (s Shelf) Fill(p Point, sources []Source) error {
	trees, packs, err := s.openReady(p, sources)
	if err != nil {
		return err
	}
	defer packs.Close()
	var unasked placed // the seen state of files is not recorded
	_, err = unasked.putTrees(trees, sources, packs)
	return err
}

func (now *placed) putTrees(trees []manifest.Tree, sources []Source, packs *packfile.Packs) (skipped []string, err error) {
	for _, src := range sources {
		i := slices.IndexFunc(trees, func(t manifest.Tree) bool { return t.Name == src.Name })
		if i < 0 {
			continue
		}
		some, err := now.putTree(&trees[i], src, packs)
		skipped = append(skipped, some...)
		if err != nil {
			return skipped, fmt.Errorf("%s: %w", src.Dir, err)
		}
	}
	return skipped, nil
}

// checkLayer compares the saved root layer of a checkpoint with its sums, if it has any.
func (s Shelf) checkLayer(p Point) error {
	if p.Layer == 0 {
		return nil
	}
	files, err := sums.Open(s.Layer(p))
	if errors.Is(err, sums.ErrNone) {
		return nil
	}
	if err == nil {
		err = files.Check(nil)
		files.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the root layer of checkpoint %s: %w", p.Name, err)
	}
	return err
}

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
