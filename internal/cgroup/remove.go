package cgroup

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// killPatience is how long killed processes may take to end. A process with much memory needs some time.
const killPatience = 5 * time.Second

// Remove removes the group's directories. See the function Remove.
func (g *Group) Remove() error { return g.host.removePath(g.Path()) }

// Remove removes the directories that Group.Path named. It ends no process: while one lives in the
// group, the removal fails with EBUSY, after waiting up to a second. A missing directory is not an
// error. It rejects anything that is not the group of a sandbox before it touches anything, since the
// path may come from a damaged file.
func Remove(path string) error { return thisHost().removePath(path) }

// Kill ends all processes in the group that Group.Path named, with SIGKILL, and waits for them to end.
// It is for cleaning up after a crash: the caller must not be in the group. It rejects the same paths as
// Remove.
func Kill(path string) error { return thisHost().killPath(path) }

func (h *host) removePath(path string) error {
	dirs, err := h.checkPath(path)
	if err != nil {
		return fmt.Errorf("remove cgroup: %w", err)
	}
	if len(dirs) == 0 {
		return nil
	}
	var errs []error
	deadline := time.Now().Add(h.patience)
	for _, dir := range dirs {
		errs = append(errs, h.remove(dir, deadline))
	}
	return errors.Join(errs...)
}

func (h *host) killPath(path string) error {
	dirs, err := h.checkPath(path)
	if err != nil {
		return fmt.Errorf("kill cgroup: %w", err)
	}
	g := &Group{host: h, dirs: dirs}
	pids, err := g.Procs()
	if err != nil {
		return err
	}
	if slices.Contains(pids, h.pid) {
		return fmt.Errorf("kill cgroup %s: the caller is in it", path)
	}
	deadline := time.Now().Add(killPatience)
	for len(pids) > 0 {
		if time.Now().After(deadline) {
			return fmt.Errorf("kill cgroup %s: processes %v do not end", path, pids)
		}
		if err := g.killOnce(pids); err != nil {
			return fmt.Errorf("kill cgroup %s: %w", path, err)
		}
		time.Sleep(pause)
		if pids, err = g.Procs(); err != nil {
			return err
		}
	}
	return nil
}

// killOnce uses cgroup.kill, which no process escapes. On kernels without it, it first
// forbids new processes, so that a few rounds suffice.
func (g *Group) killOnce(pids []int) error {
	byKernel := false
	for _, dir := range g.dirs {
		if g.host.kernel.write(filepath.Join(dir, "cgroup.kill"), "1") == nil {
			byKernel = true
			continue
		}
		g.host.kernel.write(filepath.Join(dir, "pids.max"), "0") //nolint:errcheck // only one of several directories has it
	}
	if byKernel && len(g.dirs) == 1 {
		return nil
	}
	return g.host.kernel.kill(pids, g.Procs)
}

// checkPath splits a path and makes sure that each directory can only be the group of a sandbox.
func (h *host) checkPath(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	mounts, err := h.mounts()
	if err != nil {
		return nil, err
	}
	v := view{mounts: mounts}
	dirs := splitDirs(path)
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || strings.ContainsRune(dir, 0) {
			return nil, fmt.Errorf("%q is not a clean absolute path", dir)
		}
		if !isName(filepath.Base(dir)) {
			return nil, fmt.Errorf("%q is not the cgroup of a sandbox", dir)
		}
		kind := v.mountOver(dir).kind
		if kind != "cgroup" && kind != "cgroup2" {
			return nil, fmt.Errorf("%q is not in a cgroup file system: %w", dir, unix.EINVAL)
		}
	}
	return dirs, nil
}
