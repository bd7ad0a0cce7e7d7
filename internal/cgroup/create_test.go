package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

const testID = "0123456789ab"

var all = spec.Limits{CPUs: 1.5, Memory: 512 << 20, Pids: 100}

// Typical kinds of hosts.

func v1Root(f *fake) {
	f.v1("cpu,cpuacct", "/")
	f.v1("memory", "/session/one")
	f.v1("pids", "/system.slice/dbus-:1.2-org.example@0.service")
}

func v1User(f *fake) {
	v1Root(f)
	f.ordinaryUser("")
}

// v2Session is a login shell of root under systemd.
func v2Session(f *fake) {
	top := f.v2("cpuset cpu io memory pids", "/user.slice/user-0.slice/session-3.scope")
	f.addPID(filepath.Join(top, "user.slice/user-0.slice/session-3.scope"), 1111)
}

// v2Plain is a machine without systemd: everything runs in the root group.
func v2Plain(f *fake) {
	top := f.v2("cpu memory pids", "/")
	f.addPID(top, 1111)
}

const userSlice = "/user.slice/user-1000.slice/user@1000.service/app.slice"

// v2Terminal is a shell in a desktop session of an ordinary user.
func v2Terminal(f *fake) {
	top := f.v2("cpu memory pids", userSlice+"/term.scope")
	f.addPID(filepath.Join(top, userSlice, "term.scope"), 1111)
	f.ordinaryUser("cg/unified/user.slice/user-1000.slice/user@1000.service")
}

// v2Scope is a delegated scope of the system manager, with only the caller in it.
func v2Scope(f *fake) {
	f.v2("cpu memory pids", "/system.slice/run-1.scope")
	f.ordinaryUser("cg/unified/system.slice/run-1.scope")
}

// v2CrowdedScope is v2Scope with a shell next to the caller.
func v2CrowdedScope(f *fake) {
	v2Scope(f)
	f.addPID(f.path("cg/unified/system.slice/run-1.scope"), 1111)
}

// v2Login is a login over ssh: the session belongs to root.
func v2Login(f *fake) {
	f.v2("cpu memory pids", "/user.slice/user-1000.slice/session-3.scope")
	f.ordinaryUser("")
}

// v2WithoutCPU is a systemd that does not delegate the cpu controller.
func v2WithoutCPU(f *fake) {
	v2Terminal(f)
	dir := f.path("cg/unified/user.slice/user-1000.slice/user@1000.service")
	f.put(filepath.Dir(dir), "cgroup.subtree_control", "memory pids")
	for _, d := range []string{dir, filepath.Join(dir, "app.slice"), filepath.Join(dir, "app.slice/term.scope")} {
		f.put(d, "cgroup.controllers", "memory pids")
		os.Remove(filepath.Join(d, "cpu.max"))
	}
	f.put(dir, "cgroup.subtree_control", "memory pids")
	f.put(filepath.Join(dir, "app.slice"), "cgroup.subtree_control", "memory")
}

func v2Container(f *fake) {
	top := f.v2("cpu memory pids", "/")
	f.namespace(top)
	f.addPID(top, 1)
}

func v2ReadOnly(f *fake) {
	v2Container(f)
	f.tops[f.path("cg/unified")].readOnly = true
}

// v2NoMemory is a kernel with its memory controller disabled.
func v2NoMemory(f *fake) { f.v2("cpu pids", "/") }

// hybrid has most controllers on v1, and the rest on v2.
func hybrid(f *fake) {
	f.v1("cpu", "/")
	f.v2("memory pids", "/")
}

// emptyUnified has all controllers on v1 and an unused v2 mount.
func emptyUnified(f *fake) {
	v1Root(f)
	f.v2("hugetlb", "/")
}

func none(*fake) {}

func unmounted(f *fake) { f.file("proc/self/cgroup", "4:memory:/\n0::/\n") }

