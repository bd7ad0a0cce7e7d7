package rootfs

import (
	"cmp"
	"context"
	"path"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Kinds of items that take room on the disk.
const (
	KindSandbox  = "sandbox"
	KindTemplate = "template"
	KindImage    = "image"    // a container image
	KindAgent    = "agent"    // an installed version
	KindLeftover = "leftover" // remains of an interrupted image, template or installation
	KindBuild    = "build"    // a step of a build, or a cache of one
	KindCache    = "cache"
)

// Item is one of Bothy's items that take room on the disk.
type Item struct {
	Kind, Name string
	Agent      string    // the agent that it is, or that it belongs to
	Bytes      int64     // data that several items share counts for the first of them
	Used       time.Time // last use, or else creation; zero if neither is known
	Running    bool      // a sandbox that runs
	Holders    []string  // sandboxes that use it; for an image also templates
	Kept       string    // why it must not be removed; empty if it may be
	Fresh      bool      // a sandbox that was used just now, and is kept only for that
	// Erase removes the item, or returns an error of class [spec.ErrConflict] if it is in use. It is
	// nil if nothing but its owner removes the item.
	Erase func() error

	build string   // the key of a build step
	above []string // the build steps over it, if nothing else keeps it
}

// Usage is Bothy's use of the disk: sandboxes, templates, installed agents, remains of
// installations, and the cache.
type Usage struct {
	Items  []Item
	Unread int // directories that could not be read, and are in no sum
	// Taken is the size of the whole state directory in bytes, and Limit is its limit. Both are
	// zero without a limit.
	Taken, Limit int64
}

// Pruning selects the items to remove.
type Pruning struct {
	Kinds  []string
	Before time.Time // not used since then; zero for any time
	Names  []string  // patterns as of [path.Match]; all must match
	Agents []string  // the item must be of all these agents, so of two different ones none is
}

// Chosen returns the items that a pruning selects, the largest first. Items that only those keep
// come after them.
func (u Usage) Chosen(p Pruning) []Item {
	var list, beneath []Item
	builds := map[string]bool{}
	for _, it := range u.Items {
		if it.Kept == "" && it.Erase != nil && p.selects(it) {
			list = append(list, it)
			builds[it.build] = true
		}
	}
	for _, it := range u.Items {
		stays := func(key string) bool { return !builds[key] }
		if len(it.above) > 0 && !slices.ContainsFunc(it.above, stays) && p.selects(it) {
			it.Kept = ""
			beneath = append(beneath, it)
		}
	}
	largest := func(a, b Item) int { return cmp.Compare(b.Bytes, a.Bytes) }
	slices.SortStableFunc(list, largest)
	slices.SortStableFunc(beneath, largest)
	return append(list, beneath...)
}

func (p Pruning) selects(it Item) bool {
	other := func(pattern string) bool {
		fits, _ := path.Match(pattern, it.Name) // a bad pattern is refused where it is read
		return !fits
	}
	another := func(agent string) bool { return agent != it.Agent }
	return slices.Contains(p.Kinds, it.Kind) && (p.Before.IsZero() || it.Used.Before(p.Before)) &&
		!slices.ContainsFunc(p.Names, other) && !slices.ContainsFunc(p.Agents, another)
}

// Remove removes an item. If it came into use meanwhile, it stays, and the error is of class
// [spec.ErrConflict].
func (it Item) Remove(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := it.Erase(); err != nil {
		return &spec.Error{Op: "remove " + it.Kind + " " + it.Name, Err: err}
	}
	return nil
}
