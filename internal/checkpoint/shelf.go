package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
	"github.com/bothy-dev/bothy/internal/checkpoint/packfile"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Shelf is the directory of one sandbox's checkpoints. It need not exist.
type Shelf struct{ Dir string }

// Point is the description of a checkpoint.
type Point struct {
	Version   int           `json:"version"`
	Number    int64         `json:"number"`
	Name      string        `json:"name"`
	Parent    int64         `json:"parent,omitempty"` // number of the checkpoint before; 0: none
	Cause     string        `json:"cause"`
	Unasked   bool          `json:"unasked,omitempty"` // made automatically, and may be removed so
	CreatedAt time.Time     `json:"created_at"`
	Running   bool          `json:"running"`         // the sandbox ran
	Pause     spec.Duration `json:"pause,omitempty"` // how long it was paused
	// Bytes is the disk space that the checkpoint added, Size the size of its files.
	Bytes int64 `json:"bytes"`
	Size  int64 `json:"size"`
	Names int   `json:"names"`
	// Layer is the size of the saved root layer; 0: it has no changes.
	Layer int64 `json:"layer,omitempty"`
	// Memory is the size of a memory image; 0: none.
	Memory int64 `json:"memory,omitempty"`
	// Left is how many names could not be kept, LeftShared how many of those are in directories
	// of the host.
	Left       int      `json:"left,omitempty"`
	LeftShared int      `json:"left_shared,omitempty"`
	Trees      []string `json:"trees"`
	Packs      []int64  `json:"packs,omitempty"`
}

const version = 1

// In a shelf, and in a checkpoint's directory.
const (
	lockName   = ".lock"
	headName   = "head.json"
	knownName  = "known"
	intentName = "restoring.json"
	packsName  = "packs"
	newPrefix  = ".new-"
	endPrefix  = ".gone-"

	aboutName    = "checkpoint.json"
	manifestName = "trees"
	layerName    = "layer"
	memoryName   = "memory"
)

// head is the checkpoint that the sandbox is at: the one made or restored last. Last is the
// greatest number ever used.
type head struct {
	Number int64 `json:"number"`
	Last   int64 `json:"last"`
}

// restoring is a running restore: its checkpoint, and the trees that are put back.
type restoring struct {
	Number int64    `json:"number"`
	Trees  []string `json:"trees"`
	Handed bool     `json:"handed,omitempty"` // it is of another shelf
}

// Path returns the directory of a checkpoint.
func (s Shelf) Path(number int64) string {
	return filepath.Join(s.Dir, strconv.FormatInt(number, 10))
}

func (s Shelf) packPath(number int64) string {
	return filepath.Join(s.Dir, packsName, strconv.FormatInt(number, 10))
}

// Packs returns access to contents. The caller closes it.
func (s Shelf) Packs() *packfile.Packs { return packfile.Open(filepath.Join(s.Dir, packsName)) }

// Lock takes the lock that callers of Begin, Restore, Fill or Remove must hold.
func (s Shelf) Lock() (*store.Lock, error) { return s.lockWith(store.WaitLock) }

// TryLock is Lock that does not wait: it may be store.ErrLocked.
func (s Shelf) TryLock() (*store.Lock, error) { return s.lockWith(store.TryLock) }

func (s Shelf) lockWith(how func(string) (*store.Lock, error)) (*store.Lock, error) {
	for _, dir := range []string{s.Dir, filepath.Join(s.Dir, packsName)} {
		err := os.Mkdir(dir, 0o700)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, spec.Errorf(spec.ErrNotFound, "the sandbox was removed")
		}
		if err == nil {
			err = store.SyncDir(filepath.Dir(dir))
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return how(filepath.Join(s.Dir, lockName))
}

// Damaged is a checkpoint whose description cannot be read. It can only be removed.
type Damaged struct {
	Number int64
	Why    error
}

// List returns all checkpoints that can be read, oldest first.
func (s Shelf) List() ([]Point, error) {
	list, _, err := s.All()
	return list, err
}

// All is List that also returns unreadable checkpoints. A damaged checkpoint does not hide the others. A
// checkpoint that a newer Bothy wrote is an error, because it may have changed more.
func (s Shelf) All() (list []Point, damaged []Damaged, err error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list checkpoints: %w", err)
	}
	for _, e := range entries {
		n, err := strconv.ParseInt(e.Name(), 10, 64)
		if err != nil || n <= 0 || !e.IsDir() {
			continue
		}
		p, err := s.readPoint(n)
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile
		case errors.Is(err, manifest.ErrDamaged):
			damaged = append(damaged, Damaged{n, err})
		case err != nil:
			return nil, nil, err
		default:
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b Point) int { return int(a.Number - b.Number) })
	slices.SortFunc(damaged, func(a, b Damaged) int { return int(a.Number - b.Number) })
	return list, damaged, nil
}

