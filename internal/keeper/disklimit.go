package keeper

import (
	"context"
	"fmt"
	"slices"

	"github.com/bothy-dev/bothy/internal/quota"
	"github.com/bothy-dev/bothy/spec"
)

// What a sandbox may keep on the disk, besides the bytes that its limit says.
const (
	bytesPerFile = 16 << 10 // one file for so much of the limit, as ext4 has them
	minFiles     = 100_000  // but so many in any case
	spareBytes   = 64 << 20 // for one that is over its limit when it starts, to clean up
	spareFiles   = 10_000
)

// rootShare is the part of the limit that the root layer leaves to the rest: whoever
// fills it finds a full disk, as on any other, and is not stopped for it.
const rootShare = 8

// rootLimit is what the wall lets the root layer take of a limit, of which so much was
// saved: if that is more already, it fits, with something to clean up in.
func rootLimit(limit, saved int64) int64 {
	most := limit - limit/rootShare
	if limit > 0 && saved > most {
		return saved + spareBytes
	}
	return most
}

// layerLimit is the size limit, in bytes, of a root layer that starts from a save, and of Docker's
// file system beside it; each has this limit of its own.
func (k *Keeper) layerLimit(saved string) (int64, error) {
	if !k.watchesDisk() { // then it is all of it
		return k.launch.Disk, nil
	}
	size, err := layerSize(saved)
	return rootLimit(k.launch.Disk, size), err
}

// diskLimit is what a sandbox may keep that had so much when it started.
func diskLimit(limit int64, had quota.Use) quota.Use {
	allowed := quota.Use{Bytes: limit, Files: max(limit/bytesPerFile, minFiles)}
	if had.Bytes > allowed.Bytes {
		allowed.Bytes = had.Bytes + spareBytes
	}
	if had.Files > allowed.Files {
		allowed.Files = had.Files + spareFiles
	}
	return allowed
}

// overDisk says why a sandbox may not go on, by what it keeps; empty if it may. The limit
// is the one that was asked for.
func overDisk(limit int64, use spec.DiskUse) string {
	switch {
	case use.Bytes > use.Limit:
		most := slices.MaxFunc(use.Parts, func(a, b spec.DiskPart) int { return int(min(max(a.Bytes-b.Bytes, -1), 1)) })
		return fmt.Sprintf("disk limit of %s%s: it keeps %s, most of it in %s (%s)",
			sizeText(limit), exception(limit, use), sizeText(use.Bytes), most.What, sizeText(most.Bytes))
	case use.Files > use.FilesLimit:
		most := slices.MaxFunc(use.Parts, func(a, b spec.DiskPart) int { return int(min(max(a.Files-b.Files, -1), 1)) })
		return fmt.Sprintf("disk limit of %s: it keeps more than %d files and directories, most of them in %s", sizeText(limit), use.FilesLimit, most.What)
	}
	return ""
}

// exception tells of a limit that is not the one that was asked for.
func exception(limit int64, use spec.DiskUse) string {
	if use.Limit == limit {
		return ""
	}
	return fmt.Sprintf(" (%s this time, because it was over it when it started)", sizeText(use.Limit))
}

// sizeText writes bytes for a person, precisely enough to tell a little too much from
// just enough.
func sizeText(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// heldDisk says of the limit of the disk whether it holds, if so many directories could
// not be looked into.
func heldDisk(limits []spec.Enforcement, uncounted int) []spec.Enforcement {
	list := slices.Clone(limits)
	for i := range list {
		if list[i].Limit != spec.LimitDisk {
			continue
		}
		list[i].Enforced, list[i].Reason = uncounted == 0, ""
		if uncounted > 0 {
			list[i].Reason = fmt.Sprintf("%d directories cannot be looked into: what they hold is not counted", uncounted)
		}
	}
	return list
}

// layerSize is what a save of the root layer takes; of none, nothing.
func layerSize(save string) (int64, error) {
	if save == "" {
		return 0, nil
	}
	u, err := (&quota.Meter{}).Count(context.Background(), save)
	return u.Bytes, err
}
