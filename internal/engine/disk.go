package engine

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/build/cache"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/quota"
	"github.com/bothy-dev/bothy/spec"
)

// Kinds of things that take room on the disk.
const (
	DiskSandbox  = "sandbox"
	DiskTemplate = "template"
	DiskImage    = "image"    // a container image
	DiskAgent    = "agent"    // an installed version
	DiskLeftover = "leftover" // remains of an interrupted image, template or installation
	DiskBuild    = "build"    // a step of a build, or a cache of one
	DiskCache    = "cache"
)

// DiskItem is a thing of Bothy's that takes room on the disk.
type DiskItem struct {
	Kind, Name string
	Agent      string    // the agent that it is, or that it belongs to
	Bytes      int64     // data that several items share counts for the first of them
	Used       time.Time // last use, or else creation; zero if neither is known
	Running    bool      // a sandbox that runs
	Holders    []string  // sandboxes that use it; for an image also templates
	Kept       string    // why it must not be removed; empty if it may be
	Fresh      bool      // a sandbox that was used just now, and is kept only for that

	remove func() error
	build  string   // the key of a build step
	above  []string // the build steps over it, if nothing else keeps it
}

// Disk is Bothy's use of the disk: sandboxes, templates, installed agents, remains of
// installations, and the cache.
type Disk struct {
	Items  []DiskItem
	Unread int // directories that could not be read, and are in no sum
	// Taken is the size of the whole state directory in bytes, and Limit is its limit. Both are
	// zero without a limit.
	Taken, Limit int64
}

// Disk measures all items. An item that cannot be read is listed as kept, and does not hide the
// rest.
func (e *Engine) Disk() (Disk, error) {
	var d Disk
	if _, err := os.Stat(e.Store.Path()); err != nil {
		return d, err
	}
	var m quota.Meter
	unread := map[string]bool{}
	for _, s := range e.diskShelves() {
		items, err := s.list(&m)
		if err != nil && !unread[s.dir] {
			var whole quota.Meter
			items = []DiskItem{{Kind: s.kind, Name: filepath.Base(s.dir), Bytes: whole.Add(s.dir), Kept: fmt.Sprintf("%s cannot be read: %v", s.dir, err)}}
			unread[s.dir] = true
		}
		d.Items = append(d.Items, items...)
	}
	if n := m.Add(e.Store.Cache()); n > 0 {
		d.Items = append(d.Items, DiskItem{Kind: DiskCache, Name: "etc", Bytes: n, Kept: "it makes starts fast"})
	}
	d.Unread = m.Unread
	if e.StoreLimit > 0 {
		var all quota.Meter
		d.Taken, d.Limit = all.Add(e.Store.Path()), e.StoreLimit
	}
	return d, nil
}

// diskShelf is a directory with items of one kind.
type diskShelf struct {
	kind, dir string
	list      func(*quota.Meter) ([]DiskItem, error)
}

func (e *Engine) diskShelves() []diskShelf {
	return []diskShelf{
		{DiskSandbox, e.Store.Sandboxes(), e.diskSandboxes},
		{DiskTemplate, e.Store.Templates(), e.diskTemplates},
		{DiskImage, e.Store.Images(), e.diskImages},
		{DiskBuild, e.Store.Builds(), e.diskBuilds},
		{DiskAgent, e.Store.Agents(), e.diskAgents},
		{DiskLeftover, e.Store.Images(), e.leftOfImages},
		{DiskLeftover, e.Store.Templates(), e.leftOfTemplates},
		{DiskLeftover, e.Store.Agents(), e.leftOfAgents},
	}
}

func (e *Engine) diskTemplates(m *quota.Meter) ([]DiskItem, error) {
	shelf := e.Templates()
	list, err := shelf.List()
	if err != nil {
		return nil, err
	}
	var items []DiskItem
	for _, t := range list {
		it := DiskItem{
			Kind: DiskTemplate, Name: t.Name, Agent: t.Agent, Bytes: m.Add(shelf.Path(t.Name)), Used: shelf.Used(t),
			remove: func() error { return shelf.Remove(t.Name) },
		}
		if t.Broken != "" {
			it.Kept = "it is broken, and a newer Bothy may know it: bothy template rm removes it"
		}
		items = append(items, it)
	}
	return items, nil
}