// readPoint reads the description of a checkpoint. A missing checkpoint is fs.ErrNotExist, an
// unreadable description errDamaged.
func (s Shelf) readPoint(number int64) (Point, error) {
	var p Point
	path := filepath.Join(s.Path(number), aboutName)
	if err := store.ReadJSON(path, &p); errors.Is(err, fs.ErrNotExist) {
		if _, gone := os.Lstat(s.Path(number)); gone != nil { // it is created and removed as a whole
			return p, err
		}
		return p, fmt.Errorf("%s is missing: %w", path, manifest.ErrDamaged)
	} else if errors.Is(err, spec.ErrNewer) {
		return p, err
	} else if err != nil {
		return p, fmt.Errorf("%w: %w", manifest.ErrDamaged, err)
	}
	if p.Number != number {
		return p, fmt.Errorf("read %s: %w", path, manifest.ErrDamaged)
	}
	return p, nil
}

// Find returns the checkpoint of a name or number.
func (s Shelf) Find(ref string) (Point, error) {
	list, damaged, err := s.All()
	if err != nil {
		return Point{}, err
	}
	for _, p := range list {
		if p.Name == ref || strconv.FormatInt(p.Number, 10) == ref {
			return p, nil
		}
	}
	for _, d := range damaged {
		if strconv.FormatInt(d.Number, 10) == ref {
			return Point{}, spec.Errorf(spec.ErrNotFound, "checkpoint %s cannot be read: %w", ref, d.Why).WithHint("bothy checkpoint rm removes it, by its number")
		}
	}
	return Point{}, spec.Errorf(spec.ErrNotFound, "no checkpoint %q", ref).WithHint("bothy checkpoint ls shows what there is")
}

// FindAny is Find for a caller that wants to remove the checkpoint. For a damaged one it returns
// only the number.
func (s Shelf) FindAny(ref string) (Point, error) {
	p, err := s.Find(ref)
	if errors.Is(err, manifest.ErrDamaged) {
		if n, bad := strconv.ParseInt(ref, 10, 64); bad == nil {
			return Point{Number: n, Name: ref}, nil
		}
	}
	return p, err
}

// Before returns the checkpoint that another came from: its parent, or, if that is gone, the
// newest older one. Its number is 0 if there is none.
func (s Shelf) Before(p Point) (from Point, err error) {
	list, err := s.List()
	for _, o := range list { // oldest first
		if o.Number <= p.Parent {
			from = o
		}
	}
	return from, err
}

// CheckName refuses names that could be taken for a number, or do not print.
func CheckName(name string) error {
	if strings.Trim(name, "0123456789") == "" || spec.CheckName(name) != nil {
		return spec.Errorf(spec.ErrUsage, "%q cannot name a checkpoint", name).
			WithHint("it is as that of a sandbox, 2 to 63 letters, digits, '-' and '.' that begin and end with a letter or digit, and not digits alone: those are the numbers")
	}
	return nil
}

// Head returns the number of the checkpoint that the sandbox was last at; 0 for none.
func (s Shelf) Head() int64 { return s.readHead().Number }

func (s Shelf) readHead() (h head) {
	_ = store.ReadJSON(filepath.Join(s.Dir, headName), &h) // a missing or damaged one is not an ancestor
	return h
}

// Trees returns the trees of a checkpoint.
func (s Shelf) Trees(p Point) ([]manifest.Tree, error) {
	return manifest.Read(filepath.Join(s.Path(p.Number), manifestName))
}

// Layer returns the saved root layer of a checkpoint, "" if it has no changes.
func (s Shelf) Layer(p Point) string {
	if p.Layer == 0 {
		return ""
	}
	return filepath.Join(s.Path(p.Number), layerName)
}

// Memory returns the memory image of a checkpoint, "" if it has none.
func (s Shelf) Memory(p Point) string {
	if p.Memory == 0 {
		return ""
	}
	return filepath.Join(s.Path(p.Number), memoryName)
}

