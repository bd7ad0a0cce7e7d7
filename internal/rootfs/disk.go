package rootfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bothy-dev/bothy/internal/build/cache"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/quota"
	"github.com/bothy-dev/bothy/spec"
)

// Disk measures a state directory.
type Disk struct {
	Images *Images
	Builds *Builds
	// Sandboxes and Agents list the sandboxes and the installed agents, whose owners are above this
	// package. They may be nil.
	Sandboxes, Agents Lister
}

// Lister lists the items of one directory, and counts them with a meter.
type Lister func(*quota.Meter) ([]Item, error)

// Measure measures all items. An item that cannot be read is listed as kept, and does not hide the
// rest.
func (d *Disk) Measure() (Usage, error) {
	var u Usage
	state := d.Images.Store
	if _, err := os.Stat(state.Path()); err != nil {
		return u, err
	}
	var m quota.Meter
	unread := map[string]bool{}
	for _, s := range d.shelves() {
		if s.list == nil {
			continue
		}
		items, err := s.list(&m)
		if err != nil && !unread[s.dir] {
			var whole quota.Meter
			items = []Item{{Kind: s.kind, Name: filepath.Base(s.dir), Bytes: whole.Add(s.dir), Kept: fmt.Sprintf("%s cannot be read: %v", s.dir, err)}}
			unread[s.dir] = true
		}
		u.Items = append(u.Items, items...)
	}
	if n := m.Add(state.Cache()); n > 0 {
		u.Items = append(u.Items, Item{Kind: KindCache, Name: "etc", Bytes: n, Kept: "it makes starts fast"})
	}
	u.Unread = m.Unread
	if limit := d.Images.Room.Limit; limit > 0 {
		var all quota.Meter
		u.Taken, u.Limit = all.Add(state.Path()), limit
	}
	return u, nil
}

// diskShelf is a directory with items of one kind.
type diskShelf struct {
	kind, dir string
	list      Lister
}

func (d *Disk) shelves() []diskShelf {
	s := d.Images.Store
	return []diskShelf{
		{KindSandbox, s.Sandboxes(), d.Sandboxes},
		{KindTemplate, s.Templates(), d.listTemplates},
		{KindImage, s.Images(), d.listImages},
		{KindBuild, s.Builds(), d.listBuilds},
		{KindAgent, s.Agents(), d.Agents},
		{KindLeftover, s.Images(), d.leftOfImages},
		{KindLeftover, s.Templates(), d.leftOfTemplates},
		{KindLeftover, s.Agents(), d.leftOfAgents},
	}
}

func (d *Disk) listTemplates(m *quota.Meter) ([]Item, error) {
	shelf := d.Images.templates()
	list, err := shelf.List()
	if err != nil {
		return nil, err
	}
	var items []Item
	for _, t := range list {
		it := Item{
			Kind: KindTemplate, Name: t.Name, Agent: t.Agent, Bytes: m.Add(shelf.Path(t.Name)), Used: shelf.Used(t),
			Erase: func() error { return shelf.Remove(t.Name) },
		}
		if t.Broken != "" {
			it.Kept = "it is broken, and a newer Bothy may know it: bothy template rm removes it"
		}
		items = append(items, it)
	}
	return items, nil
}

func (d *Disk) listImages(m *quota.Meter) ([]Item, error) {
	shelf := d.Images.Shelf()
	list, err := shelf.List()
	if err != nil || len(list) == 0 {
		return nil, err
	}
	users, unknown := d.Images.Users()
	bases, err := d.Images.stepBases()
	if err != nil {
		return nil, err
	}
	var items []Item
	counted := map[string]bool{}
	for _, img := range list {
		it := Item{Kind: KindImage, Name: image.Short(img.Name), Holders: users[img.Digest]}
		it.Erase = func() error { return d.Images.Remove(img) }
		if img.Name == "" { // its tag has moved on
			it.Kind, it.Name = KindLeftover, img.Digest
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

func (d *Disk) listBuilds(m *quota.Meter) ([]Item, error) {
	shelf := d.Builds.Shelf()
	kept := ""
	if shelf.Busy() {
		kept = "a build runs"
	}
	var items []Item
	add := func(name, path, key string) {
		items = append(items, Item{
			Kind: KindBuild, Name: name, build: key, Bytes: m.Add(path), Used: cache.Used(path), Kept: kept,
			Erase: func() error {
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
		add(shortenStep(s.Name), shelf.Path(s.Key), s.Key)
	}
	caches, err := shelf.Caches()
	for _, p := range caches {
		add("cache of RUN steps "+filepath.Base(p)[:12], p, "")
	}
	return items, err
}

// maxBrief is how many characters of a step are shown.
const maxBrief = 60

// shortenStep returns the beginning of a step, in the words of the Dockerfile.
func shortenStep(name string) string {
	if r := []rune(name); len(r) > maxBrief {
		return string(r[:maxBrief-1]) + "…"
	}
	return name
}
