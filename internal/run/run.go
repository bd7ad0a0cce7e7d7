// Package run keeps unattended work on disk: its plan, the result of every step, and the messages
// of people.
//
// A run is a directory of the state directory, where no sandbox can write. Its events are appended to
// one file, each durable before the next step begins, and never changed. The state of a run is a fold
// over them, so a process that finds a run after a crash knows as much as the one that died. One process
// at a time is its host; others leave messages.
package run

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Version is the version of a run's files.
const Version = 1

// Kinds of runs, by the command that carries them on.
const (
	Loops = "loop"
	Flows = "flow"
)

// Run is one run.
type Run struct {
	ID    string
	Kind  string
	dir   string // Bothy's own files of the run
	files string // the other files: the same directory, or elsewhere
}

// Dir returns the directory with the files of the run: its inputs, its outputs and its logs.
// Removing it ends the run, see [Run.Gone].
func (r *Run) Dir() string { return r.files }

// Names in a run's directory.
const (
	planName   = "run.json"
	eventsName = "events.jsonl"
	lockName   = "lock"
	makingName = "making.lock"
	mailName   = "mail"

	originalsName = "protected"
)

// newPrefix marks a run that is being made. While its makingName is locked, a process still works
// on it, however long that takes.
const newPrefix = ".new-"

// gonePrefix marks a run that is being deleted.
const gonePrefix = ".gone-"

// plan is run.json.
type plan struct {
	Version   int       `json:"version"`
	ID        string    `json:"id"`
	Kind      string    `json:"kind,omitempty"` // empty: a loop
	CreatedAt time.Time `json:"created_at"`
	Place     *place    `json:"place,omitempty"` // the directory of its files, if that is not the state directory
	Plan      any       `json:"plan"`
}

// NewID makes a readable ID for a run: its topic, the day, and four random hex digits.
func NewID(about string, now time.Time) string {
	var b [2]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("%s-%s-%s", cmp.Or(Slug(about), "run"), now.Format(time.DateOnly), hex.EncodeToString(b[:]))
}

// maxIDs is how many IDs to try for one run: 65536 exist for a day and a topic.
const maxIDs = 100

// Named calls create with IDs of NewID until one is free. create returns ErrConflict for an ID that is
// taken.
func Named(about string, now time.Time, create func(id string) (*Run, error)) (*Run, error) {
	for try := 1; ; try++ {
		r, err := create(NewID(about, now))
		if try == maxIDs || !errors.Is(err, spec.ErrConflict) {
			return r, err
		}
	}
}

// maxSlug bounds a slug, in bytes.
const maxSlug = 29

// Slug makes a short plain word from a text; empty if none of it is plain.
func Slug(text string) string {
	var words []string
	n := 0
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
		w = w[:min(len(w), maxSlug)]
		if n += len(w) + 1; n > maxSlug+1 {
			break
		}
		words = append(words, w)
	}
	return strings.Join(words, "-")
}

// Create writes a loop's plan into a new run below root. The run appears complete or not at all. The
// error is ErrConflict if a run of that ID exists, or is being made.
func Create(root, id string, what any) (*Run, error) {
	return create(root, "", &plan{Version: Version, ID: id, Plan: what}, nil)
}

func create(root, into string, p *plan, fill func(dir string) error) (*Run, error) {
	fail := func(err error) (*Run, error) { return nil, &spec.Error{Op: "write down the run " + p.ID, Err: err} }
	if err := os.MkdirAll(root, 0o700); err != nil {
		return fail(err)
	}
	removeRemains(root)
	if err := claimID(root, p.ID); err != nil {
		return fail(err)
	}
	err := writeRun(root, into, p, fill)
	if err == nil {
		err = appear(root, p.ID)
	}
	if err != nil {
		_ = discard(root, newPrefix, p.ID)
		return fail(err)
	}
	r := runIn(filepath.Join(root, p.ID))
	r.Kind = cmp.Or(p.Kind, Loops)
	return r, store.SyncDir(filepath.Dir(root))
}

