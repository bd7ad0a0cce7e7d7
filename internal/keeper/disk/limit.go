package disk

import (
	"context"
	"fmt"
	"slices"

	"github.com/bothy-dev/bothy/internal/quota"
	"github.com/bothy-dev/bothy/spec"
)

// Disk limits of a sandbox besides its own byte limit.
const (
	bytesPerFile = 16 << 10 // one file for this much of the limit, as ext4 does it
	minFiles     = 100_000  // but at least this many
	spareBytes   = 64 << 20 // for a sandbox over its limit at the start, to clean up
	spareFiles   = 10_000
)

// rootShare is the part of the limit that is reserved for files outside of the root layer. A
// program that fills the root layer sees a full disk, as on any machine, and the sandbox is not
// stopped for it.
const rootShare = 8

// rootLimit returns the wall's limit for the root layer, given the sandbox's limit and the size
// of the saved layer. A saved layer that is already larger fits, with some room to clean up.
func rootLimit(limit, saved int64) int64 {
	most := limit - limit/rootShare
	if limit > 0 && saved > most {
		return saved + spareBytes
	}
	return most
}

// LayerLimit is the size limit, in bytes, of a root layer that starts from a save. The same limit
// applies, separately, to Docker's file system beside it.
func (w *Watch) LayerLimit(saved string) (int64, error) {
	if !w.hasLimit() { // the root layer then gets the whole limit
		return w.Limit, nil
	}
	size, err := layerSize(saved)
	return rootLimit(w.Limit, size), err
}

// allowedUse returns the limit of a sandbox that had this use when it started.
func allowedUse(limit int64, had quota.Use) quota.Use {
	allowed := quota.Use{Bytes: limit, Files: max(limit/bytesPerFile, minFiles)}
	if had.Bytes > allowed.Bytes {
		allowed.Bytes = had.Bytes + spareBytes
	}
	if had.Files > allowed.Files {
		allowed.Files = had.Files + spareFiles
	}
	return allowed
}

// whyOver says why a sandbox may not go on with its disk use; empty if it may. limit is the
// limit that the user asked for.
func whyOver(limit int64, use spec.DiskUse) string {
	switch {
	case use.Bytes > use.Limit:
		most := slices.MaxFunc(use.Parts, func(a, b spec.DiskPart) int { return int(min(max(a.Bytes-b.Bytes, -1), 1)) })
		return fmt.Sprintf("disk limit of %s%s: it keeps %s, most of it in %s (%s)",
			sizeText(limit), explainLimit(limit, use), sizeText(use.Bytes), most.What, sizeText(most.Bytes))
	case use.Files > use.FilesLimit:
		most := slices.MaxFunc(use.Parts, func(a, b spec.DiskPart) int { return int(min(max(a.Files-b.Files, -1), 1)) })
		return fmt.Sprintf("disk limit of %s: it keeps more than %d files and directories, most of them in %s", sizeText(limit), use.FilesLimit, most.What)
	}
	return ""
}

// explainLimit explains a limit that differs from the one the user asked for.
func explainLimit(limit int64, use spec.DiskUse) string {
	if use.Limit == limit {
		return ""
	}
	return fmt.Sprintf(" (%s this time, because it was over it when it started)", sizeText(use.Limit))
}

// sizeText formats bytes for a person, precisely enough to tell slightly too much from just
// enough.
func sizeText(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// enforcement says whether the disk limit is enforced, given the number of directories that could not
// be read.
func enforcement(limits []spec.Enforcement, uncounted int) []spec.Enforcement {
	list := slices.Clone(limits)
	for i := range list {
		if list[i].Limit != spec.LimitDisk {
			continue
		}
		list[i].Enforced, list[i].Reason = uncounted == 0, ""
		if uncounted > 0 {
			list[i].Reason = spec.FormatCount(uncounted, "directory") + " cannot be looked into: the contents are not counted"
		}
	}
	return list
}

// layerSize returns the size of a save of the root layer; 0 without a save.
func layerSize(save string) (int64, error) {
	if save == "" {
		return 0, nil
	}
	u, err := (&quota.Meter{}).Count(context.Background(), save)
	return u.Bytes, err
}
