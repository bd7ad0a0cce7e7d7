package cgroup

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// callerPID is the process that calls Create on a fake host.
const callerPID = 4242

// fake is a machine in a temporary directory. It behaves like the kernel: new groups get their control
// files, processes move, and the rules of cgroup v2 on delegation and inner processes apply.
type fake struct {
	t       *testing.T
	root    string
	uid     int
	tops    map[string]*hierarchy // by mount point
	foreign map[string]bool       // groups that belong to another user
	refuse  map[string]error      // by name of a control file: the error of a write
	onMkdir func(dir string)      // runs before a group is made
}

type hierarchy struct {
	version     int
	controllers []string
	readOnly    bool
	namespaced  bool // the top is the root of a namespace, not the real one
}

var _ kernel = (*fake)(nil)

func newFake(t *testing.T) *fake {
	f := &fake{
		t: t, root: t.TempDir(),
		tops:    make(map[string]*hierarchy),
		foreign: make(map[string]bool),
		refuse:  make(map[string]error),
	}
	f.file("proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/vda rw\n")
	f.file("proc/self/cgroup", "")
	f.file("proc/swaps", "Filename Type Size Used Priority\n")
	return f
}

func (f *fake) host() *host {
	return &host{proc: f.path("proc"), kernel: f, pid: callerPID, uid: f.uid, patience: 50 * time.Millisecond}
}

func (f *fake) path(rel string) string { return filepath.Join(f.root, rel) }

// rel removes the temporary directory from a path or a report.
func (f *fake) rel(s string) string {
	return strings.ReplaceAll(s, f.root+"/", "")
}

func (f *fake) file(rel, content string) {
	f.t.Helper()
	path := f.path(rel)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(content); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) read(rel string) string {
	f.t.Helper()
	data, err := os.ReadFile(f.path(rel))
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// v1 mounts a hierarchy with the caller in a group of it.
func (f *fake) v1(controllers, own string) {
	f.t.Helper()
	top := f.path("cg/" + controllers)
	f.tops[top] = &hierarchy{version: 1, controllers: strings.Split(controllers, ",")}
	f.file("proc/self/mountinfo", fmt.Sprintf("2 1 0:2 / %s rw - cgroup cgroup rw,%s\n", top, controllers))
	f.file("proc/self/cgroup", fmt.Sprintf("4:%s:%s\n", controllers, own))
	f.enter(top, own)
}

// v2 mounts the unified hierarchy with the caller in a group of it. The groups above it
// hand on all controllers.
func (f *fake) v2(controllers, own string) string {
	f.t.Helper()
	top := f.path("cg/unified")
	f.tops[top] = &hierarchy{version: 2, controllers: strings.Fields(controllers)}
	f.file("proc/self/mountinfo", fmt.Sprintf("3 1 0:3 / %s rw - cgroup2 cgroup2 rw,nsdelegate\n", top))
	f.file("proc/self/cgroup", "0::"+own+"\n")
	f.enter(top, own)
	return top
}

// namespace makes a hierarchy look as it does inside a container.
func (f *fake) namespace(top string) {
	f.tops[top].namespaced = true
	f.file(f.rel(top)+"/cgroup.type", "domain\n")
}

func (f *fake) enter(top, own string) {
	f.t.Helper()
	if err := os.MkdirAll(top, 0o755); err != nil {
		f.t.Fatal(err)
	}
	f.populate(top)
	dir := top
	for name := range strings.SplitSeq(strings.Trim(own, "/"), "/") {
		if name == "" {
			break
		}
		if f.tops[top].version == 2 {
			f.put(dir, "cgroup.subtree_control", strings.Join(fields(dir, "cgroup.controllers"), " "))
		}
		dir = filepath.Join(dir, name)
		if err := f.mkdir(dir); err != nil {
			f.t.Fatal(err)
		}
	}
	f.addPID(dir, callerPID)
}

// ordinaryUser makes the caller own only the given group and everything below it.
func (f *fake) ordinaryUser(owned string) {
	f.uid = 1000
	for top := range f.tops {
		filepath.WalkDir(top, func(path string, e os.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				if _, below := within(path, f.path(owned)); owned == "" || !below {
					f.foreign[path] = true
				}
			}
			return nil
		})
	}
}