// claimID reserves an unused ID: no other run gets it while the directory with the prefix exists.
func claimID(root, id string) error {
	tmp := filepath.Join(root, newPrefix+id)
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return conflictIfTaken(id, err)
	}
	for _, path := range []string{filepath.Join(root, id), linkOf(root, id)} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(conflictIfTaken(id, cmp.Or(err, fs.ErrExist)), os.Remove(tmp))
		}
	}
	return nil
}

// writeRun writes the plan and the files of a run. It holds the lock meanwhile. Removing the lock
// file renews the directory's time, so the directory counts as new until its rename.
func writeRun(root, into string, p *plan, fill func(dir string) error) error {
	held := filepath.Join(root, newPrefix+p.ID, makingName)
	making, err := store.WaitLock(held) // for processes that check the lock
	if err != nil {
		return err
	}
	defer making.Unlock()
	if err := putFiles(root, into, p, fill); err != nil {
		return err
	}
	return os.Remove(held)
}

func putFiles(root, into string, p *plan, fill func(dir string) error) (err error) {
	dir := filepath.Join(root, newPrefix+p.ID)
	files := dir
	if into != "" {
		if p.Place, err = placeOf(into); err != nil {
			return err
		}
		if files, err = reserve(root, into, p.ID); err != nil {
			return err
		}
	}
	p.CreatedAt = time.Now().UTC()
	err = os.Mkdir(filepath.Join(dir, mailName), 0o700)
	if err == nil {
		err = store.WriteJSON(filepath.Join(dir, planName), p)
	}
	if err == nil && fill != nil {
		err = fill(files)
	}
	return err
}

// appear renames a complete run to its final name, and then its files.
func appear(root, id string) error {
	dir := filepath.Join(root, id)
	if err := os.Rename(filepath.Join(root, newPrefix+id), dir); err != nil {
		return conflictIfTaken(id, err)
	}
	if err := store.SyncDir(root); err != nil {
		return errors.Join(err, discard(root, "", id))
	}
	files, err := os.Readlink(linkOf(root, id))
	if err != nil { // its files are in the run's directory
		return nil
	}
	if err := settle(files); err != nil {
		return errors.Join(err, discard(root, "", id))
	}
	return nil
}

// conflictIfTaken converts an error into a conflict if it means that another run has this ID.
func conflictIfTaken(id string, err error) error {
	if errors.Is(err, fs.ErrExist) { // also for a directory that is not empty
		return spec.Errorf(spec.ErrConflict, "there is a run %s already", id)
	}
	return err
}

// abandonedAfter is the age from which an unlocked half-made run is abandoned.
const abandonedAfter = time.Minute

// removeRemains removes the remains of crashes.
func removeRemains(root string) {
	begun, _ := idsWithPrefix(root, newPrefix)
	for _, id := range begun {
		if isAbandoned(filepath.Join(root, newPrefix+id)) {
			_ = discard(root, newPrefix, id)
		}
	}
	gone, _ := idsWithPrefix(root, gonePrefix)
	for _, id := range gone {
		_ = discard(root, gonePrefix, id)
	}
}

func isAbandoned(dir string) bool {
	if store.IsLocked(filepath.Join(dir, makingName)) { // first, because unlocking renews its time
		return false
	}
	info, err := os.Lstat(dir)
	return err == nil && time.Since(info.ModTime()) > abandonedAfter
}

