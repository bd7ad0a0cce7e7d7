package machine

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

// listMounts lists the mounts over the root, outer ones first, and makes the mount points that the
// sandbox needs in its own directories.
func (b *Builder) listMounts(scratch string) ([]driver.Mount, error) {
	if b.Spec.Build != nil {
		return b.buildMounts(scratch)
	}
	if err := hostroot.CheckMounts(b.Spec.Mounted()); err != nil {
		return nil, err
	}
	empty, err := emptyDir(scratch)
	if err != nil {
		return nil, err
	}
	// File systems in memory leave room for the programs that clean them up.
	list := []driver.Mount{
		{Target: "/tmp", Memory: true, Mode: 0o1777, Size: b.Launch.Memory / 2},
		{Target: hostroot.SharedMemory, Memory: true, Mode: 0o1777, Size: b.Launch.Memory / 4},
		{Source: b.Dir.Home(), Target: b.account.Home, Exclusive: true},
	}
	if b.Spec.Docker {
		kept, err := b.dockerMount()
		if err != nil {
			return nil, err
		}
		list = append(list, kept)
	}
	for i, m := range slices.Concat(b.Spec.Workspaces, b.Spec.Volumes, b.config()) {
		if i < len(b.Spec.Workspaces) && b.Spec.Clones(m) {
			list = append(list, driver.Mount{Source: clone.Tree(b.Dir.Clone(i)), Target: m.Target, Exclusive: true})
			continue
		}
		source, err := b.pinSource(m.Source, filepath.Join(scratch, "mnt", strconv.Itoa(i)))
		if err != nil {
			return nil, err
		}
		if i < len(b.Spec.Workspaces) && b.Spec.Reviews(m) {
			if source, err = b.overlay(m, source, i, scratch); err != nil {
				return nil, err
			}
		}
		if err := b.coverHidden(m, source, empty); err != nil {
			return nil, err
		}
		if m.Target == b.account.Home { // a forced workspace replaces the home
			list = slices.DeleteFunc(list, func(d driver.Mount) bool { return d.Target == m.Target })
		}
		list = append(list, driver.Mount{Source: source, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	for _, p := range b.installed() {
		source, err := b.pinSource(p.source, filepath.Join(scratch, "mnt", path.Base(p.target)))
		if err != nil {
			return nil, err
		}
		list = append(list, driver.Mount{Source: source, Target: p.target, ReadOnly: true, Exclusive: true})
	}
	for i, target := range b.Spec.Private {
		source := b.Dir.Private(i)
		if err := os.MkdirAll(source, 0o755); err != nil {
			return nil, err
		}
		list = append(list, driver.Mount{Source: source, Target: target, Exclusive: true})
	}
	for _, h := range b.Launch.Hidden {
		list = append(list, driver.Mount{Source: empty, Target: h, ReadOnly: true, Exclusive: true})
	}
	slices.SortStableFunc(list, func(a, b driver.Mount) int {
		return strings.Count(a.Target, "/") - strings.Count(b.Target, "/")
	})
	b.stageMounts(list)
	return list, b.makePoints(list)
}

// config returns the mounts of the agent's configuration. It leaves out a mount whose place in the home
// is taken by another file of the sandbox, which stays.
func (b *Builder) config() (list []spec.Mount) {
	for _, m := range b.Launch.Config {
		rel, err := filepath.Rel(b.account.Home, m.Target)
		if err == nil && filepath.IsLocal(rel) {
			err = makePointFor(m.Source, b.Dir.Home(), rel)
		}
		if err != nil {
			b.Event("config.hidden", map[string]any{"path": m.Target, "error": err.Error()})
			continue
		}
		list = append(list, m)
	}
	return list
}

// installation is a program of the host that is shown inside.
type installation struct {
	*spec.Program
	source, target string // directories
	named          bool   // programs inside find it by its name
}

// installed returns the agent's program, its adapter for editors, and the runtime of both. The adapter and
// a runtime that only the adapter needs have no name: the project may want others.
func (b *Builder) installed() (list []installation) {
	p, a := b.Spec.Program, b.Spec.Adapter
	if p != nil {
		list = append(list, installation{p, b.Launch.Program, hostroot.Agent, true})
	}
	if a != nil {
		list = append(list, installation{a, b.Launch.Adapter, hostroot.Adapter, false})
	}
	switch {
	case p != nil && p.Runtime != nil:
		list = append(list, installation{p.Runtime, b.Launch.Runtime, hostroot.Runtime, true})
	case a != nil && a.Runtime != nil:
		list = append(list, installation{a.Runtime, b.Launch.Runtime, hostroot.Runtime, false})
	}
	return list
}

// pinSource mounts a directory or file of the host at one of the keeper's own paths, and returns that
// path. The source's path had no symbolic link when the sandbox was created. A program that can write to
// a directory above it, for example in another sandbox, may have put a link there since. pinSource
// follows no link, and mounts exactly the file that it opened.
func (b *Builder) pinSource(source, at string) (string, error) {
	fd, kind, err := openNoLinks(source)
	switch {
	case errors.Is(err, unix.ELOOP):
		return "", spec.Errorf(spec.ErrDenied, "%s has a symbolic link in its path now, which it had not when the sandbox was created", source).
			WithHint("put the directory back, or remove the sandbox: bothy rm %s", b.Spec.Name)
	case err != nil:
		return "", spec.Errorf(spec.ErrNotFound, "workspace %s: %w", source, err).
			WithHint("put it back, or remove the sandbox: bothy rm %s", b.Spec.Name)
	}
	defer unix.Close(fd)
	switch kind {
	case unix.S_IFDIR:
		if err = b.asFound(source, fd); err == nil {
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
	if err := unix.Mount(descriptorPath(fd), at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return "", fmt.Errorf("mount %s: %w", source, err)
	}
	return at, nil
}

// asFound refuses another directory than the one that the engine found and recorded at a path.
func (b *Builder) asFound(source string, fd int) error {
	i := slices.IndexFunc(b.Launch.Mounted, func(m spec.Mounted) bool { return m.Source == source })
	if i < 0 { // not a workspace or volume of the sandbox
		return nil
	}
	id, err := hostpath.IdentityOf(fd)
	if err == nil && id != hostpath.Found(b.Launch.Mounted[i]) {
		err = spec.Errorf(spec.ErrConflict, "another directory is at %s since a moment", source).WithHint("start the sandbox again")
	}
	return err
}

// makePoints makes the mount points that are in other mounts: in the sandbox's own home, which is one of
// our directories, and for private directories. It makes no others in a workspace, which is not ours.
func (b *Builder) makePoints(list []driver.Mount) error {
	for i, m := range list {
		outer, ok := Innermost(list[:i], m.Target)
		if !ok || outer.Memory {
			continue
		}
		rel, err := filepath.Rel(outer.Target, m.Target)
		if err != nil {
			return err
		}
		private := filepath.Dir(m.Source) == filepath.Dir(b.Dir.Private(0)) && !outer.ReadOnly
		if outer.Source == b.Dir.Home() || b.isClone(outer.Source) || private {
			if err := makePoint(outer.Source, rel, isDirectory(m.Source)); err != nil {
				return (&spec.Error{Class: spec.ErrDenied, Op: "make mount point " + m.Target, Err: err}).
					WithHint("put the directory back, on the host or in the sandbox's home, or remove the sandbox: bothy rm %s", b.Spec.Name)
			}
			continue
		}
		if err := findPoint(outer.Source, rel, isDirectory(m.Source)); err != nil {
			return noPoint(m.Target, outer.Target, err)
		}
	}
	return nil
}

// isClone reports whether a directory is the sandbox's own clone of a workspace.
func (b *Builder) isClone(dir string) bool {
	for _, c := range clone.Of(b.Spec, b.Dir.Clone) {
		if c.Tree() == dir {
			return true
		}
	}
	return false
}

// SharedWithHost reports whether a mount shows files that the host or another sandbox may change.
func SharedWithHost(m driver.Mount) bool { return !m.Memory && !m.Exclusive }

// Innermost finds the deepest of the mounts above target. Of two at one place it returns the later,
// which covers the other.
func Innermost(list []driver.Mount, target string) (driver.Mount, bool) {
	var best driver.Mount
	for _, m := range list {
		if strings.HasPrefix(target, strings.TrimSuffix(m.Target, "/")+"/") && len(m.Target) >= len(best.Target) {
			best = m
		}
	}
	return best, best.Target != ""
}

func isBelow(list []driver.Mount, target string) bool {
	_, ok := Innermost(list, target)
	return ok
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
