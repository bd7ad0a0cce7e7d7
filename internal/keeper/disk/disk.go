// Package disk stops a sandbox that uses more of the disk than it may.
package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/clone"
	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/keeper/status"
	"github.com/bothy-dev/bothy/internal/layer"
	"github.com/bothy-dev/bothy/internal/quota"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Time limits of counts that a caller waits for.
const (
	surveyTime = 250 * time.Millisecond // at a start
	auditTime  = 30 * time.Second       // at the end of a sandbox that is over its limit
)

// maxBlind is how many incomplete counts in a row it takes before the keeper treats a sandbox
// as one that hides files.
const maxBlind = 5

// Watch watches over the disk limit of a sandbox.
type Watch struct {
	Options
	allowed quota.Use  // set by Survey
	first   quota.Look // the count of Survey; zero if it made none
}

// Options describe the sandbox.
type Options struct {
	Spec   *spec.Sandbox
	Dir    store.Sandbox
	Layers layer.Store
	Limit  int64         // that the user asked for, in bytes; 0: none
	Before *spec.DiskUse // the use after the last run; nil: unknown
	Doubt  bool          // the last keeper died, so Before may be wrong
	Status *status.File
	// Event writes an event of the sandbox. Stop stops the sandbox for its own misbehaviour.
	Event func(kind string, fields map[string]any)
	Stop  func(why string)
}

// New makes a Watch that knows nothing yet; see [Watch.Survey].
func New(o Options) *Watch { return &Watch{Options: o} }

// worker is a wall whose programs may change files. It may be a [driver.Local], whose processes may have
// deleted files open.
type worker interface{ CPU() time.Duration }

// hasLimit reports whether there is a limit to watch. A build step writes to its root layer, which the
// wall bounds.
func (w *Watch) hasLimit() bool { return w.Limit > 0 && w.Spec.Build == nil }

// ownTree is a part of the sandbox's files outside of the host's own directories.
type ownTree struct{ what, path string }

// ownTrees returns all of them. Checkpoints are not included: they belong to the user.
func (w *Watch) ownTrees() []ownTree {
	var list []ownTree
	if current, err := w.Layers.Current(); err == nil && current != "" {
		what := "the root layer"
		if w.Spec.Docker {
			what += ", and Docker's images and volumes"
		}
		list = append(list, ownTree{what, current})
	}
	list = append(list, ownTree{"the home directory", w.Dir.Home()})
	for i, target := range w.Spec.Private {
		list = append(list, ownTree{fmt.Sprintf("the private directory %q", target), w.Dir.Private(i)})
	}
	for i, m := range w.Spec.Workspaces {
		switch {
		case w.Spec.Reviews(m):
			list = append(list, ownTree{fmt.Sprintf("the changes of %q", m.Target), w.Dir.Review(i)})
		case w.Spec.Clones(m):
			list = append(list, ownTree{fmt.Sprintf("the clone of %q", m.Target), clone.Tree(w.Dir.Clone(i))})
		}
	}
	return list
}

// countUse counts the sandbox's disk use. The count is whole if it read everything; files beyond
// the allowed number may be left out.
func (w *Watch) countUse(ctx context.Context, m *quota.Meter, wall worker) (use spec.DiskUse, whole bool) {
	use = spec.DiskUse{Limit: w.allowed.Bytes, FilesLimit: w.allowed.Files}
	var err error
	for _, t := range w.ownTrees() {
		var u quota.Use
		u, err = m.Count(ctx, t.path)
		use.Bytes, use.Files = use.Bytes+u.Bytes, use.Files+u.Files
		use.Parts = append(use.Parts, spec.DiskPart{What: t.what, Bytes: u.Bytes, Files: u.Files})
		if err != nil {
			break
		}
	}
	if local, ok := wall.(driver.Local); ok && err == nil {
		var u quota.Use
		if u, err = m.CountDeleted(ctx, local.Pids(), w.Dir.Layers()); u.Files > 0 {
			use.Bytes, use.Files = use.Bytes+u.Bytes, use.Files+u.Files
			use.Parts = append(use.Parts, spec.DiskPart{What: "files that are deleted, and still open", Bytes: u.Bytes, Files: u.Files})
		}
	}
	slices.SortStableFunc(use.Parts, func(a, b spec.DiskPart) int { return cmp.Compare(b.Bytes, a.Bytes) })
	use.CountedAt, use.Uncounted = time.Now().UTC(), m.Unread
	return use, m.Unread == 0 && (err == nil || errors.Is(err, quota.ErrMany))
}

