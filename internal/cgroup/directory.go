package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

const (
	prefix     = "bothy-"       // of a sandbox's group
	pinPrefix  = "bothy."       // of the directory that holds them on v2; the user id follows
	callerName = "bothy.caller" // the leaf the caller moves to
)

// pause is the interval between checks whether processes have ended.
const pause = 10 * time.Millisecond

// isName reports whether a directory's name is that of a sandbox's group: "bothy-" and 12 hex digits.
func isName(name string) bool {
	id, ok := strings.CutPrefix(name, prefix)
	return ok && len(id) == 12 && strings.Trim(id, "0123456789abcdef") == ""
}

// groupHome returns the directory in which the group is made.
func (h *host) groupHome(p place) string {
	if p.version == 2 {
		return filepath.Join(p.parent, pinPrefix+strconv.Itoa(h.uid))
	}
	return p.parent
}

// makeDir creates a sandbox's directory, and on v2 its home. The home disappears when
// another caller removes the last group in it, so this may take more than one attempt.
// Afterwards the new group keeps it.
func (h *host) makeDir(p place, dir string) error {
	if p.version == 1 {
		return h.makeFresh(dir)
	}
	if p.vacate {
		if err := h.leaveGroup(p.parent); err != nil {
			return err
		}
	}
	var err error
	for range 5 {
		if err = h.ensure(h.groupHome(p)); err != nil {
			return err
		}
		if err = h.makeFresh(dir); !vanished(err) {
			break
		}
	}
	if err != nil {
		h.tidyAround(dir)
	}
	return err
}

// ensure creates a group unless it exists.
func (h *host) ensure(dir string) error {
	if err := h.kernel.mkdir(dir); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("create cgroup %s: %w", dir, withoutPath(err))
	}
	return nil
}

// handOn makes a controller available in the home of a place.
func (h *host) handOn(p place, controller string) error {
	if p.version == 1 {
		return nil
	}
	if err := h.enable(p.parent, controller); err != nil {
		return err
	}
	return h.enable(h.groupHome(p), controller)
}

// leaveGroup moves the calling process out of a group into a leaf below it.
func (h *host) leaveGroup(dir string) error {
	leaf := filepath.Join(dir, callerName)
	if err := h.ensure(leaf); err != nil {
		return err
	}
	if err := h.kernel.write(filepath.Join(leaf, "cgroup.procs"), strconv.Itoa(h.pid)); err != nil {
		return fmt.Errorf("move to cgroup %s: %w", leaf, withoutPath(err))
	}
	return nil
}

// enable makes a group hand on a controller, unless it does so already.
func (h *host) enable(dir, controller string) error {
	if slices.Contains(fields(dir, "cgroup.subtree_control"), controller) {
		return nil
	}
	err := h.kernel.write(filepath.Join(dir, "cgroup.subtree_control"), "+"+controller)
	if err != nil {
		return fmt.Errorf("hand on the %s controller from cgroup %s: %w", controller, dir, withoutPath(err))
	}
	return nil
}

// vanished reports whether an error means that the group was removed.
func vanished(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV)
}

// makeFresh creates a sandbox's directory, and replaces an empty one.
func (h *host) makeFresh(dir string) error {
	err := h.removeTree(dir, time.Now().Add(h.patience))
	if errors.Is(err, unix.EBUSY) {
		return spec.Errorf(spec.ErrConflict, "create cgroup %s: processes of an earlier run still live in it", dir).
			WithHint("stop the sandbox first; if it is not running, end the processes listed in %s", filepath.Join(dir, "cgroup.procs"))
	}
	if err == nil {
		err = h.kernel.mkdir(dir)
	}
	if err != nil {
		return fmt.Errorf("create cgroup %s: %w", dir, withoutPath(err))
	}
	if err := h.inheritCPUSet(dir); err != nil {
		h.kernel.rmdir(dir) //nolint:errcheck // the other error is more useful
		return err
	}
	return nil
}

// inheritCPUSet fills the cpuset files of a new v1 group, if its hierarchy also carries cpuset. They are
// empty at first, and then no process may enter.
func (h *host) inheritCPUSet(dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
		if err != nil || len(fields(dir, file)) > 0 || isV2(dir) {
			continue
		}
		if err := h.kernel.write(filepath.Join(dir, file), strings.TrimSpace(string(value))); err != nil {
			return fmt.Errorf("set %s of cgroup %s: %w", file, dir, withoutPath(err))
		}
	}
	return nil
}

func isV2(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cgroup.controllers"))
	return err == nil
}

// remove removes a group, and on v2 also its home if that is then empty.
func (h *host) remove(dir string, deadline time.Time) error {
	if err := h.removeTree(dir, deadline); err != nil {
		return fmt.Errorf("remove cgroup %s: %w", dir, withoutPath(err))
	}
	h.tidyAround(dir)
	return nil
}

// removeTree removes a group and the groups below it. It waits until the deadline for processes that are
// about to end. A missing group counts as removed.
func (h *host) removeTree(dir string, deadline time.Time) error {
	for {
		err := h.removeOnce(dir)
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(pause)
	}
}

func (h *host) removeOnce(dir string) error {
	for _, child := range children(dir) {
		if err := h.removeOnce(child); err != nil {
			return err
		}
	}
	if err := h.kernel.rmdir(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// children lists the groups directly below a group.
func children(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var dirs []string
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, filepath.Join(dir, e.Name()))
		}
	}
	return dirs
}

// tidyAround removes the directories around the last group on v2.
func (h *host) tidyAround(dir string) {
	home := filepath.Dir(dir)
	if !strings.HasPrefix(filepath.Base(home), pinPrefix) {
		return
	}
	if h.kernel.rmdir(home) == nil {
		h.kernel.rmdir(filepath.Join(filepath.Dir(home), callerName)) //nolint:errcheck // it may not be empty
	}
}

// withoutPath removes the path from an error that names it already.
func withoutPath(err error) error {
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
