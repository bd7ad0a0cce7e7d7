package agentprogram

import (
	"strings"

	"github.com/bothy-dev/bothy/internal/quota"
	"github.com/bothy-dev/bothy/internal/rootfs"
)

// ListDisk lists the installed versions as items of the disk: see [rootfs.Lister].
func (s *Programs) ListDisk(m *quota.Meter) ([]rootfs.Item, error) {
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	var items []rootfs.Item
	for _, a := range list {
		for _, v := range a.Installed {
			it := rootfs.Item{Kind: rootfs.KindAgent, Name: a.Name + "@" + v.ID(), Agent: a.Name, Bytes: m.Add(v.Dir), Used: v.Installation.Installed, Holders: v.Sandboxes}
			switch {
			case len(v.Sandboxes) > 0:
				it.Kept = "it is used by sandbox " + strings.Join(v.Sandboxes, ", ")
			case v.New:
				it.Kept = "new sandboxes use it"
			}
			it.Erase = func() error { return s.Remove(a.Name, v.ID(), false) }
			items = append(items, it)
		}
	}
	return items, nil
}