func TestCreate(t *testing.T) {
	const (
		group = "/bothy-" + testID
		v1    = "cgroup v1"
		v2    = "cgroup v2"
	)
	tests := []struct {
		name    string
		machine func(*fake)
		path    string // of the group, directories in order of cpu, memory, pids
		by      map[string]string
		reason  string // of each limit that is not enforced
		fix     string
	}{
		{
			name: "v1 as root", machine: v1Root,
			path: "cg/cpu,cpuacct" + group + ":cg/memory/session/one" + group +
				":cg/pids/system.slice/dbus-:1.2-org.example@0.service" + group,
			by: map[string]string{"cpus": v1, "memory": v1},
		},
		{
			name: "v1 as an ordinary user", machine: v1User,
			reason: "is not delegated to this user", fix: "boot with cgroup v2",
		},
		{
			name: "v2 root login", machine: v2Session,
			path: "cg/unified/user.slice/user-0.slice/bothy.0" + group,
			by:   map[string]string{"cpus": v2, "memory": v2},
		},
		{
			name: "v2 without systemd", machine: v2Plain,
			path: "cg/unified/bothy.0" + group,
			by:   map[string]string{"cpus": v2, "memory": v2},
		},
		{
			name: "v2 terminal of a user", machine: v2Terminal,
			path: "cg/unified" + userSlice + "/bothy.1000" + group,
			by:   map[string]string{"cpus": v2, "memory": v2},
		},
		{
			name: "v2 delegated scope", machine: v2Scope,
			path: "cg/unified/system.slice/run-1.scope/bothy.1000" + group,
			by:   map[string]string{"cpus": v2, "memory": v2},
		},
		{
			name: "v2 delegated scope with others in it", machine: v2CrowdedScope,
			reason: "holds other processes", fix: "systemd-run --user --scope",
		},
		{
			name: "v2 ssh login of a user", machine: v2Login,
			reason: "is not delegated to this user", fix: "systemd-run --user --scope -p Delegate=yes bothy",
		},
		{
			name: "v2 user without cpu", machine: v2WithoutCPU,
			path:   "cg/unified" + userSlice + "/bothy.1000" + group,
			by:     map[string]string{"memory": v2},
			reason: "the cpu controller is not delegated", fix: "systemctl edit user@.service",
		},
		{
			name: "v2 container with others in its root", machine: v2Container,
			reason: "holds other processes", fix: "in a container",
		},
		{
			name: "v2 read-only", machine: v2ReadOnly,
			reason: "mounted read-only", fix: "writable",
		},
		{
			name: "v2 kernel without memory", machine: v2NoMemory,
			path:   "cg/unified/bothy.0" + group,
			by:     map[string]string{"cpus": v2},
			reason: "the kernel offers no memory controller", fix: "cgroup_enable=memory",
		},
		{
			name: "hybrid", machine: hybrid,
			path: "cg/cpu" + group + ":cg/unified/bothy.0" + group,
			by:   map[string]string{"cpus": v1, "memory": v2},
		},
		{
			name: "hybrid with an empty v2", machine: emptyUnified,
			path: "cg/cpu,cpuacct" + group + ":cg/memory/session/one" + group +
				":cg/pids/system.slice/dbus-:1.2-org.example@0.service" + group,
			by: map[string]string{"cpus": v1, "memory": v1},
		},
		{name: "none", machine: none, reason: "no cgroup file system is mounted", fix: "mount"},
		{name: "not mounted", machine: unmounted, reason: "no cgroup file system is mounted", fix: "mount"},
	}
	for _, tt := range tests {
		t.Run(tt.name+"/default", func(t *testing.T) {
			f := newFake(t)
			tt.machine(f)
			g, report, err := f.host().create(testID, spec.Limits{}, all, unnoted)
			if err != nil {
				t.Fatal(err)
			}
			if got := f.rel(g.Path()); got != tt.path {
				t.Errorf("path\n got %s\nwant %s", got, tt.path)
			}
			checkReport(t, report, tt.by, tt.reason)
			checkLimits(t, g, tt.by)
			checkUse(t, f, g)
		})
		t.Run(tt.name+"/asked", func(t *testing.T) {
			f := newFake(t)
			tt.machine(f)
			known := f.host().checkLimits(all)
			if left := f.leftovers(); len(left) > 0 {
				t.Errorf("looking created %v", left)
			}
			g, report, err := f.host().create(testID, all, spec.Limits{}, unnoted)
			if (known == nil) != (err == nil) || err != nil && known.Error() != err.Error() {
				t.Errorf("known before is %v, and then %v", known, err)
			}
			if len(tt.by) == 2 {
				if err != nil {
					t.Fatal(err)
				}
				checkReport(t, report, tt.by, "")
				checkLimits(t, g, tt.by)
				return
			}
			if !errors.Is(err, spec.ErrSandbox) || !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("error %v, want one of class ErrSandbox with %q", err, tt.reason)
			}
			if hint := spec.Hint(err); !strings.Contains(hint, tt.fix) {
				t.Errorf("hint %q lacks %q", hint, tt.fix)
			}
			if left := f.leftovers(); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
		t.Run(tt.name+"/support", func(t *testing.T) {
			f := newFake(t)
			tt.machine(f)
			for _, c := range f.host().support() {
				limit := map[string]string{"cpu": "cpus", "memory": "memory"}[c.Name]
				if limit != "" && c.By != tt.by[limit] {
					t.Errorf("%s by %q, want %q", c.Name, c.By, tt.by[limit])
				}
				if c.Enforceable == (c.Reason != "") || c.Enforceable == (c.Fix != "") {
					t.Errorf("%s: enforceable, or a reason and a fix: %+v", c.Name, c)
				}
			}
			if left := f.leftovers(); len(left) > 0 {
				t.Errorf("looking created %v", left)
			}
		})
	}
}

func checkReport(t *testing.T, report []spec.Enforcement, by map[string]string, reason string) {
	t.Helper()
	if len(report) != 2 || report[0].Limit != "cpus" || report[1].Limit != "memory" {
		t.Fatalf("report %+v, want entries for cpus and memory", report)
	}
	if report[0].Value != "1.5" || report[1].Value != "512m" {
		t.Errorf("values %q and %q, want 1.5 and 512m", report[0].Value, report[1].Value)
	}
	for _, e := range report {
		if e.Enforced != (by[e.Limit] != "") || e.By != by[e.Limit] {
			t.Errorf("%+v, want it enforced by %q", e, by[e.Limit])
		}
		if !e.Enforced && !strings.Contains(e.Reason, reason) {
			t.Errorf("%s: reason %q lacks %q", e.Limit, e.Reason, reason)
		}
	}
}

// checkLimits looks for the numbers in the control files.
func checkLimits(t *testing.T, g *Group, by map[string]string) {
	t.Helper()
	want := map[string]string{}
	switch by["cpus"] {
	case "cgroup v1":
		want["cpu.cfs_quota_us"], want["cpu.cfs_period_us"] = "150000", "100000"
	case "cgroup v2":
		want["cpu.max"] = "150000 100000"
	}
	switch by["memory"] {
	case "cgroup v1":
		want["memory.limit_in_bytes"], want["memory.memsw.limit_in_bytes"] = "536870912", "536870912"
	case "cgroup v2":
		want["memory.max"], want["memory.swap.max"] = "536870912", "0"
	}
	if g.Path() != "" {
		want["pids.max"] = "1424"
	}
	for file, value := range want {
		dir := g.dirWith(file)
		if got := strings.Join(fields(dir, file), " "); got != value {
			t.Errorf("%s is %q, want %q", file, got, value)
		}
	}
}

// checkUse uses a group as a keeper does.
func checkUse(t *testing.T, f *fake, g *Group) {
	t.Helper()
	for _, pid := range []int{callerPID, callerPID + 1} {
		if pid == callerPID+1 {
			for top := range f.tops { // a child starts in its parent's group
				f.addPID(f.groupOf(top, "4242"), pid)
			}
			continue
		}
		if err := g.Add(pid); err != nil {
			t.Fatal(err)
		}
	}
	again := &Group{host: f.host(), dirs: splitDirs(g.Path())}
	pids, err := again.Procs()
	if want := []int{callerPID, callerPID + 1}; err != nil || g.Path() != "" && !slices.Equal(pids, want) {
		t.Errorf("Procs() = %v, %v, want %v", pids, err, want)
	}
	if err := again.Remove(); g.Path() != "" && !errors.Is(err, unix.EBUSY) {
		t.Errorf("Remove of an inhabited group: %v, want EBUSY", err)
	}
	outsider := f.host()
	outsider.pid = 1
	if err := outsider.killPath(g.Path()); err != nil {
		t.Error(err)
	}
	if err := again.Remove(); err != nil {
		t.Error(err)
	}
	if left := f.leftovers(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// leftovers lists the directories that Create makes. Enabling controllers leaves none; a
// caller that had to move may still be in its leaf.
func (f *fake) leftovers() []string {
	var found []string
	filepath.WalkDir(f.path("cg"), func(path string, e os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(e.Name(), "bothy") && !(e.Name() == callerName && len(fields(path, "cgroup.procs")) > 0) {
			found = append(found, f.rel(path))
		}
		return nil
	})
	return found
}

func TestCreateRefusesABadID(t *testing.T) {
	f := newFake(t)
	v1Root(f)
	for _, id := range []string{"", "../../memory", "0123456789AB", "0123456789abc"} {
		if _, _, err := f.host().create(id, spec.Limits{}, all, unnoted); err == nil {
			t.Errorf("id %q was taken", id)
		}
	}
}

func TestCreateWithoutLimitsStillCapsProcesses(t *testing.T) {
	f := newFake(t)
	v2Plain(f)
	g, report, err := f.host().create(testID, spec.Limits{}, spec.Limits{}, unnoted)
	if err != nil || len(report) != 0 {
		t.Fatalf("report %v, error %v", report, err)
	}
	if got := f.read(f.rel(g.Path()) + "/pids.max"); got != "32768" {
		t.Errorf("pids.max is %s", got)
	}
}

func TestAskedBeatsDefault(t *testing.T) {
	f := newFake(t)
	v2Plain(f)
	asked := spec.Limits{Memory: 1 << 30}
	g, report, err := f.host().create(testID, asked, all, unnoted)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.read(f.rel(g.Path()) + "/memory.max"); got != "1073741824" {
		t.Errorf("memory.max is %s", got)
	}
	if len(report) != 2 || report[0].Value != "1.5" || report[1].Value != "1g" {
		t.Errorf("report %+v", report)
	}
}

func TestCreateReplacesALeftover(t *testing.T) {
	for name, machine := range map[string]func(*fake){"v1": v1Root, "v2": v2Terminal} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			machine(f)
			first, _, err := f.host().create(testID, all, spec.Limits{}, unnoted)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.mkdir(filepath.Join(first.dirs[0], "inner")); err != nil {
				t.Fatal(err)
			}
			f.put(first.dirWith("pids.max"), "pids.max", "0") // as after Kill
			second, _, err := f.host().create(testID, spec.Limits{Memory: 1 << 30}, all, unnoted)
			if err != nil {
				t.Fatal(err)
			}
			if second.Path() != first.Path() {
				t.Errorf("path %s, want %s", second.Path(), first.Path())
			}
			if got := fields(second.dirWith("pids.max"), "pids.max"); got[0] != "1424" {
				t.Errorf("pids.max is %s", got)
			}
			if isDir(filepath.Join(first.dirs[0], "inner")) {
				t.Error("a group inside the leftover is still there")
			}
		})
	}
}

