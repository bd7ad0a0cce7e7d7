package keeper

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/clone"
	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/hostroot"
	"github.com/bothy-dev/bothy/spec"
)

// mounts lists the mounts over the root, outer ones first, and makes the mount
// points that the sandbox needs in its own directories.
func (k *Keeper) mounts(scratch string) ([]driver.Mount, error) {
	if k.spec.Build != nil {
		return k.buildMounts(scratch)
	}
	if err := hostroot.CheckMounts(k.spec.Mounted()); err != nil {
		return nil, err
	}
	empty, err := emptyDir(scratch)
	if err != nil {
		return nil, err
	}
	// Files in memory leave room for what would remove them again.
	list := []driver.Mount{
		{Target: "/tmp", Memory: true, Mode: 0o1777, Size: k.launch.Memory / 2},
		{Target: hostroot.SharedMemory, Memory: true, Mode: 0o1777, Size: k.launch.Memory / 4},
		{Source: k.dir.Home(), Target: k.account.Home, Exclusive: true},
	}
	if k.spec.Docker {
		kept, err := k.dockerMount()
		if err != nil {
			return nil, err
		}
		list = append(list, kept)
	}
	for i, m := range slices.Concat(k.spec.Workspaces, k.spec.Volumes, k.config()) {
		if i < len(k.spec.Workspaces) && k.spec.Clones(m) {
			list = append(list, driver.Mount{Source: clone.Tree(k.dir.Clone(i)), Target: m.Target, Exclusive: true})
			continue
		}
		source, err := k.pin(m.Source, filepath.Join(scratch, "mnt", strconv.Itoa(i)))
		if err != nil {
			return nil, err
		}
		if i < len(k.spec.Workspaces) && k.spec.Reviews(m) {
			if source, err = k.overlay(m, source, i, scratch); err != nil {
				return nil, err
			}
		}
		if err := k.coverHidden(m, source, empty); err != nil {
			return nil, err
		}
		if m.Target == k.account.Home { // a forced workspace replaces the home
			list = slices.DeleteFunc(list, func(d driver.Mount) bool { return d.Target == m.Target })
		}
		list = append(list, driver.Mount{Source: source, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	for _, p := range k.installed() {
		source, err := k.pin(p.source, filepath.Join(scratch, "mnt", path.Base(p.target)))
		if err != nil {
			return nil, err
		}
		list = append(list, driver.Mount{Source: source, Target: p.target, ReadOnly: true, Exclusive: true})
	}
	for i, target := range k.spec.Private {
		source := k.dir.Private(i)
		if err := os.MkdirAll(source, 0o755); err != nil {
			return nil, err
		}
		list = append(list, driver.Mount{Source: source, Target: target, Exclusive: true})
	}
	for _, h := range k.launch.Hidden {
		list = append(list, driver.Mount{Source: empty, Target: h, ReadOnly: true, Exclusive: true})
	}
	slices.SortStableFunc(list, func(a, b driver.Mount) int {
		return strings.Count(a.Target, "/") - strings.Count(b.Target, "/")
	})
	k.stage(list)
	return list, k.makePoints(list)
}

// config is what of the agent's configuration can be shown: its place in the home
// may hold something of the sandbox's own, which stays.
func (k *Keeper) config() (list []spec.Mount) {
	for _, m := range k.launch.Config {
		rel, err := filepath.Rel(k.account.Home, m.Target)
		if err == nil && filepath.IsLocal(rel) {
			err = makePointFor(m.Source, k.dir.Home(), rel)
		}
		if err != nil {
			k.event("config.hidden", map[string]any{"path": m.Target, "error": err.Error()})
			continue
		}
		list = append(list, m)
	}
	return list
}

// installation is a program that lies on the host and is shown inside.
type installation struct {
	*spec.Program
	source, target string // directories
}

// installed are the agent's program and what that runs on.
func (k *Keeper) installed() (list []installation) {
	p := k.spec.Program
	if p == nil {
		return nil
	}
	list = append(list, installation{p, k.launch.Program, hostroot.Agent})
	if p.Runtime != nil {
		list = append(list, installation{p.Runtime, k.launch.Runtime, hostroot.Runtime})
	}
	return list
}

// pin makes a directory or file of the host appear at a place of ours, and
// gives that place. The path was real when the sandbox was created; a program that
// can write to a directory above it, in another sandbox for instance, may have
// put a symbolic link in its way since. None is followed, and what was opened
// is what is mounted.
func (k *Keeper) pin(source, at string) (string, error) {
	fd, kind, err := openNoLinks(source)
	switch {
	case errors.Is(err, unix.ELOOP):
		return "", spec.Errorf(spec.ErrDenied, "%s has a symbolic link in its path now, which it had not when the sandbox was created", source).
			WithHint("put the directory back, or remove the sandbox: bothy rm %s", k.spec.Name)
	case err != nil:
		return "", spec.Errorf(spec.ErrNotFound, "workspace %s: %w", source, err).
			WithHint("put it back, or remove the sandbox: bothy rm %s", k.spec.Name)
	}
	defer unix.Close(fd)
	switch kind {
	case unix.S_IFDIR:
		if err = k.asFound(source, fd); err == nil {
			err = os.MkdirAll(at, 0o700)
		}
	case unix.S_IFREG:
		if err = os.MkdirAll(filepath.Dir(at), 0o700); err == nil {
			err = os.WriteFile(at, nil, 0o600)
		}
	default:
		return "", spec.Errorf(spec.ErrDenied, "%s is neither a directory nor a regular file any more", source)
	}
	if err != nil {
		return "", err
	}
	if err := unix.Mount(procFD(fd), at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return "", fmt.Errorf("mount %s: %w", source, err)
	}
	return at, nil
}

// asFound refuses another directory than the one that the engine found at a path, and has written down.
func (k *Keeper) asFound(source string, fd int) error {
	i := slices.IndexFunc(k.launch.Mounted, func(m spec.Mounted) bool { return m.Source == source })
	if i < 0 { // it is none of the sandbox's own workspaces and volumes
		return nil
	}
	id, err := hostpath.IdentityOf(fd)
	if err == nil && id != hostpath.Found(k.launch.Mounted[i]) {
		err = spec.Errorf(spec.ErrConflict, "another directory is at %s since a moment", source).WithHint("start the sandbox again")
	}
	return err
}

// makePoints makes the mount points that lie in other mounts: in the sandbox's
// own home, which is a directory of ours, and for private directories. Anything
// else is not ours to make in a workspace.
func (k *Keeper) makePoints(list []driver.Mount) error {
	for i, m := range list {
		outer, ok := innermost(list[:i], m.Target)
		if !ok || outer.Memory {
			continue
		}
		rel, err := filepath.Rel(outer.Target, m.Target)
		if err != nil {
			return err
		}
		private := filepath.Dir(m.Source) == filepath.Dir(k.dir.Private(0)) && !outer.ReadOnly
		if outer.Source == k.dir.Home() || k.isClone(outer.Source) || private {
			if err := makePoint(outer.Source, rel, isDir(m.Source)); err != nil {
				return (&spec.Error{Class: spec.ErrDenied, Op: "make mount point " + m.Target, Err: err}).
					WithHint("put the directory back, on the host or in the sandbox's home, or remove the sandbox: bothy rm %s", k.spec.Name)
			}
			continue
		}
		if err := findPoint(outer.Source, rel, isDir(m.Source)); err != nil {
			return noPoint(m.Target, outer.Target, err)
		}
	}
	return nil
}

// isClone tells whether a directory is the sandbox's own clone of a workspace.
func (k *Keeper) isClone(dir string) bool {
	for _, c := range clone.Of(k.spec, k.dir.Clone) {
		if c.Tree() == dir {
			return true
		}
	}
	return false
}

// innermost finds the deepest of the mounts that target lies below, of two at one
// place the later, which covers the other.
func innermost(list []driver.Mount, target string) (driver.Mount, bool) {
	var best driver.Mount
	for _, m := range list {
		if strings.HasPrefix(target, strings.TrimSuffix(m.Target, "/")+"/") && len(m.Target) >= len(best.Target) {
			best = m
		}
	}
	return best, best.Target != ""
}

func below(list []driver.Mount, target string) bool {
	_, ok := innermost(list, target)
	return ok
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