// Survey finds the sandbox's disk use before anything runs in it: a sandbox over its limit
// gets a little more, to clean up. Usually the use is known from the last run; otherwise
// Survey counts it, for at most surveyTime. If a longer count would find too much, the
// sandbox is soon stopped, and the use is known the next time.
func (w *Watch) Survey() {
	if !w.hasLimit() {
		return
	}
	limit := allowedUse(w.Limit, quota.Use{})
	known := w.Before
	if known == nil || w.Doubt || !(quota.Use{Bytes: known.Bytes, Files: known.Files}).Within(limit) {
		ctx, cancel := context.WithTimeout(context.Background(), surveyTime)
		defer cancel()
		began := time.Now()
		if use, whole := w.countUse(ctx, &quota.Meter{}, nil); whole {
			known = &use
			w.first = quota.Look{Use: quota.Use{Bytes: use.Bytes, Files: use.Files}, Whole: true, Ended: time.Now(), Took: time.Since(began)}
		}
	}
	w.allowed = limit
	if known != nil {
		w.allowed = allowedUse(w.Limit, quota.Use{Bytes: known.Bytes, Files: known.Files})
		now := *known
		now.Limit, now.FilesLimit = w.allowed.Bytes, w.allowed.Files
		w.Status.Note(func(st *spec.Status) { st.Disk = &now })
	}
}

// Follow stops the sandbox once its disk use exceeds the limit.
func (w *Watch) Follow(ctx context.Context, wall worker) {
	if !w.hasLimit() {
		return
	}
	var use spec.DiskUse // of the last count, which has ended before the result is read
	worked := time.Duration(0)
	watch := quota.Watch{
		Allowed: w.allowed,
		Free:    func() (quota.Use, error) { return quota.Free(w.Dir.Dir) },
		Count: func(ctx context.Context) (quota.Use, bool) {
			// One more than allowed is enough to know.
			m := &quota.Meter{Most: w.allowed.Files, Pace: quota.Gently()}
			var whole bool
			use, whole = w.countUse(ctx, m, wall)
			return quota.Use{Bytes: use.Bytes, Files: use.Files}, whole
		},
		Worked: func() bool {
			now := wall.CPU()
			did := now-worked >= driver.IdleCPU
			if did {
				worked = now
			}
			return did
		},
		Told: func(look quota.Look) bool {
			if ctx.Err() != nil {
				return false
			}
			return w.judgeUse(use, look)
		},
	}
	watch.Run(ctx, w.first)
}

// judgeUse notes the disk use, and reports whether the sandbox may go on.
func (w *Watch) judgeUse(use spec.DiskUse, look quota.Look) bool {
	w.Status.Note(func(st *spec.Status) { // if the keeper dies, the next one counts anew
		st.Disk = &use
		st.Limits = enforcement(st.Limits, use.Uncounted)
	})
	why := whyOver(w.Limit, use)
	if why == "" && look.Blind >= maxBlind {
		why = fmt.Sprintf("disk limit of %s: its files cannot be counted, because %s cannot be looked into, or are moved about", sizeText(w.Limit), spec.FormatCount(use.Uncounted, "directory"))
	}
	if why == "" {
		return true
	}
	w.Event("disk.over", map[string]any{
		"used": use.Bytes, "limit": use.Limit, "files": use.Files, "files_limit": use.FilesLimit, "most": use.Parts[0].What, "uncounted": use.Uncounted,
	})
	w.Stop(why)
	return false
}

// Audit counts once more after all writes have ended. The sandbox has that use at its next
// start.
func (w *Watch) Audit(wall worker) {
	ctx, cancel := context.WithTimeout(context.Background(), auditTime)
	defer cancel()
	if use, whole := w.countUse(ctx, &quota.Meter{}, wall); whole {
		w.Status.Note(func(st *spec.Status) { st.Disk = &use })
	}
}
