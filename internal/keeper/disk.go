package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/clone"
	"github.com/bothy-dev/bothy/internal/quota"
	"github.com/bothy-dev/bothy/spec"
)

// Times of counts that somebody waits for.
const (
	surveyTime = 250 * time.Millisecond // of a start
	auditTime  = 30 * time.Second       // of the end of one that is over its limit
)

// maxBlind is after how many counts in a row that could not see everything a sandbox is
// taken for one that hides what it has.
const maxBlind = 5

// diskWatch is what the keeper knows of what the sandbox keeps.
type diskWatch struct {
	before  *spec.DiskUse // what was known when it started
	doubt   bool          // its keeper died since
	allowed quota.Use
	first   quota.Look
}

// watchesDisk tells whether there is a limit to watch over. What a step of a build writes
// lies in its root layer, which the wall bounds.
func (k *Keeper) watchesDisk() bool { return k.launch.Disk > 0 && k.spec.Build == nil }

// diskTree is a part of what the sandbox keeps outside of the host's own directories.
type diskTree struct{ what, path string }

// diskTrees are all of them: what checkpoints hold belongs to the user.
func (k *Keeper) diskTrees() []diskTree {
	var list []diskTree
	if current, err := k.layers.Current(); err == nil && current != "" {
		what := "the root layer"
		if k.spec.Docker {
			what += ", and Docker's images and volumes"
		}
		list = append(list, diskTree{what, current})
	}
	list = append(list, diskTree{"the home directory", k.dir.Home()})
	for i, target := range k.spec.Private {
		list = append(list, diskTree{fmt.Sprintf("the private directory %q", target), k.dir.Private(i)})
	}
	for i, m := range k.spec.Workspaces {
		switch {
		case k.spec.Reviews(m):
			list = append(list, diskTree{fmt.Sprintf("the changes of %q", m.Target), k.dir.Review(i)})
		case k.spec.Clones(m):
			list = append(list, diskTree{fmt.Sprintf("the clone of %q", m.Target), clone.Tree(k.dir.Clone(i))})
		}
	}
	return list
}

// countDisk counts what the sandbox keeps. It is whole if there was nothing that could
// not be counted, but for what is beyond the number of files that it may have.
func (k *Keeper) countDisk(ctx context.Context, m *quota.Meter) (use spec.DiskUse, whole bool) {
	use = spec.DiskUse{Limit: k.disk.allowed.Bytes, FilesLimit: k.disk.allowed.Files}
	var err error
	for _, t := range k.diskTrees() {
		var u quota.Use
		u, err = m.Count(ctx, t.path)
		use.Bytes, use.Files = use.Bytes+u.Bytes, use.Files+u.Files
		use.Parts = append(use.Parts, spec.DiskPart{What: t.what, Bytes: u.Bytes, Files: u.Files})
		if err != nil {
			break
		}
	}
	if k.wall != nil && err == nil {
		var u quota.Use
		if u, err = m.CountDeleted(ctx, k.wall.Pids(), k.dir.Layers()); u.Files > 0 {
			use.Bytes, use.Files = use.Bytes+u.Bytes, use.Files+u.Files
			use.Parts = append(use.Parts, spec.DiskPart{What: "files that are deleted, and still open", Bytes: u.Bytes, Files: u.Files})
		}
	}
	slices.SortStableFunc(use.Parts, func(a, b spec.DiskPart) int { return cmp.Compare(b.Bytes, a.Bytes) })
	use.CountedAt, use.Uncounted = time.Now().UTC(), m.Unread
	return use, m.Unread == 0 && (err == nil || errors.Is(err, quota.ErrMany))
}

