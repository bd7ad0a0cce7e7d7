// Package cgroup limits how much of the host a sandbox may use, and reports whether the host enforces
// the limits.
//
// A Group is the set of control groups (see cgroups(7)) that the processes of one sandbox live in.
// Create makes it with limits on processors and memory and a wide cap on processes, and reports for each
// limit whether the host enforces it. A requested limit that cannot be enforced is an error; a mere
// default is only reported. The package does not guess: a limit counts as enforced once the kernel has
// accepted the number.
//
// # Where groups are made
//
// Groups are always made below a group that contains the caller, so that the limits of that group and of
// those above it still apply.
//
//   - cgroup v1: in each hierarchy, below the caller's own group.
//   - cgroup v2: below the nearest group, from the caller's own upward, that the caller may write to and
//     that can hand on the controllers. A group other than the root cannot do so while it directly
//     contains processes, so the caller's own is used only if the caller is alone there, and the caller
//     then moves into a leaf of its own next to the sandboxes.
//   - hybrid: each controller in the hierarchy that has it.
//
// On v2 the group is in a directory "bothy.<uid>", the pin. It hands the controllers on once more. This
// keeps other managers of the same tree (systemd) from taking a controller away above a running sandbox:
// the kernel refuses while a child hands it on.
//
// A group is named "bothy-<id>" after its sandbox. So the leftover of a crash can be found, and nothing
// else is ever removed.
package cgroup

import (
	"path/filepath"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// Group is the set of control groups of one sandbox: one directory on cgroup v2, up to one for each
// controller on v1, none if the host does not allow it. The methods of a Group without directories do
// nothing and return no data.
//
// The process that created it need not be the one that uses it: see Open.
type Group struct {
	host *host
	dirs []string
}

// Create makes the group of the sandbox with this id (12 hex digits) and sets its limits. The user
// relies on a limit in asked: if the host cannot enforce it, nothing is created and the error, of class
// spec.ErrSandbox, tells what to do. If asked is zero, def counts, and a limit that cannot be enforced
// is only reported. This package does not limit the disk. Pids only sets the host-side cap on processes,
// which is a multiple of it: gVisor itself enforces the limit.
//
// The returned list has one entry for each limit on processors and memory that is set. An enforced entry
// with a reason has a way around the limit (swap that cannot be counted).
//
// An empty group of the same id, left behind by a crash, is replaced. If processes still live in it, the
// error is a spec.ErrConflict; Kill solves it.
//
// Before Create makes anything, it passes to note what to remove if the caller dies in the middle: a
// Path with at least the group's own directories. If note fails, nothing is made.
//
// On cgroup v2 the calling process may be moved into a leaf next to the sandboxes. That requires that it
// is alone in its group, so it should call Create before it starts children.
func Create(id string, asked, def spec.Limits, note func(path string) error) (*Group, []spec.Enforcement, error) {
	return thisHost().create(id, asked, def, note)
}

// Check returns an error if [Create] would find no place for a requested limit. It changes nothing. The
// kernel may still refuse a number.
func Check(asked spec.Limits) error { return thisHost().checkLimits(asked) }

// Open returns the group that Path described. It touches nothing and cannot fail. If the group is gone,
// its methods return errors.
func Open(path string) *Group {
	return &Group{host: thisHost(), dirs: splitDirs(path)}
}

// Path names everything to remove once the sandbox is gone: the group's directories joined by ":". On
// cgroup v2 it is one directory. It is empty if there are none.
func (g *Group) Path() string { return joinDirs(g.dirs) }

func joinDirs(dirs []string) string { return strings.Join(dirs, ":") }

// splitDirs reverses joinDirs. A colon alone does not separate two directories, since names on the way may
// contain one; all of them end in the same name.
func splitDirs(path string) []string {
	if path == "" {
		return nil
	}
	name := filepath.Base(path)
	dirs := strings.Split(path+":", "/"+name+":")
	dirs = dirs[:len(dirs)-1]
	for i := range dirs {
		dirs[i] += "/" + name
	}
	if joinDirs(dirs) != path {
		return []string{path} // damaged; callers that act on it refuse it
	}
	return dirs
}
