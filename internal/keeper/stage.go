package keeper

import (
	"context"
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

// The wall mounts by path, in the host's file system and in its own, and follows
// symbolic links in both. A path through a directory that others may change while it
// does so would lead it anywhere, with all that this sandbox may reach. So the wall
// mounts nothing there. It mounts such a thing at a stage, below a directory that is
// Bothy's own and read-only, and init, before anything else runs inside, attaches it
// to its target, name by name and through no link (guest/attach.go).

// stage chooses the mounts that init attaches, and notes what it shall do.
func (k *Keeper) stage(list []driver.Mount) {
	var steps []wire.Attachment
	for i, m := range list {
		inRoot := k.launch.Image == nil && hostroot.Visible(m.Target)
		inMount := slices.ContainsFunc(list[:i], func(o driver.Mount) bool { return changeable(o) && contains(o.Target, m.Target) })
		if m.Memory || !inRoot && !inMount {
			continue
		}
		list[i].Stage = path.Join(guest.Stages, strconv.Itoa(len(steps)))
		steps = append(steps, wire.Attachment{Stage: list[i].Stage, Target: m.Target, Make: !below(list[:i], m.Target)})
	}
	for _, anchor := range k.anchors() {
		steps = append(steps, wire.Attachment{Target: anchor})
	}
	slices.SortStableFunc(steps, func(a, b wire.Attachment) int {
		return strings.Count(a.Target, "/") - strings.Count(b.Target, "/")
	})
	k.attach = steps
}

// changeable tells whether somebody else may change the directory while the sandbox
// starts: a program in another sandbox, or of the host.
func changeable(m driver.Mount) bool { return !m.Memory && !m.Exclusive }

// contains tells whether a path lies below another.
func contains(outer, p string) bool {
	return strings.HasPrefix(p, strings.TrimSuffix(outer, "/")+"/")
}

// anchors are the directories between a shared directory and a hidden one below it.
// Each is mounted onto itself: a mount point cannot be renamed, so the inside cannot
// move the parents of what is hidden.
func (k *Keeper) anchors() (list []string) {
	for _, m := range slices.Concat(k.spec.Workspaces, k.spec.Volumes, k.launch.Config) {
		for _, h := range k.launch.Hidden {
			for d := path.Dir(h); contains(m.Target, h) && contains(m.Target, d); d = path.Dir(d) {
				if !slices.Contains(list, d) {
					list = append(list, d)
				}
			}
		}
	}
	return list
}

// coverHidden mounts an empty directory over what is hidden in a mount, as the host's
// kernel sees it: what is covered here cannot be reached by the wall's processes
// either. It stays covered wherever it is renamed to.
func (k *Keeper) coverHidden(m spec.Mount, source, empty string) error {
	for _, h := range k.launch.Hidden {
		if !contains(m.Target, h) {
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
		err = unix.Mount(empty, procFD(fd), "", unix.MS_BIND, "")
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("cover %s: %w", h, err)
		}
	}
	return nil
}

// makeStages makes the stages in the root tree, and the list that init reads.
func (k *Keeper) makeStages(root string, list []driver.Mount) error {
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
		if isDir(m.Source) {
			err = os.Mkdir(at, 0o755)
		} else {
			err = os.WriteFile(at, nil, 0o644)
		}
		if err != nil {
			return fmt.Errorf("make a stage for %s: %w", m.Target, err)
		}
	}
	data, err := json.Marshal(k.attach)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, guest.Attachments), data, 0o644)
}

// attached waits until init has attached everything. Before that nothing may run
// inside: it would see, and might use, what lies below the mounts.
func (k *Keeper) attached(ctx context.Context) error {
	if len(k.attach) == 0 && !k.spec.Docker { // at whose socket init listens before it says a word
		return nil
	}
	greeting, err := k.link.Greeting(ctx)
	if err != nil {
		return err
	}
	n := greeting.Attached
	switch {
	case n == len(k.attach):
		return nil
	case n < 0 || n > len(k.attach):
		return spec.Errorf(spec.ErrSandbox, "init says that it attached %d of %d mounts", n, len(k.attach))
	}
	target := k.attach[n].Target
	return spec.Errorf(spec.ErrConflict, "the mount point %s changed while the sandbox started: %w", target, unix.Errno(greeting.Errno)).
		WithHint("a program, perhaps in another sandbox, is changing the directories above it; end it, and start the sandbox again")
}