func TestCreateRefusesAnInhabitedLeftover(t *testing.T) {
	f := newFake(t)
	v1Root(f)
	g, _, err := f.host().create(testID, spec.Limits{}, all, unnoted)
	if err != nil {
		t.Fatal(err)
	}
	f.addPID(g.dirWith("memory.usage_in_bytes"), 77)
	_, _, err = f.host().create(testID, spec.Limits{}, all, unnoted)
	if !errors.Is(err, spec.ErrConflict) || spec.Hint(err) == "" {
		t.Errorf("error %v, want a conflict with a hint", err)
	}
	if pids, _ := g.Procs(); !slices.Equal(pids, []int{77}) {
		t.Errorf("the processes of the earlier run are %v", pids)
	}
}

// TestCreateSurvivesAVanishingHome checks a race: another caller's last group is removed,
// and the home with it, between the creation of the home and of the group.
func TestCreateSurvivesAVanishingHome(t *testing.T) {
	f := newFake(t)
	v2Plain(f)
	times := 2
	f.onMkdir = func(dir string) {
		if isName(filepath.Base(dir)) && times > 0 {
			times--
			if err := f.rmdir(filepath.Dir(dir)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, _, err := f.host().create(testID, all, spec.Limits{}, unnoted); err != nil {
		t.Fatal(err)
	}
}

func TestKernelRefusesANumber(t *testing.T) {
	f := newFake(t)
	v1Root(f)
	f.refuse["memory.limit_in_bytes"] = unix.EINVAL
	g, report, err := f.host().create(testID, spec.Limits{}, all, unnoted)
	if err != nil {
		t.Fatal(err)
	}
	if report[1].Enforced || !strings.Contains(report[1].Reason, "memory.limit_in_bytes") {
		t.Errorf("report %+v", report[1])
	}
	if strings.Contains(g.Path(), "cg/memory") || len(g.dirs) != 2 {
		t.Errorf("path %s names a group without a limit", f.rel(g.Path()))
	}
	_, _, err = f.host().create(testID, all, spec.Limits{}, unnoted)
	if !errors.Is(err, spec.ErrSandbox) || spec.Hint(err) == "" {
		t.Errorf("error %v, want class ErrSandbox with a hint", err)
	}
	if left := f.leftovers(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestKernelRefusesAController checks that a controller that cannot be handed on (cpu,
// while real-time processes run) does not affect the others.
func TestKernelRefusesAController(t *testing.T) {
	f := newFake(t)
	v2Plain(f)
	f.refuse["cgroup.subtree_control"] = unix.EINVAL
	g, report, err := f.host().create(testID, spec.Limits{}, all, unnoted)
	if err != nil || g.Path() != "" || report[0].Enforced || report[1].Enforced {
		t.Errorf("group %q, report %+v, error %v", g.Path(), report, err)
	}
	if left := f.leftovers(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestOuterQuotaIsEnough(t *testing.T) {
	f := newFake(t)
	v1Root(f)
	top := "cg/cpu,cpuacct"
	f.put(f.path(top), "cpu.cfs_quota_us", "50000")
	_, report, err := f.host().create(testID, spec.Limits{CPUs: 2}, spec.Limits{}, unnoted)
	if err != nil || !report[0].Enforced {
		t.Errorf("report %+v, error %v: the group outside allows half a processor", report, err)
	}
}

func TestSwapThatIsNotCountedIsSaid(t *testing.T) {
	f := newFake(t)
	v2Plain(f)
	f.refuse["memory.swap.max"] = unix.ENOENT
	_, report, err := f.host().create(testID, all, spec.Limits{}, unnoted)
	if err != nil || !report[1].Enforced || report[1].Reason != "" {
		t.Errorf("no swap, report %+v, error %v", report[1], err)
	}
	f.file("proc/swaps", "/dev/vdb partition 1048572 0 -2\n")
	_, report, err = f.host().create(testID, all, spec.Limits{}, unnoted)
	if err != nil || !report[1].Enforced || !strings.Contains(report[1].Reason, "swap") {
		t.Errorf("with swap, report %+v, error %v", report[1], err)
	}
}

// TestCPUSetIsInherited checks a hierarchy that also carries cpuset. A group without
// processors and memory nodes could not take a process there.
func TestCPUSetIsInherited(t *testing.T) {
	f := newFake(t)
	f.v1("cpuset,cpu,memory,pids", "/")
	top := f.path("cg/cpuset,cpu,memory,pids")
	f.put(top, "cpuset.cpus", "0-3\n")
	f.put(top, "cpuset.mems", "0\n")
	g, _, err := f.host().create(testID, all, spec.Limits{}, unnoted)
	if err != nil {
		t.Fatal(err)
	}
	if len(g.dirs) != 1 {
		t.Errorf("path %s, want one directory", g.Path())
	}
	if got := f.read(f.rel(g.dirs[0]) + "/cpuset.cpus"); got != "0-3" {
		t.Errorf("cpuset.cpus is %q", got)
	}
}

// TestCallerMakesRoom checks that on v2 the caller moves out of its group, which then hands on
// controllers.
func TestCallerMakesRoom(t *testing.T) {
	f := newFake(t)
	v2Scope(f)
	g, _, err := f.host().create(testID, all, spec.Limits{}, unnoted)
	if err != nil {
		t.Fatal(err)
	}
	scope := "cg/unified/system.slice/run-1.scope"
	if got := f.read(scope + "/" + callerName + "/cgroup.procs"); got != "4242" {
		t.Errorf("the caller's leaf holds %q", got)
	}
	for _, dir := range []string{scope, scope + "/bothy.1000"} {
		if got := f.read(dir + "/cgroup.subtree_control"); got != "cpu memory pids" {
			t.Errorf("%s hands on %q", dir, got)
		}
	}
	// The caller stays in its leaf, and its next sandbox gets a group next to the first.
	next, _, err := f.host().create("ba9876543210", all, spec.Limits{}, unnoted)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := filepath.Dir(next.Path()), filepath.Dir(g.Path()); got != want {
		t.Errorf("the next group is in %s, want %s", f.rel(got), f.rel(want))
	}
	if err := g.Add(callerPID); err != nil {
		t.Errorf("the way into the group: %v", err)
	}
}

func unnoted(string) error { return nil }

// TestNotedBeforeItIsMade checks that a caller that dies at any moment of Create leaves only directories
// that were noted.
func TestNotedBeforeItIsMade(t *testing.T) {
	for name, set := range map[string]func(*fake){"v1": v1Root, "v2": v2Plain} {
		f := newFake(t)
		set(f)
		var noted string
		g, _, err := f.host().create(testID, all, spec.Limits{}, func(path string) error {
			if left := f.leftovers(); len(left) > 0 {
				t.Errorf("%s: %v were made before", name, left)
			}
			noted = path
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range g.dirs {
			if !slices.Contains(splitDirs(noted), dir) {
				t.Errorf("%s: %s was made, and not noted in %q", name, dir, noted)
			}
		}
		if err := f.host().removePath(noted); err != nil {
			t.Error(err)
		}
		if left := f.leftovers(); len(left) > 0 {
			t.Errorf("%s: %v are left", name, left)
		}
		_, _, err = f.host().create(testID, all, spec.Limits{}, func(string) error { return unix.ENOSPC })
		if left := f.leftovers(); !errors.Is(err, unix.ENOSPC) || len(left) > 0 {
			t.Errorf("%s: that it could not be noted: %v, %v are left", name, err, left)
		}
	}
}