// surveyDisk finds out what the sandbox has before anything runs in it: one that is over
// its limit may have a little more, to clean up. That is known as a rule; else it is
// counted, if that takes no time. If it does take its time, and is too much, the
// sandbox is stopped soon, and is known the next time.
func (k *Keeper) surveyDisk() {
	if !k.watchesDisk() {
		return
	}
	limit := diskLimit(k.launch.Disk, quota.Use{})
	known := k.disk.before
	if known == nil || k.disk.doubt || !(quota.Use{Bytes: known.Bytes, Files: known.Files}).Within(limit) {
		ctx, cancel := context.WithTimeout(context.Background(), surveyTime)
		defer cancel()
		began := time.Now()
		if use, whole := k.countDisk(ctx, &quota.Meter{}); whole {
			known = &use
			k.disk.first = quota.Look{Use: quota.Use{Bytes: use.Bytes, Files: use.Files}, Whole: true, Ended: time.Now(), Took: time.Since(began)}
		}
	}
	k.disk.allowed = limit
	if known != nil {
		k.disk.allowed = diskLimit(k.launch.Disk, quota.Use{Bytes: known.Bytes, Files: known.Files})
		now := *known
		now.Limit, now.FilesLimit = k.disk.allowed.Bytes, k.disk.allowed.Files
		k.status.note(func(st *spec.Status) { st.Disk = &now })
	}
}

// watchDisk stops the sandbox once it keeps more than it may.
func (k *Keeper) watchDisk(ctx context.Context) {
	if !k.watchesDisk() {
		return
	}
	var use spec.DiskUse // of the last count, which is over before it is looked at
	worked := time.Duration(0)
	w := quota.Watch{
		Allowed: k.disk.allowed,
		Free:    k.diskFree,
		Count: func(ctx context.Context) (quota.Use, bool) {
			// One more than it may have is enough to know.
			m := &quota.Meter{Most: k.disk.allowed.Files, Pace: quota.Gently()}
			var whole bool
			use, whole = k.countDisk(ctx, m)
			return quota.Use{Bytes: use.Bytes, Files: use.Files}, whole
		},
		Worked: func() bool {
			now := cpuTime(k.wall.Pids())
			did := now-worked >= idleCPU
			if did {
				worked = now
			}
			return did
		},
		Told: func(look quota.Look) bool {
			if ctx.Err() != nil {
				return false
			}
			return k.counted(use, look)
		},
	}
	w.Run(ctx, k.disk.first)
}

// counted notes what the sandbox keeps, and tells whether it may go on.
func (k *Keeper) counted(use spec.DiskUse, look quota.Look) bool {
	k.status.note(func(st *spec.Status) { // should the keeper die, it is counted anew
		st.Disk = &use
		st.Limits = heldDisk(st.Limits, use.Uncounted)
	})
	why := overDisk(k.launch.Disk, use)
	if why == "" && look.Blind >= maxBlind {
		why = fmt.Sprintf("disk limit of %s: what it keeps cannot be counted, because %d directories cannot be looked into, or are moved about", sizeText(k.launch.Disk), use.Uncounted)
	}
	if why == "" {
		return true
	}
	k.event("disk.over", map[string]any{
		"used": use.Bytes, "limit": use.Limit, "files": use.Files, "files_limit": use.FilesLimit, "most": use.Parts[0].What, "uncounted": use.Uncounted,
	})
	k.stopFor(why)
	return false
}

// auditDisk counts once more, when nothing is written any more: so much the sandbox has
// when it starts again.
func (k *Keeper) auditDisk() {
	ctx, cancel := context.WithTimeout(context.Background(), auditTime)
	defer cancel()
	if use, whole := k.countDisk(ctx, &quota.Meter{}); whole {
		k.status.note(func(st *spec.Status) { st.Disk = &use })
	}
}

// diskFree is what is free where the sandbox's files are.
func (k *Keeper) diskFree() (quota.Use, error) { return quota.Free(k.dir.Dir) }

// halt ends what is being written, for good: the caller takes the wall down.
func (k *Keeper) halt(ctx context.Context) {
	err := k.wall.Settle(ctx)
	if err == nil {
		_, err = k.wall.Pause(ctx)
	}
	if err != nil {
		k.log.Warn("have the sandbox stand still", "err", err)
	}
}
