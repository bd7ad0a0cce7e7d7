package machine

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/guest"
	"github.com/bothy-dev/bothy/internal/hostroot"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// The wall mounts by path, in the host's file system and in its own, and follows symbolic links in both.
// Other processes may change the directories on such a path meanwhile, and lead the wall to any place
// that this sandbox may reach. So the wall mounts nothing at such a path. It mounts at a stage, in a
// read-only directory of Bothy's. Before any other program runs inside, init attaches the stage to its
// target, name by name and through no link (guest/attach.go).

// stageMounts chooses the mounts that init attaches, and records the steps.
func (b *Builder) stageMounts(list []driver.Mount) {
	var steps []wire.Attachment
	for i, m := range list {
		inRoot := b.Launch.Image == nil && hostroot.Visible(m.Target)
		inMount := slices.ContainsFunc(list[:i], func(o driver.Mount) bool { return SharedWithHost(o) && isInside(o.Target, m.Target) })
		if m.Memory || !inRoot && !inMount {
			continue
		}
		list[i].Stage = path.Join(guest.Stages, strconv.Itoa(len(steps)))
		steps = append(steps, wire.Attachment{Stage: list[i].Stage, Target: m.Target, Make: !isBelow(list[:i], m.Target)})
	}
	for _, anchor := range b.anchors() {
		steps = append(steps, wire.Attachment{Target: anchor})
	}
	slices.SortStableFunc(steps, func(a, b wire.Attachment) int {
		return strings.Count(a.Target, "/") - strings.Count(b.Target, "/")
	})
	b.attach = steps
}

// isInside reports whether a path is below another.
func isInside(outer, p string) bool {
	return strings.HasPrefix(p, strings.TrimSuffix(outer, "/")+"/")
}

// anchors are the directories between a shared directory and a hidden one below it.
// Each is mounted onto itself: a mount point cannot be renamed, so the inside cannot
// move the parents of hidden directories.
func (b *Builder) anchors() (list []string) {
	for _, m := range slices.Concat(b.Spec.Workspaces, b.Spec.Volumes, b.Launch.Config) {
		for _, h := range b.Launch.Hidden {
			for d := path.Dir(h); isInside(m.Target, h) && isInside(m.Target, d); d = path.Dir(d) {
				if !slices.Contains(list, d) {
					list = append(list, d)
				}
			}
		}
	}
	return list
}

// coverHidden mounts an empty directory over each hidden directory in a mount, in the host's kernel, so
// that the wall's processes cannot reach it either. It stays covered wherever it is renamed to.
func (b *Builder) coverHidden(m spec.Mount, source, empty string) error {
	for _, h := range b.Launch.Hidden {
		if !isInside(m.Target, h) {
			continue
		}
		rel, err := filepath.Rel(m.Target, h)
		if err != nil {
			return err
		}
		fd, err := openPoint(source, rel, true)
		if err != nil {
			return noPoint(h, m.Target, err)
		}
		err = unix.Mount(empty, descriptorPath(fd), "", unix.MS_BIND, "")
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("cover %s: %w", h, err)
		}
	}
	return nil
}

// makeStages makes the stages in the root tree, and the list that init reads.
func (b *Builder) makeStages(root string, list []driver.Mount) error {
	dir := filepath.Join(root, guest.Stages)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, m := range list {
		if m.Stage == "" {
			continue
		}
		at := filepath.Join(root, m.Stage)
		err := error(nil)
		if isDirectory(m.Source) {
			err = os.Mkdir(at, 0o755)
		} else {
			err = os.WriteFile(at, nil, 0o644)
		}
		if err != nil {
			return fmt.Errorf("make a stage for %s: %w", m.Target, err)
		}
	}
	data, err := json.Marshal(b.attach)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, guest.Attachments), data, 0o644)
}
