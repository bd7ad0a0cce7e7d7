package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/clone"
	"github.com/bothy-dev/bothy/internal/keeper/usage"
	"github.com/bothy-dev/bothy/internal/quota"
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

// diskWatch holds the keeper's knowledge of the sandbox's disk use.
type diskWatch struct {
	before  *spec.DiskUse // the use known at the start
	doubt   bool          // its keeper has died since
	allowed quota.Use
	first   quota.Look
}

// watchesDisk tells whether the keeper has a limit to watch over. A build step writes to its root
// layer, which the wall bounds.
func (k *Keeper) watchesDisk() bool { return k.launch.Disk > 0 && k.spec.Build == nil }

// diskTree is a part of the sandbox's files outside of the host's own directories.
type diskTree struct{ what, path string }

// diskTrees returns all of them. Checkpoints are not included: they belong to the user.
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

// countDisk counts the sandbox's disk use. The count is whole if it read everything; files beyond
// the allowed number may be left out.
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

// surveyDisk finds the sandbox's disk use before anything runs in it: a sandbox over its limit
// gets a little more, to clean up. Usually the use is known from the last run; otherwise
// surveyDisk counts it, for at most surveyTime. If a longer count would find too much, the
// sandbox is soon stopped, and the use is known the next time.
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
		k.status.Note(func(st *spec.Status) { st.Disk = &now })
	}
}

// watchDisk stops the sandbox once its disk use exceeds the limit.
func (k *Keeper) watchDisk(ctx context.Context) {
	if !k.watchesDisk() {
		return
	}
	var use spec.DiskUse // of the last count, which has ended before the result is read
	worked := time.Duration(0)
	w := quota.Watch{
		Allowed: k.disk.allowed,
		Free:    k.diskFree,
		Count: func(ctx context.Context) (quota.Use, bool) {
			// One more than allowed is enough to know.
			m := &quota.Meter{Most: k.disk.allowed.Files, Pace: quota.Gently()}
			var whole bool
			use, whole = k.countDisk(ctx, m)
			return quota.Use{Bytes: use.Bytes, Files: use.Files}, whole
		},
		Worked: func() bool {
			now := usage.CPU(k.wall.Pids())
			did := now-worked >= usage.IdleCPU
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

// counted notes the disk use, and tells whether the sandbox may go on.
func (k *Keeper) counted(use spec.DiskUse, look quota.Look) bool {
	k.status.Note(func(st *spec.Status) { // if the keeper dies, the next one counts anew
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

// auditDisk counts once more after all writes have ended. The sandbox has that use at its next
// start.
func (k *Keeper) auditDisk() {
	ctx, cancel := context.WithTimeout(context.Background(), auditTime)
	defer cancel()
	if use, whole := k.countDisk(ctx, &quota.Meter{}); whole {
		k.status.Note(func(st *spec.Status) { st.Disk = &use })
	}
}

// diskFree returns the free space of the file system with the sandbox's files.
func (k *Keeper) diskFree() (quota.Use, error) { return quota.Free(k.dir.Dir) }

// halt stops all writes for good: the caller then takes the wall down.
func (k *Keeper) halt(ctx context.Context) {
	err := k.wall.Settle(ctx)
	if err == nil {
		_, err = k.wall.Pause(ctx)
	}
	if err != nil {
		k.log.Warn("have the sandbox stand still", "err", err)
	}
}
