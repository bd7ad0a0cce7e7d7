package cgroup

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

func TestGroupOfNothing(t *testing.T) {
	f := newFake(t)
	g, _, err := f.host().create(testID, spec.Limits{}, all, unnoted)
	if err != nil {
		t.Fatal(err)
	}
	if g.Path() != "" {
		t.Errorf("path %q", g.Path())
	}
	current, limit, merr := g.Memory()
	events, eerr := g.Events()
	pids, perr := g.Procs()
	if current != 0 || limit != 0 || events != (Events{}) || pids != nil {
		t.Errorf("it reports %d, %d, %v, %v", current, limit, events, pids)
	}
	for _, err := range []error{merr, eerr, perr, g.Add(1), g.Remove(), Remove(""), Kill("")} {
		if err != nil {
			t.Error(err)
		}
	}
}

func TestReadings(t *testing.T) {
	tests := []struct {
		name    string
		machine func(*fake)
		files   map[string]string
	}{
		{"v1", v1Root, map[string]string{
			"memory.usage_in_bytes": "1000\n", "memory.stat": "inactive_file 7\ntotal_inactive_file 300\nactive_file 7\ntotal_active_file 100\n",
			"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", "pids.events": "max 5\n",
		}},
		{"v2", v2Plain, map[string]string{
			"memory.current": "1000\n", "memory.stat": "anon 600\ninactive_file 300\nactive_file 100\n",
			"memory.events": "low 0\nhigh 0\nmax 9\noom 4\noom_kill 3\n", "pids.events": "max 5\n",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			tt.machine(f)
			g, _, err := f.host().create(testID, all, spec.Limits{}, unnoted)
			if err != nil {
				t.Fatal(err)
			}
			for file, content := range tt.files {
				f.put(g.dirWith(file), file, content)
			}
			current, limit, err := g.Memory()
			if current != 600 || limit != all.Memory || err != nil {
				t.Errorf("Memory() = %d, %d, %v, want 600, %d", current, limit, err, all.Memory)
			}
			for enough, want := range map[int64]int64{999: 600, 1000: 1000} {
				if taken, err := g.Taken(enough); taken != want || err != nil {
					t.Errorf("Taken(%d) = %d, %v, want %d", enough, taken, err, want)
				}
			}
			events, err := g.Events()
			if want := (Events{OOMKills: 3, PidsDenied: 5}); events != want || err != nil {
				t.Errorf("Events() = %+v, %v, want %+v", events, err, want)
			}
			if err := g.Remove(); err != nil {
				t.Fatal(err)
			}
			if _, _, err := g.Memory(); err == nil {
				t.Error("memory of a removed group was read")
			}
			if _, err := g.Taken(1 << 30); err == nil {
				t.Error("what a removed group takes was read")
			}
			if _, err := g.Events(); err == nil {
				t.Error("events of a removed group were read")
			}
			if err := g.Remove(); err != nil {
				t.Errorf("second removal: %v", err)
			}
		})
	}
}

func TestMemoryWithoutLimit(t *testing.T) {
	for name, machine := range map[string]func(*fake){"v1": v1Root, "v2": v2Plain} {
		f := newFake(t)
		machine(f)
		dir := map[string]string{"v1": "cg/memory", "v2": "cg/unified"}[name]
		if name == "v2" {
			f.put(f.path(dir), "cgroup.subtree_control", "memory")
		}
		dir = filepath.Join(f.path(dir), "any")
		if err := f.mkdir(dir); err != nil {
			t.Fatal(err)
		}
		g := &Group{host: f.host(), dirs: []string{dir}}
		if _, limit, err := g.Memory(); limit != 0 || err != nil {
			t.Errorf("%s: limit %d, error %v, want none", name, limit, err)
		}
	}
}

func TestPathRoundTrip(t *testing.T) {
	const name = "/bothy-" + testID
	for _, dirs := range [][]string{
		nil,
		{"/a" + name},
		{"/a" + name, "/b/c" + name, "/d" + name},
		{"/dbus-:1.2-org@0.service" + name, "/x:/y" + name},
	} {
		g := &Group{dirs: dirs}
		if got := splitDirs(g.Path()); !slices.Equal(got, dirs) {
			t.Errorf("split(%q) = %q", g.Path(), got)
		}
	}
	for _, damaged := range []string{"x", ":", "/", "/a" + name + "/", name + "::" + name, "/a/b:/c/d"} {
		if got := strings.Join(splitDirs(damaged), ":"); got != damaged {
			t.Errorf("split(%q) loses something: %q", damaged, got)
		}
	}
}
