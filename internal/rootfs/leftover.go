package rootfs

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/quota"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// leftover returns the item for the remains of an interrupted image, template or installation.
func leftover(m *quota.Meter, of, at string, remove func() error) Item {
	it := Item{Kind: KindLeftover, Name: path.Join(of, filepath.Base(at)), Bytes: m.Add(at), Erase: remove}
	if info, err := os.Lstat(at); err == nil {
		it.Used = info.ModTime()
	}
	return it
}

// leftOfImages returns interrupted downloads, and files of no image. Some of them may just be in
// the making.
func (d *Disk) leftOfImages(m *quota.Meter) ([]Item, error) {
	shelf := d.Images.Shelf()
	parts, err := shelf.Parts()
	if err != nil {
		return nil, err
	}
	used, unknown := d.Images.usedDigests()
	strays, err := shelf.Strays(used)
	if err != nil { // a removal reports the error: an unreadable file may refer to any of them
		strays = nil
	}
	if len(parts)+len(strays) == 0 {
		return nil, nil
	}
	kept, err := imagesBusy(shelf)
	if err != nil {
		return nil, err
	}
	var items []Item
	for _, p := range parts {
		it := leftover(m, "image", p, func() error {
			return d.Images.change(func(s image.Shelf) error { return s.RemovePart(p) })
		})
		it.Kept = kept
		items = append(items, it)
	}
	if kept == "" && unknown != nil {
		kept = unknown.Error()
	}
	for _, p := range strays {
		it := leftover(m, "image", p, func() error { return d.removeStray(p) })
		it.Kept = kept
		items = append(items, it)
	}
	return items, nil
}

// imagesBusy returns why half-made files must not be removed now, or the empty string if they may
// be.
func imagesBusy(s image.Shelf) (string, error) {
	lock, err := store.TryLock(s.Lock())
	if errors.Is(err, store.ErrLocked) {
		return imagesAtWork, nil
	}
	if err != nil {
		return "", err
	}
	lock.Unlock()
	if err := s.Busy(); errors.Is(err, image.ErrHeld) {
		return image.ErrHeld.Error(), nil
	} else if err != nil {
		return "", err
	}
	return "", nil
}

func (d *Disk) removeStray(p string) error {
	return d.Images.change(func(s image.Shelf) error {
		used, err := d.Images.usedDigests()
		if err != nil {
			return err
		}
		return s.RemoveStray(p, used)
	})
}

// leftOfTemplates returns the remains of templates that a command was saving, replacing or
// removing.
func (d *Disk) leftOfTemplates(m *quota.Meter) ([]Item, error) {
	shelf := d.Images.templates()
	list, err := shelf.Leftovers()
	if err != nil {
		return nil, err
	}
	var items []Item
	for _, l := range list {
		it := leftover(m, "template", l.Path, func() error { return shelf.RemoveLeftover(l.Path) })
		if l.Busy {
			it.Kept = "a template is being made"
		}
		items = append(items, it)
	}
	return items, nil
}

// leftOfAgents returns the remains of interrupted installations.
func (d *Disk) leftOfAgents(m *quota.Meter) ([]Item, error) {
	names, err := os.ReadDir(d.Images.Store.Agents())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var items []Item
	for _, n := range names {
		h, err := agent.HomeOf(d.Images.Store, n.Name())
		if err != nil {
			continue
		}
		left, err := h.Leftovers()
		if err != nil {
			return nil, err
		}
		for _, p := range left {
			it := leftover(m, n.Name(), p, func() error { return removeLeftover(h, p) })
			it.Agent = n.Name()
			items = append(items, it)
		}
	}
	return items, nil
}

// removeLeftover removes the remains of an installation, unless one is at work.
func removeLeftover(h agent.Home, p string) error {
	lock, err := store.TryLock(h.Lock())
	if errors.Is(err, store.ErrLocked) {
		return spec.Errorf(spec.ErrConflict, "%s stays: it is being installed", filepath.Base(p))
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return os.RemoveAll(p)
}