func (f *fake) hierarchy(path string) (top string, h *hierarchy) {
	for top, h := range f.tops {
		if _, ok := within(path, top); ok {
			return top, h
		}
	}
	f.t.Fatalf("%s is outside all cgroup mounts and was to be changed", path)
	return "", nil
}

var controlFiles = map[int]map[string]map[string]string{
	1: {
		"": {"cgroup.procs": "", "tasks": ""},
		"cpu": {
			"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "-1",
		},
		"memory": {
			"memory.usage_in_bytes": "0", "memory.limit_in_bytes": "9223372036854771712",
			"memory.memsw.limit_in_bytes": "9223372036854771712",
			"memory.stat":                 "cache 0\ntotal_inactive_file 0\n",
			"memory.oom_control":          "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
		},
		"pids":   {"pids.max": "max", "pids.events": "max 0\n"},
		"cpuset": {"cpuset.cpus": "", "cpuset.mems": ""},
	},
	2: {
		"": {
			"cgroup.procs": "", "cgroup.subtree_control": "", "cgroup.kill": "",
			"cgroup.type": "domain",
		},
		"cpu": {"cpu.max": "max 100000"},
		"memory": {
			"memory.current": "0", "memory.max": "max", "memory.swap.max": "max",
			"memory.stat": "anon 0\ninactive_file 0\n", "memory.events": "low 0\noom 0\noom_kill 0\n",
		},
		"pids": {"pids.max": "max", "pids.events": "max 0\n"},
	},
}

// populate gives a new group its control files.
func (f *fake) populate(dir string) {
	top, h := f.hierarchy(dir)
	controllers := h.controllers
	if h.version == 2 {
		if dir != top {
			controllers = fields(filepath.Dir(dir), "cgroup.subtree_control")
		}
		f.put(dir, "cgroup.controllers", strings.Join(controllers, " "))
	}
	for _, c := range append([]string{""}, controllers...) {
		f.equip(dir, h.version, c)
	}
	if dir == top && h.version == 2 {
		os.Remove(filepath.Join(dir, "cgroup.type"))
	}
}

func (f *fake) equip(dir string, version int, controller string) {
	for file, content := range controlFiles[version][controller] {
		f.put(dir, file, content)
	}
}