func (e *Engine) diskImages(m *quota.Meter) ([]DiskItem, error) {
	shelf := e.Images()
	list, err := shelf.List()
	if err != nil || len(list) == 0 {
		return nil, err
	}
	users, unknown := e.imageUsers()
	bases, err := e.buildBases()
	if err != nil {
		return nil, err
	}
	var items []DiskItem
	counted := map[string]bool{}
	for _, img := range list {
		it := DiskItem{Kind: DiskImage, Name: image.Short(img.Name), Holders: users[img.Digest]}
		it.remove = func() error { return e.RemoveImage(img) }
		if img.Name == "" { // its tag has moved on
			it.Kind, it.Name = DiskLeftover, img.Digest
		}
		for _, p := range shelf.Paths(img.Digest) {
			if !counted[p] {
				it.Bytes += m.Add(p)
			}
			counted[p] = true
		}
		it.Used = shelf.Used(img.Digest)
		switch {
		case unknown != nil:
			it.Kept = unknown.Error()
		case len(it.Holders) > 0:
			it.Kept = "it is used by " + strings.Join(it.Holders, ", ")
		case img.Name == "" && len(bases[img.Digest]) > 0:
			it.Kept, it.above = "builds that are kept lie over it", bases[img.Digest]
		}
		items = append(items, it)
	}
	return items, nil
}

// diskBuilds lists the steps and caches that builds left for later ones.
func (e *Engine) diskBuilds(m *quota.Meter) ([]DiskItem, error) {
	shelf := e.Builds()
	kept := ""
	if shelf.Busy() {
		kept = "a build runs"
	}
	var items []DiskItem
	add := func(name, path, key string) {
		items = append(items, DiskItem{
			Kind: DiskBuild, Name: name, build: key, Bytes: m.Add(path), Used: cache.Used(path), Kept: kept,
			remove: func() error {
				if shelf.Busy() {
					return spec.Errorf(spec.ErrConflict, "a build began meanwhile")
				}
				return shelf.Remove(path)
			},
		})
	}
	steps, err := shelf.Steps()
	if err != nil {
		return nil, err
	}
	for _, s := range steps {
		add(brief(s.Name), shelf.Path(s.Key), s.Key)
	}
	caches, err := shelf.Caches()
	for _, p := range caches {
		add("cache of RUN steps "+filepath.Base(p)[:12], p, "")
	}
	return items, err
}

// maxBrief is how many characters of a step are shown.
const maxBrief = 60

// brief returns the beginning of a step, as the Dockerfile has it.
func brief(name string) string {
	if r := []rune(name); len(r) > maxBrief {
		return string(r[:maxBrief-1]) + "…"
	}
	return name
}

func (e *Engine) diskAgents(m *quota.Meter) ([]DiskItem, error) {
	list, err := e.ListAgents()
	if err != nil {
		return nil, err
	}
	var items []DiskItem
	for _, a := range list {
		for _, v := range a.Installed {
			it := DiskItem{Kind: DiskAgent, Name: a.Name + "@" + v.ID(), Agent: a.Name, Bytes: m.Add(v.Dir), Used: v.Installation.Installed, Holders: v.Sandboxes}
			switch {
			case len(v.Sandboxes) > 0:
				it.Kept = "it is used by sandbox " + strings.Join(v.Sandboxes, ", ")
			case v.New:
				it.Kept = "new sandboxes use it"
			}
			it.remove = func() error { return e.RemoveAgent(a.Name, v.ID(), false) }
			items = append(items, it)
		}
	}
	return items, nil
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
func (d Disk) Chosen(p Pruning) []DiskItem {
	var list, beneath []DiskItem
	builds := map[string]bool{}
	for _, it := range d.Items {
		if it.Kept == "" && it.remove != nil && p.wants(it) {
			list = append(list, it)
			builds[it.build] = true
		}
	}
	for _, it := range d.Items {
		stays := func(key string) bool { return !builds[key] }
		if len(it.above) > 0 && !slices.ContainsFunc(it.above, stays) && p.wants(it) {
			it.Kept = ""
			beneath = append(beneath, it)
		}
	}
	largest := func(a, b DiskItem) int { return cmp.Compare(b.Bytes, a.Bytes) }
	slices.SortStableFunc(list, largest)
	slices.SortStableFunc(beneath, largest)
	return append(list, beneath...)
}

func (p Pruning) wants(it DiskItem) bool {
	other := func(pattern string) bool {
		fits, _ := path.Match(pattern, it.Name) // a bad pattern is refused where it is read
		return !fits
	}
	another := func(agent string) bool { return agent != it.Agent }
	return slices.Contains(p.Kinds, it.Kind) && (p.Before.IsZero() || it.Used.Before(p.Before)) &&
		!slices.ContainsFunc(p.Names, other) && !slices.ContainsFunc(p.Agents, another)
}

// RemoveItem removes an item. If it came into use meanwhile, it stays, and the error is of class
// [spec.ErrConflict].
func (e *Engine) RemoveItem(ctx context.Context, it DiskItem) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := it.remove(); err != nil {
		return &spec.Error{Op: "remove " + it.Kind + " " + it.Name, Err: err}
	}
	return nil
}