// ListOf returns the runs of a kind, the newest first; all runs if kind is empty. Runs with an
// unreadable plan may be of any kind and age: they come last, and reading their plan returns the error.
func ListOf(root, kind string) ([]*Run, error) {
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the runs: %w", err)
	}
	type dated struct {
		run *Run
		at  time.Time
	}
	var list []dated
	var unread []*Run
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue // it is being made, or deleted
		}
		r := runIn(filepath.Join(root, e.Name()))
		p, err := r.readPlan(nil)
		r.Kind = cmp.Or(p.Kind, Loops)
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile
		case err != nil:
			r.Kind = cmp.Or(kind, Loops)
			unread = append(unread, r)
		case kind == "" || kind == r.Kind:
			list = append(list, dated{r, p.CreatedAt})
		}
	}
	slices.SortFunc(list, func(a, b dated) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.run.ID, b.run.ID)) })
	runs := make([]*Run, len(list))
	for i, d := range list {
		runs[i] = d.run
	}
	return append(runs, unread...), nil
}

// Find returns the loop with an ID, or the only one whose ID begins with ref.
func Find(root, ref string) (*Run, error) { return FindOf(root, Loops, ref) }

// FindOf is Find for the runs of a kind.
func FindOf(root, kind, ref string) (*Run, error) {
	list, err := ListOf(root, kind)
	if err != nil {
		return nil, err
	}
	var found []*Run
	for _, r := range list {
		if r.ID == ref {
			return r, nil
		}
		if ref != "" && strings.HasPrefix(r.ID, ref) {
			found = append(found, r)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, spec.Errorf(spec.ErrNotFound, "no run named %q", ref).WithHint("bothy %s ls shows what there is", kind)
	}
	return nil, spec.Errorf(spec.ErrUsage, "%d runs begin with %q", len(found), ref).WithHint("bothy %s ls shows them in full", kind)
}

// Plan reads the plan into what, and returns its creation time.
func (r *Run) Plan(what any) (time.Time, error) {
	p, err := r.readPlan(what)
	return p.CreatedAt, err
}

func (r *Run) readPlan(what any) (plan, error) {
	p := plan{Plan: what}
	err := store.ReadJSON(filepath.Join(r.dir, planName), &p)
	if err == nil && p.ID != r.ID {
		err = spec.Errorf(nil, "the run %s calls itself %q", r.ID, p.ID)
	}
	return p, err
}

// Remove deletes a run that has no host.
func (r *Run) Remove() error {
	held, err := r.lockRun()
	if err != nil {
		return err
	}
	defer held.Unlock()
	return r.eraseFiles()
}

// eraseFiles makes the run disappear in one step, and then deletes its files.
func (r *Run) eraseFiles() error {
	root := filepath.Dir(r.dir)
	gone := filepath.Join(root, gonePrefix+r.ID)
	if err := store.RemoveTree(gone); err != nil {
		return err
	}
	if err := os.Rename(r.dir, gone); err != nil {
		return fmt.Errorf("remove the run %s: %w", r.ID, err)
	}
	return errors.Join(store.SyncDir(root), discard(root, gonePrefix, r.ID))
}

// probing is how long probes ([Run.Hosted]) may delay a process that takes a run over. probeAgain is how
// often that process retries.
const (
	probing    = 5 * time.Second
	probeAgain = time.Millisecond
)

// lockRun takes the exclusive lock. A holder of the shared lock only checks for a host, and releases
// it at once.
func (r *Run) lockRun() (*store.Lock, error) {
	path := filepath.Join(r.dir, lockName)
	for began := time.Now(); ; time.Sleep(probeAgain) {
		held, err := store.TryLock(path)
		if !errors.Is(err, store.ErrLocked) {
			return held, err
		}
		if r.Hosted() || time.Since(began) > probing {
			return nil, spec.Errorf(spec.ErrConflict, "another process carries the run %s on", r.ID).
				WithHint("bothy %s status %s shows how it stands, bothy %s stop %s ends it", r.Kind, r.ID, r.Kind, r.ID)
		}
	}
}

// Originals returns the directory for copies of protected files. It is made with the first copy.
func (r *Run) Originals() string { return filepath.Join(r.dir, originalsName) }

// Hosted reports whether a process carries the run on. Any number of callers may ask concurrently: no
// caller counts as a host for another, or keeps a host from starting.
func (r *Run) Hosted() bool { return store.IsLocked(filepath.Join(r.dir, lockName)) }
