package cgroup

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Events counts the effects of a group's limits on its processes since it was made.
type Events struct {
	OOMKills   int64 // processes killed by the kernel for lack of memory
	PidsDenied int64 // attempts to start a process beyond the host-side cap
}

// Add moves a process into the group. Children that it starts later are in the group; earlier ones stay
// where they are.
func (g *Group) Add(pid int) error {
	for _, dir := range g.dirs {
		err := g.host.kernel.write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid))
		if err != nil {
			return fmt.Errorf("move process %d into cgroup %s: %w", pid, dir, withoutPath(err))
		}
	}
	return nil
}

// Memory returns, in bytes, the memory use and the limit of the group's processes. It does not count
// pages of files on a disk, because they never make the group run out of memory. The kernel drops them
// at once, or after they are written; until then it counts them as active. A limit of zero means that
// none is set, or that the host does not count memory.
func (g *Group) Memory() (current, limit int64, err error) {
	dir, m := g.memory()
	if dir == "" {
		return 0, 0, g.checkGone()
	}
	if limit, err = readNumber(dir, m.bound); err != nil {
		return 0, 0, fmt.Errorf("read memory of cgroup %s: %w", dir, withoutPath(err))
	}
	if limit < 0 || limit > math.MaxInt64/2 { // v1 writes "none" as a huge number
		limit = 0
	}
	current, err = g.Taken(-1)
	return current, limit, err
}

// Taken is the first result of Memory. If the use is at most enough even with all droppable pages, it
// returns the sum of both, because the kernel takes far longer to find out what can be dropped.
func (g *Group) Taken(enough int64) (int64, error) {
	dir, m := g.memory()
	if dir == "" {
		return 0, g.checkGone()
	}
	current, err := readNumber(dir, m.usage)
	if err == nil && current <= enough {
		return current, nil
	}
	var stat map[string]int64
	if err == nil {
		stat, err = readCounts(dir, "memory.stat")
	}
	if err != nil {
		return 0, fmt.Errorf("read memory of cgroup %s: %w", dir, withoutPath(err))
	}
	for _, name := range m.droppable {
		current -= stat[name]
	}
	return max(current, 0), nil
}

// memoryNames are the file and field names of a cgroup version's memory counts. Shared memory is not
// droppable, because no file exists to which it can be written.
type memoryNames struct {
	usage, bound string
	droppable    [2]string
}

// memory finds the directory that counts memory, or "".
func (g *Group) memory() (dir string, m memoryNames) {
	for _, m := range []memoryNames{
		{"memory.current", "memory.max", [2]string{"inactive_file", "active_file"}},
		{"memory.usage_in_bytes", "memory.limit_in_bytes", [2]string{"total_inactive_file", "total_active_file"}},
	} {
		if dir := g.dirWith(m.usage); dir != "" {
			return dir, m
		}
	}
	return "", memoryNames{}
}

// Events reads the counters. It works until the group is removed, even after all its processes have
// ended.
func (g *Group) Events() (Events, error) {
	var e Events
	for _, c := range []struct {
		file, key string
		to        *int64
	}{
		{"memory.events", "oom_kill", &e.OOMKills},
		{"memory.oom_control", "oom_kill", &e.OOMKills},
		{"pids.events", "max", &e.PidsDenied},
	} {
		dir := g.dirWith(c.file)
		if dir == "" {
			continue
		}
		counts, err := readCounts(dir, c.file)
		if err != nil {
			return Events{}, fmt.Errorf("read events of cgroup %s: %w", dir, withoutPath(err))
		}
		*c.to = counts[c.key]
	}
	return e, g.checkGone()
}

// Procs lists the processes in the group, in ascending order. Processes that are not visible in the
// caller's process namespace are left out.
func (g *Group) Procs() ([]int, error) {
	var all []int
	for _, dir := range g.dirs {
		pids, err := readPidsBelow(dir)
		if err != nil {
			return nil, fmt.Errorf("list processes of cgroup %s: %w", dir, withoutPath(err))
		}
		all = append(all, pids...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(pid int) bool { return pid == 0 }), nil
}

// dirWith finds the directory that has a control file.
func (g *Group) dirWith(file string) string {
	for _, dir := range g.dirs {
		if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
			return dir
		}
	}
	return ""
}

// checkGone reports a directory that no longer exists.
func (g *Group) checkGone() error {
	for _, dir := range g.dirs {
		if _, err := os.Stat(dir); err != nil {
			return fmt.Errorf("find cgroup %s: %w", dir, withoutPath(err))
		}
	}
	return nil
}

// readPidsBelow lists the processes of a group and of all groups below it.
func readPidsBelow(dir string) ([]int, error) {
	pids, err := readPids(dir)
	if vanished(err) {
		return nil, nil
	}
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) { // a threaded group; its parent lists them
		return nil, err
	}
	for _, child := range children(dir) {
		more, err := readPidsBelow(child)
		if err != nil {
			return nil, err
		}
		pids = append(pids, more...)
	}
	return pids, nil
}

// readPids lists the processes directly in a group. A process that is invisible to the
// caller is listed as 0.
func readPids(dir string) ([]int, error) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var pids []int
	for word := range strings.FieldsSeq(string(data)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// readCounts reads a control file of lines "name number". It skips other lines.
func readCounts(dir, file string) (map[string]int64, error) {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return nil, err
	}
	counts := make(map[string]int64)
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			counts[name] = n
		}
	}
	return counts, nil
}