// Passing makes an empty directory for a memory image that is needed only for a short time. The
// caller holds the lock, and removes the directory. If it cannot, the next lock holder does.
func (s Shelf) Passing() (string, error) { return s.newDir(memoryName) }

// newDir makes a temporary directory with a fresh name: a keeper may still be writing for a
// command that is gone.
func (s Shelf) newDir(name string) (string, error) {
	return os.MkdirTemp(s.Dir, newPrefix+name+"-*")
}

// headAt returns the head once the sandbox is at a checkpoint.
func (s Shelf) headAt(number int64) head { return head{number, max(s.readHead().Last, number)} }

// draftHead writes that head, without moving it into place.
func (s Shelf) draftHead(number int64) (*store.Draft, error) {
	return store.DraftJSON(filepath.Join(s.Dir, headName), s.headAt(number))
}

// arrive moves the new head into place, and the record of seen files, if the checkpoint's own
// list does not have it. Both are on the disk once the shelf is synced. A crash that leaves only
// one of them does no harm: each file's record says whether it still holds.
func (s Shelf) arrive(head, known *store.Draft) error {
	if known != nil {
		return errors.Join(known.Place(), head.Place())
	}
	if err := os.Remove(filepath.Join(s.Dir, knownName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return head.Place()
}

// Remove removes a checkpoint, and contents that no other checkpoint has.
func (s Shelf) Remove(p Point) error {
	if back, err := s.Interrupted(); err != nil || back != nil && !back.Handed && back.Point.Number == p.Number {
		return errors.Join(err, errInterrupted())
	}
	if h := s.readHead(); h.Last < p.Number { // the head never lowers Last, unless the head was lost
		if err := store.WriteJSON(filepath.Join(s.Dir, headName), head{h.Number, p.Number}); err != nil {
			return err
		}
	}
	gone := filepath.Join(s.Dir, endPrefix+strconv.FormatInt(p.Number, 10))
	if err := os.Rename(s.Path(p.Number), gone); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return spec.Errorf(spec.ErrNotFound, "no checkpoint %q", p.Name)
		}
		return err
	}
	if err := store.SyncDir(s.Dir); err != nil {
		return err
	}
	return s.Sweep()
}

// Tidy removes leftovers of crashed commands, unless another command holds the lock. A leftover
// may be a memory image, with all data of the programs.
func (s Shelf) Tidy() error {
	left, err := filepath.Glob(filepath.Join(s.Dir, newPrefix+"*"))
	if err != nil || len(left) == 0 {
		return err
	}
	lock, err := s.TryLock()
	if errors.Is(err, store.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return s.Sweep()
}

// Sweep removes leftovers of crashed commands, and contents that no checkpoint needs. The caller
// holds the lock.
func (s Shelf) Sweep() error {
	_, err := s.sweepStock()
	return err
}

// stock lists what a shelf contains.
type stock struct {
	list    []Point
	damaged []Damaged
	packs   []string // by their names
}

// sweepStock is Sweep that returns the remaining stock.
func (s Shelf) sweepStock() (there stock, err error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return there, err
	}
	var errs []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), newPrefix) || strings.HasPrefix(e.Name(), endPrefix) {
			errs = append(errs, store.RemoveTree(filepath.Join(s.Dir, e.Name())))
		}
	}
	store.SweepTemp(s.Dir, 0)
	if there.list, there.damaged, err = s.All(); err != nil {
		return there, errors.Join(append(errs, err)...)
	}
	packs, err := os.ReadDir(filepath.Join(s.Dir, packsName))
	if err != nil {
		return there, err
	}
	needed := neededBy(there.list)
	for _, e := range packs {
		if needed[e.Name()] || len(there.damaged) > 0 { // which checkpoint has which contents is then unknown
			there.packs = append(there.packs, e.Name())
			continue
		}
		errs = append(errs, os.Remove(filepath.Join(s.Dir, packsName, e.Name())))
	}
	return there, errors.Join(errs...)
}

// neededBy returns the names of the packs with the contents of checkpoints.
func neededBy(list []Point) map[string]bool {
	needed := map[string]bool{}
	for _, p := range list {
		for _, n := range p.Packs {
			needed[strconv.FormatInt(n, 10)] = true
		}
	}
	return needed
}