func (f *fake) put(dir, file, content string) {
	if content != "" {
		content = strings.TrimSuffix(content, "\n") + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) addPID(dir string, pid int) {
	f.file(f.rel(dir)+"/cgroup.procs", strconv.Itoa(pid)+"\n")
}

func (f *fake) access(path string) error {
	top, h := f.hierarchy(path)
	switch {
	case h.readOnly:
		return unix.EROFS
	case f.foreign[path] || f.foreign[filepath.Dir(path)] && path != top && !isDir(path):
		return unix.EACCES
	}
	_, err := os.Stat(path)
	return err
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (f *fake) mkdir(dir string) error {
	if f.onMkdir != nil {
		f.onMkdir(dir)
	}
	if err := f.access(filepath.Dir(dir)); err != nil {
		return &os.PathError{Op: "mkdir", Path: dir, Err: err}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	f.populate(dir)
	return nil
}

func (f *fake) rmdir(dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return err
	}
	if err := f.access(filepath.Dir(dir)); err != nil {
		return &os.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	if len(fields(dir, "cgroup.procs")) > 0 || len(children(dir)) > 0 {
		return &os.PathError{Op: "rmdir", Path: dir, Err: unix.EBUSY}
	}
	return os.RemoveAll(dir)
}

func (f *fake) write(file, value string) error {
	if err := f.change(file, value); err != nil {
		return &os.PathError{Op: "write", Path: file, Err: err}
	}
	return nil
}

func (f *fake) change(file, value string) error {
	dir, name := filepath.Split(file)
	dir = filepath.Clean(dir)
	if err := f.access(file); err != nil {
		return err
	}
	if err := f.refuse[name]; err != nil {
		return err
	}
	switch name {
	case "cgroup.procs":
		return f.move(dir, value)
	case "cgroup.subtree_control":
		return f.control(dir, value)
	case "cgroup.kill":
		return f.killTree(dir)
	case "cpu.cfs_quota_us":
		if n, _ := strconv.ParseFloat(value, 64); n/100_000 > outerQuota(dir) {
			return unix.EINVAL
		}
	}
	f.put(dir, name, value)
	return nil
}

func (f *fake) move(dir, pid string) error {
	top, h := f.hierarchy(dir)
	from := f.groupOf(top, pid)
	if h.version == 2 {
		common := dir
		for _, below := within(from, common); !below; _, below = within(from, common) {
			common = filepath.Dir(common)
		}
		if err := f.access(filepath.Join(common, "cgroup.procs")); err != nil {
			return err
		}
		if dir != top && len(fields(dir, "cgroup.subtree_control")) > 0 {
			return unix.EBUSY
		}
	}
	if h.version == 2 && pid == strconv.Itoa(callerPID) {
		f.standIn(top, dir)
	}
	rest := slices.DeleteFunc(fields(from, "cgroup.procs"), func(s string) bool { return s == pid })
	f.put(from, "cgroup.procs", strings.Join(rest, "\n"))
	f.put(dir, "cgroup.procs", strings.Join(append(fields(dir, "cgroup.procs"), pid), "\n"))
	return nil
}

// standIn makes the caller see itself in another group of cgroup v2.
func (f *fake) standIn(top, dir string) {
	group, _ := within(dir, top)
	var lines []string
	for line := range strings.Lines(f.read("proc/self/cgroup") + "\n") {
		if strings.HasPrefix(line, "0::") {
			line = "0::/" + strings.TrimPrefix(group, "/") + "\n"
		}
		lines = append(lines, line)
	}
	f.put(f.path("proc/self"), "cgroup", strings.Join(lines, ""))
}

// groupOf returns the group of a process: the top one unless it was moved.
func (f *fake) groupOf(top, pid string) string {
	found := top
	filepath.WalkDir(top, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.IsDir() && slices.Contains(fields(path, "cgroup.procs"), pid) {
			found = path
		}
		return nil
	})
	return found
}

func (f *fake) control(dir, value string) error {
	name := strings.TrimPrefix(value, "+")
	top, h := f.hierarchy(dir)
	switch {
	case !slices.Contains(fields(dir, "cgroup.controllers"), name):
		return unix.ENOENT
	case (dir != top || h.namespaced) && len(fields(dir, "cgroup.procs")) > 0:
		return unix.EBUSY
	}
	enabled := append(fields(dir, "cgroup.subtree_control"), name)
	f.put(dir, "cgroup.subtree_control", strings.Join(enabled, " "))
	for _, child := range children(dir) {
		f.put(child, "cgroup.controllers", strings.Join(enabled, " "))
		f.equip(child, 2, name)
	}
	return nil
}

func (f *fake) killTree(dir string) error {
	f.put(dir, "cgroup.procs", "")
	for _, child := range children(dir) {
		f.killTree(child)
	}
	return nil
}

// kill removes processes from all v1 hierarchies.
func (f *fake) kill(pids []int, members func() ([]int, error)) error {
	still, err := members()
	for _, pid := range pids {
		if !slices.Contains(still, pid) {
			return errors.New("kill of a process that is not a member")
		}
		for _, top := range slices.Sorted(maps.Keys(f.tops)) {
			dir := f.groupOf(top, strconv.Itoa(pid))
			rest := slices.DeleteFunc(fields(dir, "cgroup.procs"), func(s string) bool { return s == strconv.Itoa(pid) })
			f.put(dir, "cgroup.procs", strings.Join(rest, "\n"))
		}
	}
	return err
}
